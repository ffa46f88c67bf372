"""Schema: the table of all tables and their copies, its keeper, and commands that change it."""
