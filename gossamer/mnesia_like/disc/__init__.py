"""Disc copies: the database file, its queue of writes, journals, and backups."""
