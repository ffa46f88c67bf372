"""What computes: Spark, or DuckDB for small recordings, behind one interface."""
