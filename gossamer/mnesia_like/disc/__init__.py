"""What survives a node: the database file, its queue of writes, journals, and backups."""
