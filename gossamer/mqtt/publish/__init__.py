"""From a PUBLISH to its subscribers: fan-out, inbound forwards, share groups, delayed messages.

``publishing`` is the interface to the rest of a node; ``fanout`` delivers by the plan of a route, ``inbound``
takes the forwards of other nodes; ``core`` is the state that rooms above share.
"""
