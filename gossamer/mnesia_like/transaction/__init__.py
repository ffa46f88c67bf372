"""Transactions over nodes: coordinator, participants, locks, and the pipe between them. Pure machines."""
