"""Stage of a drill: node processes, and the back ends that break the network between them."""
