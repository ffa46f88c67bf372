"""From a PUBLISH to its subscribers: fan-out, forwards of other nodes, share groups, delays.

``publishing`` is what the rest of a node publishes with; ``fanout`` compiles a route into a plan, ``inbound``
reads what other nodes forward; ``core`` is what rooms above share.
"""
