"""Metrics as Prometheus reads them: the node's own, and those of its process."""
