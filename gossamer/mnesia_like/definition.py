"""Table definitions: type, storage, replication.

The words are Mnesia's: ``set``, ``ordered_set`` and ``bag``, ``ram_copies`` and ``disc_copies``. ``local``
tables are this node's alone. In an ``owned`` table every row has one owner node; only that node writes it, so
no network split can make two versions of it. A ``shared`` table is written by every node and the latest
version wins; with ``majority`` only where most of its nodes are reachable.

Copies exchange rows only where their definitions have the same *fingerprint*: the options that must agree
between nodes. A copy's storage and limits may differ. A table created for several nodes at once has an
``id``: created twice under one name, it is two tables, until one of them gives way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from gossamer.mnesia_like.errors import BadRowError, BadTableError
from gossamer.mnesia_like.values import KEY_TYPES, Key, Value, describe, encode, is_key

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,63}")
_TYPES = ("set", "ordered_set", "bag")
_STORAGES = ("ram_copies", "disc_copies")
_KINDS = ("local", "owned", "shared")
_ENCODABLE = "valid Unicode and 64-bit integers"
_EACH_ITS_OWN = frozenset({"name", "storage", "history", "id"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDef:
    """Definition of a table. Limits are of the encoded row, in bytes; times in seconds.

    Raises:
        BadTableError: an option is invalid.
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
    """Of a shared table, which rows win after a split: ``lww`` (the latest), ``survivors`` (those of
    the larger side), or the name of a registered merge function."""
    history: int = 256
    """Number of changed rows kept for subscribers that were away."""
    id: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        shared = self.replication == "shared"
        types = {"owned": ("set", "bag"), "shared": ("set", "ordered_set")}.get(self.replication, _TYPES)
        elsewhere = f"where replication is {self.replication}"
        name = "a letter, then at most 63 letters, digits, '_', '.' or '-'"
        # Per option: whether it is valid, and what is expected. The first invalid one is reported.
        checks: tuple[tuple[str, bool, str], ...] = (
            ("name", _named(self.name), name),
            ("type", self.type in _TYPES, f"one of {', '.join(_TYPES)}"),
            ("storage", self.storage in _STORAGES, f"one of {', '.join(_STORAGES)}"),
            ("replication", self.replication in _KINDS, f"one of {', '.join(_KINDS)}"),
            ("max_key_bytes", 1 <= self.max_key_bytes <= 65_600, "1 to 65600 bytes"),
            ("max_value_bytes", 1 <= self.max_value_bytes <= 131_072, "1 to 131072 bytes"),
            ("history", type(self.history) is int and 0 <= self.history <= 1_000_000, "0 to 1,000,000 rows"),
            ("grace", self.grace >= 0, "0 seconds or more"),
            ("tombstone_horizon", self.tombstone_horizon >= 0, "0 seconds or more"),
            ("type", self.type in types, f"{' or '.join(types)} {elsewhere}"),
            ("heal", _named(self.heal), "lww, survivors, or a merge function's name"),
            ("heal", shared or self.heal == "lww", f"lww {elsewhere}"),
            ("majority", shared or not self.majority, f"False {elsewhere}"),
        )
        for option, fits, expected in checks:
            if not fits:
                raise BadTableError(
                    str(self.name), option=option, got=getattr(self, option), expected=expected
                )

    @property
    def shape(self) -> str:
        """Form of the rows: replication and type."""
        return f"{self.replication} {self.type}"

    @property
    def fingerprint(self) -> str:
        """Options that peers must agree on to exchange rows."""
        terms = [self.shape]
        if self.replication == "shared":
            if self.majority:
                terms.append("majority")
            terms.append(f"tombstones for {self.tombstone_horizon:g} s")
        if self.id:
            terms.append(f"made as {self.id}")
        return ", ".join(terms)

    def encode_key(self, key: Key) -> bytes:
        """Encode a key.

        Raises:
            BadRowError: the key has another type, is not encodable, or is too large.
        """
        if type(key) not in KEY_TYPES or (type(key) is tuple and not is_key(key)):
            raise BadRowError(
                self.name, where="key", got=describe(key), expected="str, bytes, int, or a tuple of these"
            )
        try:
            encoded = encode(key)
        except (UnicodeEncodeError, OverflowError) as error:
            raise BadRowError(self.name, where="key", got=str(error), expected=_ENCODABLE) from error
        if len(encoded) > self.max_key_bytes:
            most = f"at most {self.max_key_bytes} bytes"
            raise BadRowError(self.name, where="key", got=f"{len(encoded)} bytes", expected=most)
        return encoded

    def encode_value(self, value: Value) -> bytes:
        """Encode a value that is already ``canonical``.

        Raises:
            BadRowError: the value is not encodable, or too large.
        """
        try:
            encoded = encode(value)
        except (UnicodeEncodeError, OverflowError) as error:
            raise BadRowError(self.name, where="value", got=str(error), expected=_ENCODABLE) from error
        if len(encoded) > self.max_value_bytes:
            most = f"at most {self.max_value_bytes} bytes"
            raise BadRowError(self.name, where="value", got=f"{len(encoded)} bytes", expected=most)
        return encoded

    def options(self) -> dict[str, object]:
        """Return the options that all copies share: all but name, storage, history and id."""
        named = {f.name: getattr(self, f.name) for f in fields(self)}
        return {option: value for option, value in named.items() if option not in _EACH_ITS_OWN}

    def differences(self, options: Mapping[str, object]) -> list[str]:
        """Describe the shared options in which this definition differs from ``options``."""
        return [
            f"{option} is {mine!r} here and {options[option]!r} there"
            for option, mine in self.options().items()
            if option in options and options[option] != mine
        ]

    def __str__(self) -> str:
        return f"{self.replication} {self.type} in {self.storage}"


def _named(word: object) -> bool:
    return isinstance(word, str) and _NAME.fullmatch(word) is not None
