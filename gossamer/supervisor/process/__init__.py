"""Processes: the table of a node, signals, calls, ports, and functions for code inside a process."""
