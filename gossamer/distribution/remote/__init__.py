"""Beyond the node: processes, calls, global names and groups of other nodes."""
