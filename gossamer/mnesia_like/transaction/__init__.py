"""Distributed transactions: coordinator, participants, locks, as pure state machines."""
