"""Shared tables, which any node may write: versions, tombstones, epochs of membership, master nodes."""
