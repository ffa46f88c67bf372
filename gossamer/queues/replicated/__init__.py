"""The state machine of a replication group: its queues, and all that is their state. Pure."""
