"""Processes: the table of a node, signals, calls, ports, and what code inside a process may do."""
