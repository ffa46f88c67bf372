"""Replication of rows between nodes: own logs, replicas of peers' rows, and frames."""
