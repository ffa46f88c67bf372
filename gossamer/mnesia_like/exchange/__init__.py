"""Rows between nodes: what this one owns and feeds to others, what it holds of them, and the frames."""
