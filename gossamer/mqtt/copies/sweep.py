"""Sweep: deletes copies that have expired while the node of their session is away.

A session that ends takes its copy with it; one whose node has left for good, or has lost its disc, cannot.

Rules: 1. Time is that of the day, with :data:`MARGIN` for clocks that differ.  2. A client that was connected
when its node went has the whole expiry from when that is first seen here.  3. A copy that somebody takes over
meanwhile stays: the deletion names the owner that was found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from gossamer.basekv import DeleteRange, Expect
from gossamer.mqtt.copies import fenced
from gossamer.mqtt.copies import rows as layout
from gossamer.mqtt.copies.fenced import KeyValues
from gossamer.mqtt.copies.rows import OWNER_SUFFIX, PREFIX, SESSION_SUFFIX, Owner
from gossamer.mqtt.session.sessions import NEVER
from gossamer.mqtt.session.store import Facts

MARGIN = 60.0
STALE = 5.0
"""Seconds that what is looked at may be old, so that the replica here can answer; deletions are not."""
_LAST = b"\xff" * (PREFIX + 1)
_facts = msgspec.msgpack.Decoder(Facts)


class Pages(KeyValues, Protocol):
    """Where copies are, read a row at a time."""

    async def scan(
        self, start: bytes, end: bytes, limit: int | None = None, *, max_staleness: float = 0.0
    ) -> list[tuple[bytes, bytes]]: ...


class Sweep:
    """Looks at all copies. ``wall()`` is the time of day; ``writes(owner)``: that node, in that creation, is
    up, and so deletes its copies itself."""

    def __init__(self, keys: Pages, *, wall: Callable[[], float], writes: Callable[[Owner], bool]) -> None:
        self._keys = keys
        self._wall = wall
        self._writes = writes
        self._left: dict[bytes, float] = {}
        """By copy whose client was connected when its node went, when that was first seen."""

    async def run(self) -> int:
        """Delete what has expired; return how many copies. Raises UnavailableError."""
        swept, left = 0, self._left
        self._left = {}
        start = b""
        while rows := await self._keys.scan(start, _LAST, 1, max_staleness=STALE):
            [(key, value)] = rows
            prefix, start = key[:PREFIX], layout.end_of(key[:PREFIX])
            # The session's own row is the first.
            if key[PREFIX:] == SESSION_SUFFIX:
                swept += await self._look(prefix, _facts.decode(value), left)
        return swept

    async def _look(self, prefix: bytes, facts: Facts, left: dict[bytes, float]) -> bool:
        now = self._wall()
        if facts.expiry == NEVER or (facts.expires is not None and facts.expires + MARGIN >= now):
            return False
        owner = await fenced.owner_of(self._keys, prefix)
        if owner is None or self._writes(owner):
            return False
        if facts.expires is None:
            seen = self._left[prefix] = left.get(prefix, now)
            if seen + facts.expiry + MARGIN >= now:
                return False
        expected = Expect(prefix + OWNER_SUFFIX, layout.encoded(owner))
        return await self._keys.write([DeleteRange(prefix, layout.end_of(prefix))], [expected])
