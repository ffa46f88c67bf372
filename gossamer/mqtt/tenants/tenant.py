"""One tenant as the connections of its clients see it: names on their way in, and runs on their way to peers.

:mod:`gossamer.tenants` has the names. A client of the default tenant has no :class:`Tenant`, and everything
below is passed by.

Rules: 1. Whatever a client says is put within its tenant before anything looks it up; what cannot be is
refused.  2. Reads of a tenant's client take the same loop (``publish.runs``), by look-ups that put the name
in front; sessions here get the slices as they came, which have bare topics.  3. A run for another node is
written again with the topic as it is inside.  4. Queues are the default tenant's: others are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from gossamer.errors import UsageError
from gossamer.mqtt.codec.encoder import publish_parts
from gossamer.mqtt.codec.framing import frame
from gossamer.mqtt.codec.packets import V5, Publish, Subscribe, Will
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.codec.wire import MAX_VARINT
from gossamer.mqtt.flow.backpressure import RATE, Bucket
from gossamer.mqtt.publish.delayed import UNROUTED
from gossamer.mqtt.publish.fanout import Fanout
from gossamer.mqtt.publish.plan import Plan
from gossamer.mqtt.publish.publishing import Publishing
from gossamer.mqtt.publish.queue_words import is_of_queues
from gossamer.mqtt.publish.queued import QUEUE
from gossamer.mqtt.publish.retained import Retained
from gossamer.mqtt.tenants.limits import TenantLimits, reached
from gossamer.routes import Route, parse_filter, split_shared
from gossamer.supervisor import Runtime
from gossamer.tenants import client_within, within

NO_QUEUES = "queues are of the default tenant; this client is of another one"
"""Reason for a client of another tenant that names a queue."""
_LIMIT = MAX_VARINT + 5


class Paced(Protocol):
    """Connection that can be read from later."""

    @property
    def is_up(self) -> bool: ...
    @property
    def runtime(self) -> Runtime: ...
    def pause_reading(self, why: int, /) -> None: ...
    def resume_reading(self, why: int, /) -> None: ...


class Tenant:
    """A tenant other than the default one, at one node."""

    def __init__(self, name: str, publishing: Publishing, fanout: Fanout, retained: Retained) -> None:
        self.name = name
        self.limits = TenantLimits()
        self.clients: set[Any] = set()
        """Its connections at this node."""
        self.received = 0
        """Messages that its clients have published here."""
        self._bucket: Bucket | None = None
        self._retained = retained
        self._root = within(name, "x").encode()[:-1]
        self._fanout = fanout
        self._cache_get = publishing.cache_get
        self._plan_of = publishing.plan_of
        self.sink = TenantSink(fanout, self)
        """Fan-out for reads of its clients."""

    # The read loop, whose topics do not begin with ``$``.

    def cache_get(self, topic: bytes) -> Route | None:
        """Return the route of a client's topic, if it is in the cache.

        While messages are recorded it is one that leaves them to the handlers, which put the tenant in front.
        """
        return UNROUTED if self._fanout.recorder is not None else self._cache_get(self._root + topic)

    def plan_of(self, topic: bytes) -> Plan | None:
        """Return the plan of a client's topic; None: it is not a topic name."""
        return self._plan_of(self._root + topic)

    # Names that come in.

    def client(self, client_id: str) -> str:
        """Return a client identifier as it is inside."""
        return client_within(self.name, client_id)

    def topic(self, topic: bytes) -> bytes:
        """Return a valid topic name as it is inside."""
        return within(self.name, topic.decode()).encode()

    def will(self, will: Will) -> Will:
        """Return a will with its topic as it is inside."""
        return msgspec.structs.replace(will, topic=self.topic(will.topic))

    def filters(self, filters: Sequence[str]) -> tuple[str, ...]:
        """Return the filters of an UNSUBSCRIBE as they are inside."""
        return tuple(within(self.name, one) for one in filters)

    def subscriptions(self, packet: Subscribe) -> tuple[Subscribe, dict[str, tuple[int, str]]]:
        """Return a SUBSCRIBE with its filters as they are inside, and a reason for each one refused."""
        items = []
        refused: dict[str, tuple[int, str]] = {}
        for item in packet.subscriptions:
            name = within(self.name, item.filter)
            if is_of_queues(item.filter):
                refused[name] = ReasonCode.NOT_AUTHORIZED, NO_QUEUES
            else:
                try:
                    split_shared(parse_filter(item.filter))
                except UsageError as error:
                    # Put within the tenant it might be a filter all the same.
                    refused[name] = ReasonCode.TOPIC_FILTER_INVALID, str(error)
            items.append(msgspec.structs.replace(item, filter=name))
        return msgspec.structs.replace(packet, subscriptions=tuple(items)), refused

    # Limits.

    def limit(self, limits: TenantLimits) -> None:
        """Have these limits from now on."""
        rate = limits.max_publish_rate
        if rate != self.limits.max_publish_rate:
            self._bucket = None if rate is None else Bucket(rate)
        self.limits = limits

    def pace(self, channel: Paced, count: int) -> None:
        """Count what a client has published, and have it read from later if its tenant is too fast."""
        self.received += count
        if self._bucket is None or not channel.is_up:
            return
        wait = self._bucket.take(count, self._fanout.now())
        if wait:
            self._fanout.slowed += 1
            channel.pause_reading(RATE)
            channel.runtime.loop.call_later(wait, channel.resume_reading, RATE)

    def refusal_of(self, packet: Publish, topic: bytes) -> tuple[ReasonCode, str] | None:
        """Return the reason why a message of its clients is not taken, None where it is."""
        if topic.startswith(QUEUE):
            return ReasonCode.NOT_AUTHORIZED, NO_QUEUES
        limit = self.limits.max_retained
        if limit is None or not packet.retain or not packet.payload:
            return None
        topics = self._retained
        if topics.count(self.name) < limit or topics.get(self.topic(topic).decode()) is not None:
            return None
        return ReasonCode.QUOTA_EXCEEDED, reached(self.name, "max_retained", limit)

    # Runs that go to other nodes.

    def records(self, run: bytes, version: int) -> bytes:
        """Return a run of plain publishes as records: of 3.1.1, with their topics as they are inside."""
        out: list[bytes] = []
        pos, end = 0, len(run)
        properties = 1 if version == V5 else 0
        while pos < end:
            flags = run[pos] & 0x0F
            at, pos = frame(run, pos, end, _LIMIT)
            stop = at + 2 + (run[at] << 8 | run[at + 1])
            rest = stop + (2 if flags & 6 else 0)
            topic = self._root + run[at + 2 : stop]
            out += _around(run[stop:rest], topic, run[rest + properties : pos], flags)
        return b"".join(out)


def _around(packet_id: bytes, topic: bytes, payload: bytes, flags: int) -> tuple[bytes, bytes, bytes]:
    head, tail = publish_parts(topic, payload, flags=flags, version=4)
    return head, packet_id, tail


class TenantSink:
    """Fan-out for the reads of a tenant's clients: peers get the topics as they are inside."""

    __slots__ = ("_fanout", "_tenant", "run1")

    def __init__(self, fanout: Fanout, tenant: Tenant) -> None:
        self._fanout = fanout
        self._tenant = tenant
        self.run1: Callable[..., Sequence[int]] = fanout.run1

    def run0(
        self, plan: Plan, head: bytes, chunk: bytes, count: int, version: int, publisher: object = None
    ) -> None:
        """Deliver as :meth:`Fanout.run0`."""
        fanout = self._fanout
        if not plan.peers:
            fanout.run0(plan, head, chunk, count, version, publisher)
            return
        if plan.breadth:
            fanout.run0(plan.local(), head, chunk, count, version, publisher)
        else:
            fanout.received += count
        record = self._tenant.records(chunk, version)
        for peer in plan.peers:
            peer.append(record)
