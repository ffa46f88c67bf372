"""Requests to other nodes, and one answer out of theirs: pages and streams in the order of their keys."""
