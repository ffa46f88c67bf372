"""Execution of drills: script, executor, load, watch on the nodes, suite of all drills."""
