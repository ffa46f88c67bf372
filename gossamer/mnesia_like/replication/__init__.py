"""Rows between nodes: what this one owns and feeds, what it holds of others, and the frames."""
