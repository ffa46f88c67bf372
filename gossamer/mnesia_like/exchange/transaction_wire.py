"""What nodes say to each other about transactions.

A transaction's *attempt* is named by a number of its coordinator's, and the coordinator is whoever sent the
message: no peer can speak of another's transactions but to ask how one ended. Rows and keys travel as maps,
because msgpack gives back a tuple as a tuple only where it is a map's key.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "Commit",
    "Died",
    "End",
    "Granted",
    "Know",
    "Lock",
    "Prepare",
    "Query",
    "Stage",
    "TransactionMessage",
    "Vote",
]


class Lock(msgspec.Struct, frozen=True, array_like=True, tag="L"):
    """Lock a row of ``table`` for my attempt (no key: the whole table). ``age``: when it first began."""

    number: int
    request: int
    age: int
    table: str
    key: dict[Any, None]
    write: bool


class Granted(msgspec.Struct, frozen=True, array_like=True, tag="G"):
    """Your attempt has the lock. ``version`` is that of the row here; empty where there is none."""

    number: int
    request: int
    version: list[Any]


class Died(msgspec.Struct, frozen=True, array_like=True, tag="D"):
    """Your attempt cannot have the lock: something older has it. End it and begin again."""

    number: int


class Stage(msgspec.Struct, frozen=True, array_like=True, tag="S"):
    """Rows that my attempt will write (``[]`` deletes, ``[value]`` sets), and versions that it has read."""

    number: int
    table: str
    rows: dict[Any, list[Any]]
    reads: dict[Any, list[Any]]


class Prepare(msgspec.Struct, frozen=True, array_like=True, tag="P"):
    """Can you write what was staged, under this version? ``peers``: who else is asked."""

    number: int
    stamp: int
    peers: list[str]


class Vote(msgspec.Struct, frozen=True, array_like=True, tag="V"):
    """Answer to Prepare; ``problem`` is empty for yes. ``again``: a new attempt may go better."""

    number: int
    problem: str
    again: bool


class Commit(msgspec.Struct, frozen=True, array_like=True, tag="C"):
    """Write what was staged, then let go of the attempt's locks."""

    number: int
    stamp: int


class End(msgspec.Struct, frozen=True, array_like=True, tag="E"):
    """Forget the attempt: its locks, and what was staged."""

    number: int


class Query(msgspec.Struct, frozen=True, array_like=True, tag="Q"):
    """``node`` is gone and I voted yes to its attempt: what do you know of it?"""

    node: str
    number: int


class Know(msgspec.Struct, frozen=True, array_like=True, tag="K"):
    """Answer to Query: ``prepared``, ``committed`` or ``unknown``."""

    node: str
    number: int
    state: str


TransactionMessage = Lock | Granted | Died | Stage | Prepare | Vote | Commit | End | Query | Know
