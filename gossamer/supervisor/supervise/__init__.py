"""Supervision: what a supervisor is told, what it decides, and the servers that carry it out."""
