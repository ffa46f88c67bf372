"""Where a drill takes place: node processes, and the back ends that break the network between them."""
