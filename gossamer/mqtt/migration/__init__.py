"""Migration: a session follows its client to another node. Claims, state machines, superseded sessions.

``machines`` decides what ``source`` and ``target`` do, on the values in ``moves``; ``ownership`` holds the
claims, and ``takeover`` is the interface to the rest of a node and to other nodes.
"""
