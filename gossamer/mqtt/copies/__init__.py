"""Copies of persistent sessions that a quorum has, from which another node goes on when theirs is down.

``rows`` says how a session is laid out in ``gossamer.basekv``, ``machine`` which of its rows are still to be
written there, without clock and I/O; ``copies`` writes them, and reads what a node that is down has left.
"""
