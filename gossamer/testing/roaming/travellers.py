"""Clients with state that outlives their connections: a publisher and a subscriber that change nodes.

Both do what MQTT 5.0 section 4.4 asks of a client: what is not acknowledged is sent again, with DUP, after a
reconnect that found the session; where there is no session the publisher begins it with the same messages,
and the subscriber subscribes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from math import inf
from random import Random
from typing import Any, NamedTuple

import msgspec

from gossamer.errors import GossamerError
from gossamer.mqtt.client import MqttClient, Session
from gossamer.mqtt.codec.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from gossamer.testing.cluster import SimCluster

SESSION = 86_400
_RETRY_INTERVAL = 0.5
_CONNECT_TIMEOUT = 8.0
_GLIMPSES = (0.002, 0.01, 0.03, 0.1)
"""Seconds after which one falls that does not wait for CONNACK: before the node has read its CONNECT, or
while its session is on its way."""


class Reception(NamedTuple):
    """Delivery to a subscriber: time, session number counted from 1, and node."""

    at: float
    session: int
    node: int
    payload: bytes


class Traveller:
    """A persistent client; ``stay()`` is how long it remains at a node, in seconds, ``absent()`` how long it
    is nowhere after that; ``haste`` is the share of its visits that end before CONNACK."""

    def __init__(
        self,
        cluster: SimCluster,
        client_id: str,
        rng: Random,
        stay: Callable[[], float],
        absent: Callable[[], float] = float,
        haste: float = 0.0,
    ) -> None:
        self.cluster = cluster
        self.client_id = client_id
        self.rng = rng
        self.stay = stay
        self.absent = absent
        self.haste = haste
        self.home: int | None = None
        """The node that it goes to from now on."""
        self.began: list[float] = []
        """Times when it got a new session, or one from before the last, whose node is cut off."""
        self.apart: Callable[[int, int], bool] = lambda _one, _other: False
        """Returns whether a node is cut off from the other."""
        self.log: list[str] = []
        self.client: MqttClient | None = None
        self._number = 0
        self._left: set[int] = set()
        """The node that it was let in by before, and those that had a CONNECT of its since."""
        self._doubtful = False
        """It did not wait for CONNACK, which may have said that its session is new."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to travel."""
        self._task = asyncio.create_task(self._travel(), name=self.client_id)

    async def stop(self) -> None:
        """End the connection, and all."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled() and (error := self._task.exception()) is not None:
                raise error
        if self.client is not None:
            self.client.drop()

    def note(self, *what: object) -> None:
        """For the report of a seed that fails."""
        self.log.append(f"{self.cluster.sim.loop.time():9.3f} {self.client_id} {' '.join(map(str, what))}")

    async def _travel(self) -> None:
        while True:  # until it is cancelled
            self._number = self.home or self.rng.randint(1, self.cluster.size)
            if self.home is None and self.began and self.rng.random() < self.haste:
                await self._fall()
                continue
            try:
                client = await self._connect(_CONNECT_TIMEOUT, self)
            except (GossamerError, OSError, TimeoutError) as error:
                self.note("not at", self._number, type(error).__name__)
                await asyncio.sleep(_RETRY_INTERVAL)
                continue
            self.client = client
            self._left, self._doubtful = {self._number}, False
            self.note("at", self._number, "present" if client.session_present else "new")
            try:
                await self.arrived(client)
                await asyncio.wait([client.lost], timeout=None if self.home else self.stay())
            except (GossamerError, TimeoutError):
                pass
            if client.connected:
                if self.rng.random() < 0.5:
                    client.drop()
                else:
                    await client.disconnect()
            self.client = None
            if self.home is None:
                await asyncio.sleep(self.absent())

    async def _connect(self, timeout: float, session: Session | None) -> MqttClient:
        return await self.cluster.client(
            self._number,
            self.client_id,
            clean_start=False,
            session_expiry=SESSION,
            keep_alive=5,
            timeout=timeout,
            session=session,
        )

    async def _fall(self) -> None:
        """Send CONNECT and vanish, before CONNACK or just after."""
        self.note("falls at", self._number)
        self._left.add(self._number)
        self._doubtful = True
        with suppress(GossamerError, OSError, TimeoutError):
            (await self._connect(self.rng.choice(_GLIMPSES), None)).drop()

    async def arrived(self, client: MqttClient) -> None:
        """The client is connected."""

    def resume(self, client: MqttClient, *, present: bool) -> None:
        """Handle CONNACK: keep the client's state with the session, or drop it."""
        if not present or self.is_forked:
            self.began.append(self.cluster.sim.loop.time())

    @property
    def is_forked(self) -> bool:
        """True if a present session cannot be the client's last one."""
        return any(self.apart(left, self._number) for left in self._left if left != self._number)


class Subscriber(Traveller):
    """Subscribes to ``wanted``, filters with a QoS, and keeps what it gets."""

    def __init__(self, *args: Any, wanted: dict[str, int], **options: Any) -> None:
        super().__init__(*args, **options)
        self.wanted = wanted
        self.got: list[Reception] = []
        self.deaf: list[tuple[float, float]] = []
        """Times in which its session was not yet subscribed to everything."""
        self.ready = asyncio.Event()
        self._half: set[int] = set()
        self._known: set[str] = set()

    def resume(self, client: MqttClient, *, present: bool) -> None:
        super().resume(client, present=present)
        if self._doubtful:
            self._known.clear()
        if not present:
            self._half.clear()
            self._known.clear()
            if not self.deaf or self.deaf[-1][1] < inf:
                self.deaf.append((self.began[-1], inf))
        client.adopt(self._half, self._take)

    def _take(self, packet: Publish) -> None:
        now = self.cluster.sim.loop.time()
        self.got.append(Reception(now, len(self.began), self._number, packet.payload))

    async def arrived(self, client: MqttClient) -> None:
        for topic_filter, qos in self.wanted.items():
            if topic_filter not in self._known:
                await client.subscribe(topic_filter, qos=qos)
                self._known.add(topic_filter)
        begun, _ = self.deaf[-1]
        self.deaf[-1] = begun, min(self.deaf[-1][1], self.cluster.sim.loop.time())
        self.note("subscribed")
        self.ready.set()


class Publisher(Traveller):
    """Publishes numbered messages to ``topic``, the next one when the last is acknowledged."""

    def __init__(self, *args: Any, topic: str, qos: int, pause: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self.topic = topic
        self.qos = qos
        self.pause = pause
        self.count = 0
        self.sent: dict[bytes, float] = {}
        """Payload, and when it was sent first."""
        self.acknowledged: dict[bytes, float] = {}
        """Payload, and when its last acknowledgement came."""
        self.ambiguous: set[bytes] = set()
        """Messages resent in a new session: the broker cannot recognise them as duplicates."""
        self.finishing = False
        """Begin no further message."""
        self.idle = asyncio.Event()
        """Set once nothing waits for an acknowledgement."""
        self._open: Publish | Pubrel | None = None
        self._payload = b""
        self._present = True

    def resume(self, client: MqttClient, *, present: bool) -> None:
        super().resume(client, present=present)
        if (not present or self.is_forked) and self._open is not None:
            self.ambiguous.add(self._payload)

    async def arrived(self, client: MqttClient) -> None:
        resent = self._open is not None
        if self.idle.is_set():
            return
        while client.connected and not (self.finishing and self._open is None):
            if self._open is None:
                self.count += 1
                self._payload = b"%s %d" % (self.topic.encode(), self.count)
                self.sent[self._payload] = self.cluster.sim.loop.time()
                self._open = Publish(
                    topic=self.topic.encode(),
                    payload=self._payload,
                    qos=self.qos,
                    packet_id=self.count % 65535 + 1,
                )
            elif resent and isinstance(self._open, Publish):
                self._open = msgspec.structs.replace(self._open, dup=True)
            resent = False
            task = asyncio.ensure_future(self._send(client))
            await asyncio.wait([task], timeout=max(0.1, self.stay()))
            if not task.done():
                # It loses patience and goes on elsewhere, with the exchange half done.
                task.cancel()
                await asyncio.wait([task])
                return
            task.result()
            await asyncio.sleep(self.pause)
        if self.finishing and self._open is None:
            self.idle.set()

    async def _send(self, client: MqttClient) -> None:
        packet = self._open
        if isinstance(packet, Publish):
            packet_id = packet.packet_id or 0
            if self.qos == 1:
                await client.ask(packet, Puback, packet_id)
            else:
                answer = await client.ask(packet, Pubrec, packet_id)
                if answer.reason < 0x80:
                    packet = self._open = Pubrel(packet_id)
        if isinstance(packet, Pubrel):
            await client.ask(packet, Pubcomp, packet.packet_id)
        self._open = None
        self.acknowledged[self._payload] = self.cluster.sim.loop.time()
