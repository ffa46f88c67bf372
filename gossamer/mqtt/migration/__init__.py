"""A session that follows its client to another node: claims, the machines of a move, what is left behind.

``machines`` decides what ``source`` and ``target`` do, upon the values in ``moves``; ``ownership`` says who
has a session, and ``takeover`` is what the rest of a node, and other nodes, ask.
"""
