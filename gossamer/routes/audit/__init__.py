"""Routes held against what they should be: on this node, and between this node and a peer."""
