"""From a PUBLISH to its subscribers: messages and their ids, fan-out, forwards of other nodes.

``fanout`` compiles a route into a plan; ``inbound`` reads what other nodes forward.
"""
