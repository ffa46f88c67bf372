"""From a PUBLISH to its subscribers: fan-out, forwards of other nodes, share groups, delays.

``fanout`` compiles a route into a plan; ``inbound`` reads what other nodes forward.
"""
