"""Load of a drill: publishers, subscribers and messages, at a rate independent of the answers.

Every node has one publisher for every node, and six subscribers: for each quality of service one with a clean
session and one with a persistent session. Each message is for one subscriber, so that its outcome is
unambiguous, and a blocked path blocks no other.

Rules: 1. The rate is a schedule: messages due while a client was disconnected or full are not made up for,
but counted (``withheld``).  2. The seed decides the next stream. Of four messages one is of QoS 0, two of
QoS 1, one of QoS 2.  3. Every message carries its publisher, stream, number and time.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from gossamer.drill.run.client import TrafficClient
from gossamer.drill.run.ledger import Ledger, Stream
from gossamer.launch import NodePlan
from gossamer.network import Network

_HEAD = struct.Struct(">IId")
_TICK = 0.02
_MOST_BEHIND = 0.5
"""Seconds of schedule made up for after this process stalled; older messages are withheld."""
_SHARES = {0: 1, 1: 2, 2: 1}
_AT_ONCE = 8
"""Number of clients that connect at once: a node that starts accepts only as fast as it can answer."""


@dataclass(frozen=True, slots=True)
class _Lane:
    """Stream with its publisher and topic."""

    stream: Stream
    publisher: TrafficClient
    subscriber: TrafficClient
    topic: bytes


class Load:
    """Clients and schedule. ``now`` returns the drill's time; ``changed`` as in :class:`TrafficClient`."""

    def __init__(
        self,
        nodes: Sequence[NodePlan],
        *,
        rate: float,
        seed: int,
        network: Network,
        now: Callable[[], float],
        changed: Callable[[TrafficClient, str], None],
    ) -> None:
        self.ledger = Ledger()
        self.withheld = 0
        self.lag = 0.0
        """Longest stall of this process in seconds, and so the precision of its measurements."""
        self._rate = rate
        self._now = now
        make = partial(
            TrafficClient,
            network=network,
            delivered=self._delivered,
            acknowledged=self._acknowledged,
            changed=changed,
        )
        numbered = list(enumerate(nodes, 1))
        kinds = [(qos, persistent, f"{qos}{'p' if persistent else 'c'}")
                 for qos, persistent in product(_SHARES, (False, True))]  # fmt: skip
        self.publishers: list[TrafficClient] = []
        self.subscribers: list[TrafficClient] = []
        self._lanes: list[_Lane] = []
        for (number, target), (qos, persistent, kind) in product(numbered, kinds):
            filters = [(f"drill/+/{number}/{kind}", qos)]
            name = f"drill-sub-{number}-{kind}"
            self.subscribers.append(make(name, node=target, filters=filters, persistent=persistent))
        for (source_number, source), (number, target) in product(numbered, numbered):
            publisher = make(f"drill-pub-{source_number}-{number}", node=source)
            self.publishers.append(publisher)
            own = self.subscribers[(number - 1) * len(kinds) : number * len(kinds)]
            for subscriber, (qos, persistent, kind) in zip(own, kinds, strict=True):
                stream = self.ledger.open(source.name, target.name, qos, persistent=persistent)
                topic = f"drill/{source_number}/{number}/{kind}".encode()
                self._lanes += [_Lane(stream, publisher, subscriber, topic)] * _SHARES[qos]
        random.Random(seed).shuffle(self._lanes)
        self._next = 0
        self._pacer: asyncio.Task[None] | None = None

    # -- lifecycle

    async def connect(self) -> None:
        """Connect all clients, subscribers first.

        Raises:
            OSError, TimeoutError, PeerError, TransportError: a client could not connect.
        """
        for clients in (self.subscribers, self.publishers):
            for at in range(0, len(clients), _AT_ONCE):
                await asyncio.gather(*(client.start() for client in clients[at : at + _AT_ONCE]))

    def begin(self) -> None:
        """Start publishing."""
        self._pacer = asyncio.create_task(self._pace(), name="load")

    async def stop(self) -> None:
        """Stop publishing; connections stay."""
        pacer, self._pacer = self._pacer, None
        if pacer is not None:
            pacer.cancel()
            await asyncio.wait({pacer})

    async def close(self) -> None:
        """Close all connections."""
        await self.stop()
        await asyncio.gather(*(client.close() for client in (*self.publishers, *self.subscribers)))

    # -- the schedule

    async def _pace(self) -> None:
        last = self._now()
        due = 0.0
        while True:
            await asyncio.sleep(_TICK)
            now = self._now()
            self.lag = max(self.lag, now - last - _TICK)
            due += (now - last) * self._rate
            last = now
            count = int(due)
            due -= count
            if (over := count - int(_MOST_BEHIND * self._rate) - 1) > 0:
                self.withheld += over
                count -= over
            for _ in range(count):
                self._publish_one(now)

    def _publish_one(self, now: float) -> None:
        lane = self._lanes[self._next]
        self._next = (self._next + 1) % len(self._lanes)
        stream = lane.stream
        sequence = len(stream.sent)
        payload = _HEAD.pack(stream.number, sequence, now) + lane.publisher.client_id.encode()
        if lane.publisher.publish(lane.topic, payload, qos=stream.qos, token=(stream, sequence)):
            absent = not stream.persistent and not lane.subscriber.connected
            self.ledger.note_sent(stream, now, absent=absent)
        else:
            self.withheld += 1

    # -- callbacks of clients

    def _acknowledged(self, token: object) -> None:
        assert isinstance(token, tuple)  # noqa: S101 - our own
        stream, sequence = token
        self.ledger.note_acknowledged(stream, sequence, self._now())

    def _delivered(self, payload: bytes) -> None:
        try:
            number, sequence, _ = _HEAD.unpack_from(payload)
        except struct.error:
            self.ledger.foreign += 1
            return
        self.ledger.note_delivered(number, sequence, self._now())
