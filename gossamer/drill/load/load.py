"""The load of a drill: who publishes what for whom, at a pace that does not depend on the answers.

Every node has one publisher for every node, and six subscribers: for each quality of service one whose
session is clean and one whose session is persistent. Each message is for one subscriber, so that it is plain
what became of it, and whatever holds up one path holds up no other.

Rules: 1. The pace is a schedule: what was due while a client was away or full is not made up for, but counted
(``withheld``).  2. Which stream is next follows from the seed. Of four messages one is of QoS 0, two of
QoS 1, one of QoS 2.  3. Every message carries its publisher, its stream, its number and its time.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gossamer.drill.load.client import TrafficClient
from gossamer.drill.load.ledger import Ledger, Stream
from gossamer.drill.stage.backend import DrillNode
from gossamer.network import Network

__all__ = ["Drop", "Load"]

_HEAD = struct.Struct(">IId")
_TICK = 0.02
_MOST_BEHIND = 0.5
"""Seconds of schedule that are made up for after this process stood still; what is older is withheld."""
_SHARES = {0: 1, 1: 2, 2: 1}


@dataclass(frozen=True, slots=True)
class Drop:
    """A connection that ended."""

    at: float
    client: str
    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Lane:
    """One stream and what is needed to send on it."""

    stream: Stream
    publisher: TrafficClient
    subscriber: TrafficClient
    topic: bytes


class Load:
    """``now`` gives the drill's time; ``on_drop`` and ``on_back`` hear of connections."""

    def __init__(
        self,
        nodes: Sequence[DrillNode],
        *,
        rate: float,
        seed: int,
        network: Network,
        now: Callable[[], float],
        on_drop: Callable[[Drop], None] = lambda _: None,
        on_back: Callable[[str, str], None] = lambda _client, _node: None,
    ) -> None:
        self.ledger = Ledger()
        self.withheld = 0
        self.lag = 0.0
        """The longest time that this process stood still, in seconds: what it measured is that coarse."""
        self._rate = rate
        self._now = now
        self._on_drop = on_drop
        self._on_back = on_back
        by_lane = {
            (node.name, qos, persistent): self._subscriber(node, qos, persistent=persistent, network=network)
            for node in nodes
            for qos in _SHARES
            for persistent in (False, True)
        }
        self.subscribers = list(by_lane.values())
        self.publishers: list[TrafficClient] = []
        lanes: list[_Lane] = []
        for source in nodes:
            for target in nodes:
                publisher = TrafficClient(
                    f"drill-pub-{source.number}-{target.number}",
                    network=network,
                    address=(source.host, source.ports["mqtt"]),
                    node=source.name,
                    observer=self,
                )
                self.publishers.append(publisher)
                lanes += self._lanes(publisher, source, target, by_lane)
        random.Random(seed).shuffle(lanes)
        self._lanes_in_turn = lanes
        self._next = 0
        self._pacer: asyncio.Task[None] | None = None

    def _subscriber(self, node: DrillNode, qos: int, *, persistent: bool, network: Network) -> TrafficClient:
        kind = "p" if persistent else "c"
        return TrafficClient(
            f"drill-sub-{node.number}-{qos}{kind}",
            network=network,
            address=(node.host, node.ports["mqtt"]),
            node=node.name,
            observer=self,
            filters=[(f"drill/+/{node.number}/{qos}{kind}", qos)],
            persistent=persistent,
        )

    def _lanes(
        self,
        publisher: TrafficClient,
        source: DrillNode,
        target: DrillNode,
        subscribers: Mapping[tuple[str, int, bool], TrafficClient],
    ) -> list[_Lane]:
        lanes = []
        for qos, share in _SHARES.items():
            for persistent in (False, True):
                stream = self.ledger.open(source.name, target.name, qos, persistent=persistent)
                topic = f"drill/{source.number}/{target.number}/{qos}{'p' if persistent else 'c'}".encode()
                subscriber = subscribers[target.name, qos, persistent]
                lanes += [_Lane(stream, publisher, subscriber, topic)] * share
        return lanes

    # -- life

    async def connect(self) -> None:
        """Connect all, subscribers first.

        Raises:
            OSError, TimeoutError, PeerError, TransportError: the first client that could not.
        """
        for clients in (self.subscribers, self.publishers):
            # A few at a time: a node that starts takes new clients only as fast as it can greet them.
            for at in range(0, len(clients), 8):
                await asyncio.gather(*(client.start() for client in clients[at : at + 8]))

    def begin(self) -> None:
        """Publish from now on."""
        self._pacer = asyncio.create_task(self._pace(), name="load")

    async def stop(self) -> None:
        """Publish no more; connections stay."""
        pacer, self._pacer = self._pacer, None
        if pacer is not None:
            pacer.cancel()
            await asyncio.wait({pacer})

    async def close(self) -> None:
        """End all connections."""
        await self.stop()
        await asyncio.gather(*(client.close() for client in (*self.publishers, *self.subscribers)))

    def readdress(self, node: DrillNode) -> None:
        """A node came back, perhaps elsewhere."""
        for client in (*self.publishers, *self.subscribers):
            if client.node == node.name:
                client.address = (node.host, node.ports["mqtt"])

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
        lane = self._lanes_in_turn[self._next]
        self._next = (self._next + 1) % len(self._lanes_in_turn)
        stream = lane.stream
        sequence = len(stream.sent)
        payload = _HEAD.pack(stream.number, sequence, now) + lane.publisher.client_id.encode()
        if lane.publisher.publish(lane.topic, payload, stream.qos, (stream, sequence)):
            absent = not stream.persistent and not lane.subscriber.connected
            self.ledger.note_sent(stream, now, absent=absent)
        else:
            self.withheld += 1

    # -- what clients tell

    def acknowledged(self, client: TrafficClient, token: object) -> None:
        assert isinstance(token, tuple)  # noqa: S101 - our own
        stream, sequence = token
        self.ledger.note_acknowledged(stream, sequence, self._now())

    def delivered(self, client: TrafficClient, payload: bytes) -> None:
        try:
            number, sequence, _ = _HEAD.unpack_from(payload)
        except struct.error:
            self.ledger.foreign += 1
            return
        self.ledger.note_delivered(number, sequence, self._now())

    def dropped(self, client: TrafficClient, reason: str) -> None:
        self._on_drop(Drop(self._now(), client.client_id, client.node, reason))

    def back(self, client: TrafficClient, *, present: bool) -> None:
        self._on_back(client.client_id, client.node)
