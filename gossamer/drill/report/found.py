"""What a promise is judged by: kept, expected, got."""

Found = tuple[bool | None, str, str]
"""Kept, expected, got."""


def not_judged(why: str) -> Found:
    """Return the finding of a promise that a drill could not break."""
    return None, "", why


def short(node: str) -> str:
    """Return ``node3`` of ``node3@127.0.0.1``."""
    return node.partition("@")[0]
