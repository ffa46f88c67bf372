"""Recordings as they lie on disc: files, holes between them, and the clocks of their nodes."""
