"""Shared tables, which any node may write: versions, tombstones, membership epochs, master nodes."""
