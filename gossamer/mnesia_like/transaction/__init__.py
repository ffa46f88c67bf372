"""Transactions over nodes: coordinator, participants, locks. Pure machines."""
