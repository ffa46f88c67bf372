"""One attempt of a transaction, where it runs: what it asked for, what it will write, and how it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gossamer.mnesia_like.transaction.locks import Age
from gossamer.mnesia_like.values import Key, Value

__all__ = ["GONE", "Attempt"]

GONE: Any = []
"""In place of ``[value]``: the row is deleted."""


def _no_objection() -> str:
    return ""


def _nothing() -> None:
    pass


@dataclass(slots=True)
class Attempt:
    """One attempt of a transaction of this node's.

    ``state``: ``active``, ``dead`` (begin anew), ``refused`` (will not go better), ``voting``, ``committed``,
    ``lost`` (the majority is gone and nobody here can know).
    """

    number: int
    age: Age
    state: str = "active"
    why: str = ""
    # (peer, request) of locks asked for and not granted.
    pending: set[tuple[str, int]] = field(default_factory=set)
    # Of each table that is locked for writing, the nodes where.
    writing: dict[str, set[str]] = field(default_factory=dict)
    # Nodes that know of this attempt.
    told: set[str] = field(default_factory=set)
    asked: dict[int, tuple[str, Key]] = field(default_factory=dict)
    rows: dict[str, dict[Key, list[Value]]] = field(default_factory=dict)
    voters: set[str] = field(default_factory=set)
    yes: set[str] = field(default_factory=set)
    stamp: int = 0
    # Rows of this node's own tables: why they cannot be written, if so, and the writing of them.
    objection: Callable[[], str] = _no_objection
    install_local: Callable[[], None] = _nothing

    @property
    def waiting(self) -> bool:
        """Whether there is something to wait for."""
        return self.state == "voting" or (self.state == "active" and bool(self.pending))
