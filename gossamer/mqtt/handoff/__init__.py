"""Hinted handoff: messages for persistent sessions of nodes that are away are kept, and replayed to them.

``keeper``, ``hint_store`` and ``hint_log`` keep, ``replay`` receives, ``following`` follows moved sessions.
"""
