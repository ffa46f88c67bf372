"""Supervision: child specifications, restart decisions, and the supervisors."""
