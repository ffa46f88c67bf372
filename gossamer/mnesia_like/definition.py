"""What a table is: its kind, where it is kept, how it replicates.

The words are Mnesia's: ``set``, ``ordered_set`` and ``bag``, ``ram_copies`` and ``disc_copies``. ``local``
tables are this node's alone. In an ``owned`` table every row has one owner node; only that node writes it, so
that no split of the network can make two versions of it. A ``shared`` table is written by every node, the
latest version wins; with ``majority`` only where most of its nodes can be reached.

Copies exchange rows only where their definitions agree in what matters between nodes: the *pact*. Where a
copy is kept, and its limits, are its own affair. A table that was made for several nodes at once has an
``id``: made twice, under one name, it is two tables, until one of them gives way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from gossamer.mnesia_like.errors import BadTableError

__all__ = ["TableDef"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,63}")
_HEAL = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,63}")
_CHOICES = {
    "type": ("set", "ordered_set", "bag"),
    "storage": ("ram_copies", "disc_copies"),
    "replication": ("local", "owned", "shared"),
}
_EACH_ITS_OWN = frozenset({"name", "storage", "history", "id"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDef:
    """A table's definition. Limits are of the encoded row, in bytes; times in seconds.

    Raises:
        BadTableError: an option that cannot be.
    """

    name: str
    type: str = "set"
    storage: str = "ram_copies"
    replication: str = "local"
    max_key_bytes: int = 65_600
    max_value_bytes: int = 131_072
    grace: float = 30.0
    majority: bool = False
    tombstone_horizon: float = 86_400.0
    heal: str = "lww"
    """Of a shared table, whose rows win after a split: ``lww`` (the latest), ``survivors`` (those of
    the larger side), or the name of a merge function that was registered."""
    history: int = 256
    """How many changed rows are kept for subscribers that were away."""
    id: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise BadTableError(
                str(self.name),
                option="name",
                got=self.name,
                expected="a letter, then at most 63 letters, digits, '_', '.' or '-'",
            )
        for option, choices in _CHOICES.items():
            got = getattr(self, option)
            if got not in choices:
                raise BadTableError(
                    self.name, option=option, got=got, expected=f"one of {', '.join(choices)}"
                )
        for option, most in (("max_key_bytes", 65_600), ("max_value_bytes", 131_072)):
            got = getattr(self, option)
            if not 1 <= got <= most:
                raise BadTableError(self.name, option=option, got=got, expected=f"1 to {most} bytes")
        if type(self.history) is not int or not 0 <= self.history <= 1_000_000:
            raise BadTableError(self.name, option="history", got=self.history, expected="0 to 1,000,000 rows")
        for option in ("grace", "tombstone_horizon"):
            got = getattr(self, option)
            if got < 0:
                raise BadTableError(self.name, option=option, got=got, expected="0 seconds or more")
        fitting = {"owned": ("set", "bag"), "shared": ("set", "ordered_set")}.get(self.replication)
        if fitting is not None and self.type not in fitting:
            raise BadTableError(
                self.name,
                option="type",
                got=self.type,
                expected=f"{' or '.join(fitting)} where replication is {self.replication}",
            )
        if not isinstance(self.heal, str) or not _HEAL.fullmatch(self.heal):
            raise BadTableError(
                self.name, option="heal", got=self.heal, expected="lww, survivors, or a merge function's name"
            )
        if self.heal != "lww" and self.replication != "shared":
            raise BadTableError(
                self.name, option="heal", got=self.heal, expected="lww where replication is not shared"
            )
        if self.majority and self.replication != "shared":
            raise BadTableError(
                self.name, option="majority", got=True, expected="False where replication is not shared"
            )

    @property
    def shape(self) -> str:
        """What its rows look like."""
        return f"{self.replication} {self.type}"

    @property
    def pact(self) -> str:
        """What peers must agree on to exchange rows."""
        terms = [self.shape]
        if self.replication == "shared":
            if self.majority:
                terms.append("majority")
            terms.append(f"tombstones for {self.tombstone_horizon:g} s")
        if self.id:
            terms.append(f"made as {self.id}")
        return ", ".join(terms)

    def options(self) -> dict[str, Any]:
        """Everything but the name, where it is kept and the id: what is the same at all copies."""
        named = {f.name: getattr(self, f.name) for f in fields(self)}
        return {option: value for option, value in named.items() if option not in _EACH_ITS_OWN}

    def differences(self, options: Mapping[str, Any]) -> list[str]:
        """In which options that copies share it differs from others, in words."""
        return [
            f"{option} is {mine!r} here and {options[option]!r} there"
            for option, mine in self.options().items()
            if option in options and options[option] != mine
        ]

    def __str__(self) -> str:
        return f"{self.replication} {self.type} in {self.storage}"
