"""Which tables there are, with their copies: the schema's own table, its keeper, and changes to it."""
