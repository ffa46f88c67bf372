"""Table API: local, owned and shared tables, and queries on them."""
