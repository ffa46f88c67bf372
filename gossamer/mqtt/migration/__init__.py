"""A session that follows its client to another node: claims, the machines of a move, what is left behind.

``machines`` decides what source and target do, upon the values in ``moves``; ``takeover`` and ``target`` act.
"""
