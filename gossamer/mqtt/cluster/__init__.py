"""State that the brokers of a cluster share besides sessions: retained messages and wills.

``coordinator`` wires the parts of one broker to the other nodes.
"""
