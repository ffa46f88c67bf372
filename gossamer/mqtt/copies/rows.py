"""Layout of a session's copy: the rows of its journal under one prefix, behind a row that says who writes.

::

    <spread><digest of the client>                  one session; ``spread`` is the digest's first byte
        [10, 0]                -> Owner             whose connection it is: each write requires this value
        [kind, key]            -> value             a row of the journal, as on disc
        [kind, digest, 0]      -> [key, value]      the same with a key that is too long
        <row> 00 <number>      -> bytes             parts of a value that is too long, which has their number

Rules: 1. A node that takes a session over replaces the owner first: whatever the one before it still has on
its way is not written any more.  2. Writes that do not fit one batch come in this order: what is new, then
what is gone, so that whoever reads in between finds a message twice rather than not at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gossamer.basekv import Delete, DeleteRange, Operation, Put

OWNER = 10
"""Kind of the owner's row; the others are those of ``session.store``."""
PREFIX = 17
MAX_SUFFIX = 512
PIECE = 100 * 1024
CHUNK_OPERATIONS = 900
CHUNK_BYTES = 128 * 1024
"""Bounds of one write, well below those of a range; over a slow link, a large one would not come in time."""
_PIECES = b"\xc1"
"""First byte, which no value has, of the number of parts of a value."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class Owner(msgspec.Struct, frozen=True, array_like=True):
    """Who writes a session's copy: a node in one of its creations, and the epoch of its claim."""

    node: str
    creation: int
    epoch: int

    @property
    def claim(self) -> tuple[int, str]:
        """What decides between two owners: the higher has the session."""
        return self.epoch, self.node

    def outbids(self, mine: Owner) -> bool:
        """Return whether the session is another process's: of another node, or of this one before it was
        killed, which had just claimed a better one than its disc has."""
        same = (self.node, self.creation) == (mine.node, mine.creation)
        return not same and self.claim > mine.claim


_owner = msgspec.msgpack.Decoder(Owner).decode


def prefix_of(client_id: str) -> bytes:
    """Return the beginning of all keys of a session's copy, of :data:`PREFIX` bytes."""
    digest = hashlib.blake2b(client_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return digest[:1] + digest


def end_of(prefix: bytes) -> bytes:
    """Return the key behind all those of a copy."""
    return prefix + b"\xff"


OWNER_SUFFIX = _encode([OWNER, 0])
SESSION_SUFFIX = _encode([0, 0])


def row_of(kind: int, key: object, value: bytes | None) -> tuple[bytes, bytes | None]:
    """Return the end of a row's key, and its value; None: it is deleted."""
    suffix = _encode([kind, key])
    if len(suffix) <= MAX_SUFFIX:
        return suffix, value
    suffix = _encode([kind, hashlib.blake2b(suffix, digest_size=16).digest(), 0])
    return suffix, None if value is None else _encode([key, value])


def in_pieces(key: bytes, value: bytes) -> list[tuple[bytes, bytes]]:
    """Return the rows that hold a value: one, or its parts and their number."""
    if len(value) <= PIECE:
        return [(key, value)]
    parts = [value[at : at + PIECE] for at in range(0, len(value), PIECE)]
    pieces = [(key + b"\0" + number.to_bytes(2), part) for number, part in enumerate(parts)]
    return [*pieces, (key, _PIECES + len(parts).to_bytes(2))]


def is_in_pieces(value: bytes) -> bool:
    """Return whether a row has the number of its parts instead of a value."""
    return value[:1] == _PIECES


def deleted(key: bytes, *, pieces: bool) -> Operation:
    """Return the operation that removes a row; ``pieces``: its value may be in parts."""
    return DeleteRange(key, key + b"\1") if pieces else Delete(key)


def is_large(rows: Iterable[tuple[int, object, object]]) -> bool:
    """Return whether rows do not fit one write."""
    size = 0
    for count, (kind, key, value) in enumerate(rows):
        suffix, data = row_of(kind, key, _encode(value))
        size += PREFIX + len(suffix) + len(data or b"")
        if count > CHUNK_OPERATIONS - 10 or size > CHUNK_BYTES - 1024:
            return True
    return False


def whole(
    prefix: bytes,
    rows: Iterable[tuple[int, object, object]],
    known: Mapping[bytes, bytes] | None,
    large: dict[bytes, None],
) -> list[Operation]:
    """Return the operations that make ``rows`` of what is ``known``; None: of whatever there is, if done in
    one write. ``large`` becomes those in parts."""
    wanted: dict[bytes, bytes] = {}
    large.clear()
    for kind, key, value in rows:
        suffix, data = row_of(kind, key, _encode(value))
        wanted.update(_pieces(suffix, data or b"", large))
    new = [suffix for suffix, value in wanted.items() if known is None or known.get(suffix) != value]
    # Its own row last: who reads in between takes what is there for the session before.
    new.sort(key=SESSION_SUFFIX.__eq__)
    puts = [Put(prefix + suffix, wanted[suffix]) for suffix in new]
    if known is None:
        owner = prefix + OWNER_SUFFIX
        return [DeleteRange(prefix, owner), DeleteRange(owner + b"\0", end_of(prefix)), *puts]
    gone = known.keys() - wanted.keys() - {OWNER_SUFFIX}
    return [*puts, *(Delete(prefix + suffix) for suffix in gone)]


def changes(prefix: bytes, rows: Mapping[bytes, bytes | None], large: dict[bytes, None]) -> list[Operation]:
    """Return the operations that change ``rows``, None to delete one; ``large`` has those in parts."""
    replaced: list[Operation] = []
    new: list[Operation] = []
    gone: list[Operation] = []
    before = set(large)
    for suffix, value in rows.items():
        large.pop(suffix, None)
        if value is None:
            gone.append(deleted(prefix + suffix, pieces=suffix in before))
            continue
        if suffix in before:
            # A value in parts goes before the one that replaces it.
            replaced.append(deleted(prefix + suffix, pieces=True))
        new += [Put(prefix + end, part) for end, part in _pieces(suffix, value, large)]
    return [*replaced, *new, *gone]


def _pieces(suffix: bytes, value: bytes, large: dict[bytes, None]) -> list[tuple[bytes, bytes]]:
    pieces = in_pieces(suffix, value)
    if len(pieces) > 1:
        large[suffix] = None
    return pieces


def chunks(operations: Iterable[Operation]) -> Iterator[list[Operation]]:
    """Yield operations in writes that fit, in their order."""
    chunk: list[Operation] = []
    size = 0
    for operation in operations:
        weight = len(operation.value) + len(operation.key) if isinstance(operation, Put) else 64
        if chunk and (len(chunk) >= CHUNK_OPERATIONS or size + weight > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(operation)
        size += weight
    if chunk:
        yield chunk


def owner_in(rows: Mapping[bytes, bytes]) -> Owner | None:
    """Return the owner in the rows of a copy, by the ends of their keys; None: there is no copy."""
    found = rows.get(OWNER_SUFFIX)
    return None if found is None else _owner(found)


def encoded(owner: Owner) -> bytes:
    """Return the value of the owner's row."""
    return _encode(owner)


def facts_in(rows: Mapping[bytes, bytes]) -> list[Any] | None:
    """Return the session's own row in the rows of a copy, as :class:`.session.store.Facts`; None: none."""
    found = rows.get(SESSION_SUFFIX)
    return None if found is None else list(_decode(found))


def journal_in(client_id: str, rows: Mapping[bytes, bytes]) -> dict[tuple[str, int, Any], Any]:
    """Return the rows of a copy, by the ends of their keys, as :meth:`SessionStore.read` takes them."""
    found: dict[tuple[str, int, Any], Any] = {}
    for suffix, value in rows.items():
        try:
            kind, key, *long = _decode(suffix)
        except msgspec.DecodeError:
            # A part of the value of another row.
            continue
        if kind == OWNER:
            continue
        whole = _joined(suffix, value, rows) if is_in_pieces(value) else value
        if whole is None:
            continue
        if long:
            key, whole = _decode(whole)
        found[client_id, kind, key] = _decode(whole)
    return found


def _joined(suffix: bytes, value: bytes, rows: Mapping[bytes, bytes]) -> bytes | None:
    count = int.from_bytes(value[1:3])
    parts: Sequence[bytes | None] = [rows.get(suffix + b"\0" + n.to_bytes(2)) for n in range(count)]
    known = [part for part in parts if part is not None]
    return b"".join(known) if len(known) == count else None
