"""Carrying drills out: a script of steps, their executor, the watch on the nodes, the suite of all drills."""
