"""Tables of replication ``quorum``: rows that a quorum of discs has, and that are the same for whoever reads
them.

Rows are keys of :mod:`gossamer.basekv`, in one range for each table. Reading and writing take a round trip to
the range's leader and a quorum, and raise where none can be reached, on the smaller side of a cut for
example. Other tables answer at once, from memory, and on both sides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from gossamer import basekv
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.values import Key, Value, canonical, decode, encode


class QuorumTable:
    """The table of that name, which every node finds by it; call it in a process.

    Each method raises UnavailableError without a quorum, and a write says whether it may be done all the
    same.
    """

    def __init__(self, name: str) -> None:
        """Raise BadTableError if it is no name of a table."""
        self.definition = TableDef(name=name)
        spread = hashlib.blake2b(name.encode(), digest_size=1).digest()
        self._prefix = spread + encode(["table", name])

    def __repr__(self) -> str:
        return f"<QuorumTable {self.definition.name}>"

    async def read(self, key: Key, default: Value = None, *, max_staleness: float = 0.0) -> Value:
        """Return the value of a key, as of now, or of so many seconds ago at most."""
        found = await basekv.get(self._key(key), max_staleness=max_staleness)
        return default if found is None else decode(found)

    async def write(self, key: Key, value: Value) -> None:
        """Set the value of a key. Raises BadRowError."""
        await basekv.write([basekv.Put(self._key(key), self._value(value))])

    async def delete(self, key: Key) -> None:
        """Remove a row, if it is there."""
        await basekv.delete(self._key(key))

    async def insert_new(self, key: Key, value: Value) -> bool:
        """Write a row unless there is one; return whether it was written."""
        at = self._key(key)
        return await basekv.write([basekv.Put(at, self._value(value))], [basekv.Expect(at, None)])

    async def replace(self, key: Key, old: Value, new: Value) -> bool:
        """Write a row if its value is ``old``; return whether it was."""
        at = self._key(key)
        return await basekv.write([basekv.Put(at, self._value(new))], [basekv.Expect(at, self._value(old))])

    async def rows(self, limit: int | None = None, *, max_staleness: float = 0.0) -> dict[Key, Value]:
        """Return all rows, ``limit`` at most, in the order of their encoded keys, as of now or of so many
        seconds ago at most."""
        # Behind the last of all keys, which is -1.
        end = self._prefix + b"\xff\0"
        found = await basekv.scan(self._prefix, end, limit, max_staleness=max_staleness)
        return {_key_of(key[len(self._prefix) :]): decode(value) for key, value in found}

    def _key(self, key: Key) -> bytes:
        return self._prefix + self.definition.encode_key(key)

    def _value(self, value: Value) -> bytes:
        return self.definition.encode_value(canonical(self.definition.name, value))


def _key_of(data: bytes) -> Key:
    return _tuples(decode(data))


def _tuples(key: Sequence[Key] | Key) -> Key:
    """Return a key as it was written: msgpack has no tuples."""
    return tuple(map(_tuples, key)) if isinstance(key, list) else key
