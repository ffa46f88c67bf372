"""Replicated tables."""
