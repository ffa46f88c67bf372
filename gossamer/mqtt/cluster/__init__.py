"""What the brokers of a cluster share beside sessions: retained messages, wills, and when a node may serve.

``coordinator`` wires the parts of one broker to the other nodes.
"""
