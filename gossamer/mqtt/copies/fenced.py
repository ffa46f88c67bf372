"""Reads and writes of one session's copy; each write requires the owner that was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from gossamer import basekv
from gossamer.basekv import DeleteRange, Expect, Operation, Put
from gossamer.errors import UnavailableError
from gossamer.mqtt.copies import rows as layout
from gossamer.mqtt.copies.rows import OWNER_SUFFIX, Owner


class OwnedElsewhereError(UnavailableError):
    """The owner of a copy is not the one that was expected; nothing was written."""

    def __init__(self, expected: Owner | None) -> None:
        self.expected = expected
        name = "none" if expected is None else expected.node
        super().__init__(f"copy of a session: expected {name} for its owner, and another is; read it again")


class KeyValues(Protocol):
    """Where copies are kept: the functions of :mod:`gossamer.basekv`."""

    async def write(self, operations: Sequence[Operation], expected: Iterable[Expect] = ()) -> bool: ...
    async def scan(self, start: bytes, end: bytes) -> list[tuple[bytes, bytes]]: ...
    def range_of(self, key: bytes) -> int: ...


class Ranges:
    """The ranges of this node's cluster, for a process of the node."""

    write = staticmethod(basekv.write)
    scan = staticmethod(basekv.scan)
    range_of = staticmethod(basekv.range_of)


class Image(NamedTuple):
    """What a quorum has of a session: who wrote it, and its rows as :meth:`SessionStore.read` takes them."""

    owner: Owner
    rows: Mapping[Any, Any]
    stored: Mapping[bytes, bytes]
    """The same rows as they are stored, by the ends of their keys."""


async def read(keys: KeyValues, prefix: bytes) -> dict[bytes, bytes]:
    """Return the rows of a copy by the ends of their keys. Raises UnavailableError."""
    rows = await keys.scan(prefix, layout.end_of(prefix))
    return {found[len(prefix) :]: value for found, value in rows}


async def owner_of(keys: KeyValues, prefix: bytes) -> Owner | None:
    """Return the owner of a copy; None: there is none. Raises UnavailableError."""
    key = prefix + OWNER_SUFFIX
    rows = await keys.scan(key, key + b"\0")
    return layout.owner_in({OWNER_SUFFIX: rows[0][1]}) if rows else None


async def image_of(keys: KeyValues, client_id: str) -> Image | None:
    """Return what a quorum has of a session; None: nothing. Raises UnavailableError."""
    rows = await read(keys, layout.prefix_of(client_id))
    owner = layout.owner_in(rows)
    return None if owner is None else Image(owner, layout.journal_in(client_id, rows), rows)


async def claim(keys: KeyValues, client_id: str, found: Owner, mine: Owner) -> Image | None:
    """Put ``mine`` in the place of the owner that was ``found``; return what a quorum has of the session now.
    None: somebody else was faster. Raises UnavailableError.

    From then on nothing is written that the other owner still has on its way.
    """
    key = layout.prefix_of(client_id) + OWNER_SUFFIX
    if not await keys.write([Put(key, layout.encoded(mine))], [Expect(key, layout.encoded(found))]):
        return None
    return await image_of(keys, client_id)


async def write(
    keys: KeyValues, prefix: bytes, found: Owner | None, mine: Owner, operations: list[Operation]
) -> None:
    """Do operations as ``mine``, where ``found`` is the owner, in as many writes as it takes.

    Raises OwnedElsewhereError, UnavailableError.
    """
    key = prefix + OWNER_SUFFIX
    if found != mine:
        operations = [Put(key, layout.encoded(mine)), *operations]
    owner = found
    for chunk in layout.chunks(operations):
        expected = None if owner is None else layout.encoded(owner)
        if not await keys.write(chunk, [Expect(key, expected)]):
            raise OwnedElsewhereError(owner)
        owner = mine


async def remove(keys: KeyValues, prefix: bytes, owner: Owner | None, node: str) -> None:
    """Delete a copy if it is that of a node; ``owner`` None: it is not known whose it is.

    Raises UnavailableError.
    """
    owner = owner or await owner_of(keys, prefix)
    if owner is not None and owner.node == node:
        expected = Expect(prefix + OWNER_SUFFIX, layout.encoded(owner))
        await keys.write([DeleteRange(prefix, layout.end_of(prefix))], [expected])
