"""Groups of a node: replicas run over its links and its disc."""
