"""Retained messages of a cluster: a message retained on one node is sent to subscribers of all.

One row a topic in a *shared* table (``retained``), the last write wins: the message itself where its payload
is small, otherwise the tag under which ``retained_bodies`` finds it. Both are the same row, so crossing the
threshold replaces one by the other, and of two writers the later wins everywhere, by the table's versions.

Rules: 1. A message of QoS 1 or 2 is acknowledged when every node that is up has its row and, where it is
large, its copies are made; on disc too at each of them that has one, so that whichever node is back first
after all have died has it, or a later one. While this node's disc fails nothing is acknowledged; a refused
write is tried again, unless another node has replaced the row since: then it counts as written before that.
2. Expiry is kept as a time of day, so that it goes on while a node is down. An expired message is not sent,
and its row is deleted :data:`EXPIRED_FOR` seconds later by the node that wrote it, or by any other a little
after that; only that version, so that a newer message, which that node has not seen yet, stays.  3. ``$SYS/``
is of this node alone.

Rejected: quorum writes (a retained message is a last value; both sides of a split go on, and the later
value wins). Storing forwards of peers: they are out of date once no session here subscribes to the topic.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import structlog

from gossamer.clock import Clock
from gossamer.errors import GossamerError
from gossamer.mnesia_like import SharedTable
from gossamer.mqtt.cluster.retained_bodies import DISC_FAILS, Bodies
from gossamer.mqtt.flow.commits import Until
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.records import read_record, record_of
from gossamer.mqtt.publish.retained import Fetch, LocalRetained, TopicTree
from gossamer.supervisor import Runtime

log = structlog.get_logger(__name__)

EXPIRED_FOR = 60.0
VISIBLE_TIMEOUT = 30.0
"""Seconds that an acknowledgement waits for a peer that does not answer; a dead one is down long before."""
SAFE_TIMEOUT = 5.0
"""Seconds it waits for the disc of a peer that has answered."""
RETRY_INTERVAL = 1.0
"""Seconds between attempts while this node's disc takes no writes."""
_RECORD, _EXPIRES, _TAG = range(3)


class ClusterRetained:
    """Retained messages of the cluster; of this node alone until :meth:`attach`."""

    def __init__(
        self, *, node: str, creation: int, clock: Clock, runtime: Runtime, threshold: int, limit: int
    ) -> None:
        self._node = node
        self._creation = creation
        self._clock = clock
        self._runtime = runtime
        self._threshold = threshold
        self._limit = limit
        self._table: SharedTable | None = None
        self.bodies: Bodies | None = None
        self._own = LocalRetained(limit=limit)
        self._tree = TopicTree()
        self._number = 0
        self._safe: dict[int, list[Callable[[bool], None]]] = {}
        self._deferred: dict[str, tuple[Message, tuple[int, str] | None]] = {}
        """Last message of each topic that the disc refused, and the version that it replaces."""
        self.refused = 0
        self.unavailable = 0
        """Number of large messages that no reachable node had."""

    def count(self, tenant: str) -> int:
        return self._tree.counts[tenant] + self._own.count(tenant)

    def __len__(self) -> int:
        return len(self._tree) + len(self._own)

    def attach(self, table: SharedTable, bodies: Bodies) -> None:
        """Share from now on; call it in the process that gets the table's events, whenever that starts."""
        self._table = table
        self.bodies = bodies
        for topic in list(self._tree.match("#")):
            if topic not in table:
                self._tree.discard(topic)
        for topic in table:
            self._tree.add(str(topic))
        table.subscribe_batches(self._changed)

    def _changed(self, change: Any) -> None:
        for topic in change.written:
            self._tree.add(topic)
        for topic in change.deleted:
            self._tree.discard(topic)

    # -- calls of the broker

    def put(self, message: Message) -> Until | None:
        """See ``Retained``."""
        topic = message.topic.decode()
        table = self._table
        if table is None or self.bodies is None or topic.startswith("$SYS/"):
            self._own.put(message)
            return None
        if message.payload and len(table) >= self._limit and topic not in table:
            self.refused += 1
            return None
        large = len(message.payload) >= self._threshold
        try:
            number = self._write(table, self.bodies, topic, message, large=large)
        except GossamerError as error:
            if message.qos and isinstance(error, DISC_FAILS):
                self._deferred[topic] = (message, table.version(topic))
                return self._until(0, topic, "")
            self.refused += 1
            log.warning("not_retained", topic=topic, error=str(error))
            return None
        if not message.qos and not large:
            return None
        if not large and table.definition.storage == "ram_copies" and table.is_visible(number):
            return None
        safe = self._until(number, topic, table.read(topic)[_TAG] if large else "")
        if large and not message.qos:
            # Nothing waits, but the copies must be made.
            safe.append_acked(b"", lambda _safe: None)
            return None
        return safe

    def _until(self, number: int, topic: str, tag: str) -> Until:
        """Return the condition that the PUBACK of a retained message waits for."""
        return Until("retained", lambda _record, on_safe: self.when_safe(number, topic, tag, on_safe))

    def topics(self, topic_filter: str) -> Iterator[str]:
        """See ``Retained``."""
        return chain(self._tree.match(topic_filter), self._own.topics(topic_filter))

    def get(self, topic: str) -> Message | Fetch | None:
        """See ``Retained``."""
        row = None if self._table is None else self._table.read(topic)
        if row is None:
            return self._own.get(topic)
        if self._is_expired(row):
            return None
        record = row[_RECORD]
        if record is None:
            body = None if self.bodies is None else self.bodies.held.get((topic, row[_TAG]))
            if body is None:
                return partial(self._fetch, topic)
            record = body.record
        return self._message(record, row)

    def current(self, topic: str) -> str | None:
        """Return the tag of a topic's large message; None: it has none."""
        row = None if self._table is None else self._table.read(topic)
        return row[_TAG] if row is not None and row[_RECORD] is None else None

    # -- upkeep

    def sweep(self) -> None:
        """Delete rows that expired long ago; call it about once a minute. If the disc fails, next time."""
        table = self._table
        if table is None:
            return
        wall = self._clock.wall()
        for topic, row in list(table.rows().items()):
            expires = row[_EXPIRES]
            if expires is None:
                continue
            # The writer first, so that not all nodes do the same. A message that is on its way stays: what is
            # removed is this version, and nothing that came after it.
            mine = row[_TAG].partition("/")[0] == self._node
            if expires + EXPIRED_FOR * (1 if mine else 2) < wall:
                try:
                    table.retire(topic)
                except DISC_FAILS:
                    return

    # -- inside

    def _write(self, table: SharedTable, bodies: Bodies, topic: str, message: Message, *, large: bool) -> int:
        # Checked before the body is kept; and what was refused before is replaced by what is not.
        table.check()
        self._deferred.pop(topic, None)
        if not message.payload:
            return table.delete(topic)
        self._number += 1
        tag = f"{self._node}/{self._creation}/{self._number:x}"
        expires = None
        if message.expires_at is not None:
            expires = self._clock.wall() + message.expires_at - self._clock.monotonic()
        record = record_of(message, self._clock.monotonic())
        if not large:
            return table.write(topic, [record, expires, tag])
        bodies.keep(topic, tag, record)
        return table.write(topic, [None, expires, tag])

    def _is_expired(self, row: list[Any]) -> bool:
        return row[_EXPIRES] is not None and row[_EXPIRES] <= self._clock.wall()

    def _message(self, record: bytes, row: list[Any]) -> Message:
        now = self._clock.monotonic()
        message, _ = read_record(record, 0, len(record), now)
        expires = row[_EXPIRES]
        message.expires_at = None if expires is None else now + expires - self._clock.wall()
        return message

    async def _fetch(self, topic: str) -> Message | None:
        # The message may be replaced while it is fetched; then it is the new one that is wanted.
        for _ in range(3):
            row = None if self._table is None else self._table.read(topic)
            if row is None or self.bodies is None or self._is_expired(row):
                return None
            record = row[_RECORD]
            if record is None:
                record = await self.bodies.fetch(topic, row[_TAG])
                assert self._table is not None  # noqa: S101 - tables do not go away
                if self._table.read(topic) != row:
                    continue
            if record is None:
                self.unavailable += 1
                log.warning("retained_unavailable", topic=topic, holders=row[_TAG])
                return None
            return self._message(record, row)
        return None

    def when_safe(self, number: int, topic: str, tag: str, on_safe: Callable[[bool], None]) -> None:
        """Call ``on_safe`` once the write ``number``, and the copies of ``tag``, are safe; see rule 1."""
        if not number:
            self._runtime.spawn(self._retry, topic, on_safe, label="mqtt_retained_retry")
            return
        if tag:
            self._runtime.spawn(self._spread, number, topic, tag, on_safe, label="mqtt_retained_copies")
            return
        waiting = self._safe.get(number)
        if waiting is not None:
            waiting.append(on_safe)
            return
        # All writes of one turn have one number: one process waits for them.
        self._safe[number] = [on_safe]
        self._runtime.spawn(self._settle, number, label="mqtt_retained_safe")

    async def _settle(self, number: int) -> None:
        safe = False
        try:
            safe = await self._written(number)
        finally:
            for on_safe in self._safe.pop(number, ()):
                on_safe(safe)

    async def _spread(self, number: int, topic: str, tag: str, on_safe: Callable[[bool], None]) -> None:
        safe = False
        try:
            assert self.bodies is not None  # noqa: S101 - it wrote the body
            await self.bodies.spread(topic, tag)
            safe = await self._written(number)
        finally:
            on_safe(safe)

    async def _retry(self, topic: str, on_safe: Callable[[bool], None]) -> None:
        """Write a refused message once the disc takes writes, unless a later one of the topic came."""
        table, bodies = self._table, self.bodies
        assert table is not None  # noqa: S101 - it refused
        assert bodies is not None  # noqa: S101
        tag = ""
        while (deferred := self._deferred.get(topic)) is not None:
            await asyncio.sleep(RETRY_INTERVAL)
            if self._deferred.get(topic) is not deferred:
                continue
            message, replaces = deferred
            if table.version(topic) != replaces:
                # Its publisher may have sent it again at another node, and newer ones after it.
                del self._deferred[topic]
                break
            large = len(message.payload) >= self._threshold
            with contextlib.suppress(*DISC_FAILS):
                self._write(table, bodies, topic, message, large=large)
                tag = table.read(topic)[_TAG] if large else ""
        number = table.core.position
        if tag:
            await self._spread(number, topic, tag, on_safe)
        else:
            on_safe(await self._written(number))

    async def _written(self, number: int) -> bool:
        table = self._table
        assert table is not None  # noqa: S101 - it gave the number
        visible = await table.visible(number, VISIBLE_TIMEOUT)
        if table.definition.storage == "ram_copies":
            return visible
        while True:  # as for sessions, nothing is acknowledged while the disc fails
            try:
                await table.durable(timeout=None)
                break
            except GossamerError:
                await asyncio.sleep(RETRY_INTERVAL)
        if not await table.safe(number, SAFE_TIMEOUT):
            log.warning("retained_not_on_every_disc", waited=SAFE_TIMEOUT)
        return visible
