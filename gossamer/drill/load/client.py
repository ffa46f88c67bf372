"""An MQTT 5.0 client for drills: keeps one connection, and tells what becomes of it and of what it sends.

It stands on the broker's own codec, over any ``Network``. It comes back by itself when its connection ends,
which it tells first: a drill counts that.

Rules: 1. ``publish`` sends at once or not at all, never more than the broker's receive maximum without an
answer; nothing waits here, so that what a message waits for is the broker.  2. A message counts as
acknowledged at PUBACK, or at PUBREC, from which on the broker answers for it.  3. What was sent and not
acknowledged before a connection ended is not sent again: nobody owes it.  4. At QoS 2 a message that is sent
again is not handed on again; at QoS 1 it is, since that is what a subscriber sees.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, cast

from gossamer.errors import PeerError, TransportError
from gossamer.mqtt import Framer, MqttProtocolError, Properties, decode, encode
from gossamer.mqtt.packets import (
    V5,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
)
from gossamer.network import Address, Network

__all__ = ["Observer", "RefusedError", "TrafficClient"]

KEEP_ALIVE = 30
SESSION = 3600
"""Seconds that a persistent session outlives its connection."""
ANSWER = 10.0
"""Seconds for CONNACK and SUBACK."""
_RETRY = 0.5
_NO_MATCH = 0x10
_FAILURE = 0x80


class RefusedError(PeerError):
    """The broker refused a client of the drill."""

    def __init__(self, *, client: str, what: str, reason: int) -> None:
        self.client = client
        self.reason = reason
        super().__init__(f"client {client}: {what} was refused with reason 0x{reason:02x}")


class GoneError(TransportError):
    """The connection ended while an answer was awaited."""

    def __init__(self, *, client: str, reason: str) -> None:
        self.client = client
        super().__init__(f"client {client}: the connection ended ({reason})")


class Observer(Protocol):
    """Who hears of what happens to a client."""

    def acknowledged(self, client: TrafficClient, token: object) -> None:
        """A message that was published with ``token`` is the broker's now."""

    def delivered(self, client: TrafficClient, payload: bytes) -> None:
        """A message came."""

    def dropped(self, client: TrafficClient, reason: str) -> None:
        """The connection ended, and nobody here wanted it."""

    def back(self, client: TrafficClient, *, present: bool) -> None:
        """It is connected again; ``present``: the broker still had the session."""


class TrafficClient:
    """One client at one node. ``filters`` are subscribed to at every new session, with their QoS."""

    def __init__(
        self,
        client_id: str,
        *,
        network: Network,
        address: Address,
        node: str,
        observer: Observer,
        filters: Sequence[tuple[str, int]] = (),
        persistent: bool = False,
    ) -> None:
        self.client_id = client_id
        self.node = node
        self.address = address
        self._network = network
        self._observer = observer
        self.filters = tuple(filters)
        self._persistent = persistent
        self._line: _Line | None = None
        self._greeted = False
        self._half_received: set[int] = set()
        self._waiting: dict[int, object] = {}
        self._next_id = 0
        self._room = 0
        self._keeper: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._closed = False

    @property
    def connected(self) -> bool:
        return self._greeted

    async def start(self) -> None:
        """Connect and subscribe; from then on stay connected.

        Raises:
            OSError, TimeoutError, RefusedError, GoneError: the first attempt failed.
        """
        await self._connect(fresh=True)
        self._keeper = asyncio.create_task(self._keep(), name=f"client {self.client_id}")

    async def close(self) -> None:
        """Say goodbye, if there is somebody to say it to."""
        self._closed = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        if self._line is not None:
            self._line.send(Disconnect())
            self._line.close()

    def retain(self, topic: bytes, payload: bytes) -> bool:
        """Send one retained message of QoS 0; False when it cannot be sent now."""
        if self._line is None or not self._greeted:
            return False
        self._line.send(Publish(topic=topic, payload=payload, retain=True))
        return True

    def publish(self, topic: bytes, payload: bytes, qos: int, token: object) -> bool:
        """Send one message; False when it cannot be sent now."""
        if self._line is None or not self._greeted:
            return False
        if not qos:
            self._line.send(Publish(topic=topic, payload=payload))
            return True
        if len(self._waiting) >= self._room:
            return False
        packet_id = self._new_id()
        self._waiting[packet_id] = token
        self._line.send(Publish(topic=topic, payload=payload, qos=qos, packet_id=packet_id))
        return True

    def ping(self) -> None:
        """To be called every third of :data:`KEEP_ALIVE`, or more often."""
        if self._line is not None and self._greeted:
            self._line.send(Pingreq())

    # -- what the connection tells

    def take(self, packet: Packet) -> None:
        """A packet came."""
        line = self._line
        match packet:
            case Publish():
                if packet.qos == 2:
                    self._take_exactly_once(packet)
                    return
                self._observer.delivered(self, packet.payload)
                if packet.packet_id is not None and line is not None:
                    line.send(Puback(packet.packet_id))
            case Pubrec():
                self._answered(packet)
                if packet.reason < _FAILURE and line is not None:
                    line.send(Pubrel(packet.packet_id))
                else:
                    self._waiting.pop(packet.packet_id, None)
            case Pubcomp():
                self._waiting.pop(packet.packet_id, None)
            case Pubrel():
                self._half_received.discard(packet.packet_id)
                if line is not None:
                    line.send(Pubcomp(packet.packet_id))
            case Puback():
                self._answered(packet)
                self._waiting.pop(packet.packet_id, None)
            case _:
                pass

    def line_lost(self, line: _Line, reason: str) -> None:
        """The connection ended."""
        if line is not self._line:
            return
        greeted, self._line, self._greeted = self._greeted, None, False
        self._waiting.clear()
        if greeted and not self._closed:
            self._observer.dropped(self, reason)
            self._lost.set()

    # -- inside

    async def _connect(self, *, fresh: bool) -> bool:
        """Whether the broker had the session."""
        line: _Line
        async with asyncio.timeout(ANSWER):
            _, line = await self._network.connect(lambda: _Line(self), self.address)
            # What is kept for a session may come in one piece with the answer to CONNECT.
            self._line = line
            try:
                present = await self._greet(line, fresh=fresh)
            except BaseException:
                self._line = None
                line.close()
                raise
            self._greeted = True
        return present

    async def _greet(self, line: _Line, *, fresh: bool) -> bool:
        connect = Connect(
            client_id=self.client_id,
            version=V5,
            clean_start=fresh or not self._persistent,
            keep_alive=KEEP_ALIVE,
            properties=Properties(session_expiry=SESSION if self._persistent else None),
        )
        answer = await line.ask(connect)
        if not isinstance(answer, Connack) or answer.reason:
            reason = answer.reason if isinstance(answer, Connack) else 0
            raise RefusedError(client=self.client_id, what="CONNECT", reason=reason)
        self._room = answer.properties.receive_maximum or 65535
        if not answer.session_present:
            self._half_received.clear()
        if self.filters and not answer.session_present:
            wanted = tuple(Subscription(topic_filter, qos) for topic_filter, qos in self.filters)
            granted = await line.ask(Subscribe(packet_id=self._new_id(), subscriptions=wanted))
            refused = [r for r in granted.reasons if r >= _FAILURE] if isinstance(granted, Suback) else [0]
            if refused:
                raise RefusedError(client=self.client_id, what="SUBSCRIBE", reason=refused[0])
        return answer.session_present

    async def _keep(self) -> None:
        while True:
            await self._lost.wait()
            self._lost.clear()
            while not self._greeted:
                await asyncio.sleep(_RETRY)
                try:
                    present = await self._connect(fresh=False)
                except (OSError, TimeoutError, RefusedError, GoneError, MqttProtocolError):
                    continue
                self._observer.back(self, present=present)

    def _take_exactly_once(self, packet: Publish) -> None:
        packet_id = packet.packet_id
        if packet_id is None or self._line is None:
            return
        if packet_id not in self._half_received:
            self._half_received.add(packet_id)
            self._observer.delivered(self, packet.payload)
        self._line.send(Pubrec(packet_id))

    def _answered(self, packet: Puback) -> None:
        if packet.packet_id in self._waiting and packet.reason < _FAILURE:
            self._observer.acknowledged(self, self._waiting[packet.packet_id])

    def _new_id(self) -> int:
        while True:
            self._next_id = self._next_id % 65535 + 1
            if self._next_id not in self._waiting:
                return self._next_id


class _Line(asyncio.Protocol):
    """One connection: packets in, packets out, gathered for one write a loop turn."""

    def __init__(self, client: TrafficClient) -> None:
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._framer = Framer()
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._answer: asyncio.Future[Packet] | None = None
        self._reason = ""

    async def ask(self, packet: Packet) -> Packet:
        """Send CONNECT or SUBSCRIBE, and wait for the answer."""
        self._answer = self._loop.create_future()
        self.send(packet)
        try:
            return await self._answer
        finally:
            self._answer = None

    def send(self, packet: Packet) -> None:
        if not self._out:
            self._loop.call_soon(self.flush)
        self._out.append(encode(packet, V5))

    def flush(self) -> None:
        if self._transport is not None and self._out:
            self._transport.write(b"".join(self._out))
        self._out.clear()

    def close(self) -> None:
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            packets = [decode(first, body, V5) for first, body in self._framer.feed(data)]
        except MqttProtocolError as error:
            self._reason = str(error)
            self.close()
            return
        for packet in packets:
            if isinstance(packet, Connack | Suback):
                if self._answer is not None and not self._answer.done():
                    self._answer.set_result(packet)
            elif isinstance(packet, Disconnect):
                self._reason = f"DISCONNECT 0x{packet.reason:02x}"
            else:
                self._client.take(packet)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        reason = self._reason or (str(exc) if exc is not None else "closed by the broker")
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(GoneError(client=self._client.client_id, reason=reason))
        self._client.line_lost(self, reason)
