"""A small MQTT client for drills and simulations: one connection, on any Network, by the broker's own codec.

``publish`` returns when the broker has acknowledged, ``post`` at once; messages are acknowledged as the
protocol requires and kept in order in ``messages``. It never reconnects: state that outlives a connection
(messages, QoS 2 identifiers) goes to the next one by :meth:`MqttClient.adopt`.

Rules: 1. A posted message counts as acknowledged at PUBACK, or at PUBREC, from which on the broker is
responsible for it.  2. Nothing is sent again here.  3. A QoS 2 message that comes again is not delivered
again; a QoS 1 message is.  4. The packets of one loop turn are one write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar, cast

from gossamer.errors import PeerError, TransportError
from gossamer.mqtt.codec import Framer, decode, encode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.packets import V5, Packet
from gossamer.mqtt.codec.properties import Properties
from gossamer.network import Address, Network

__all__ = ["ClientLostError", "MqttClient", "RefusedError"]

_FAILURE = 0x80
"""Reasons from here on are failures."""

P = TypeVar("P", bound=Packet)


class ClientLostError(TransportError):
    """The connection ended while a call waited for it."""

    def __init__(self, client_id: str, cause: Exception | None) -> None:
        self.client_id = client_id
        super().__init__(f"client {client_id} lost its connection ({cause or 'closed by the broker'})")


class RefusedError(PeerError):
    """The broker answered with a failure."""

    def __init__(self, client_id: str, what: str, reason: int) -> None:
        self.client_id = client_id
        self.what = what
        self.reason = reason
        super().__init__(f"client {client_id}: {what} refused with reason 0x{reason:02x}")


class Session(Protocol):
    """State that outlives one connection."""

    def resume(self, client: MqttClient, *, present: bool) -> None:
        """CONNACK came; ``present``: the broker still has the session."""
        ...


class MqttClient(asyncio.Protocol):
    """Client of one connection; see :meth:`connect`. ``messages`` has all deliveries; ``lost`` is a future
    that is done when the connection ends."""

    def __init__(self, client_id: str, *, version: int) -> None:
        self.client_id = client_id
        self.version = version
        self.messages: list[p.Publish] = []
        self.session_present = False
        self.left: int | None = None
        """Reason code of the broker's DISCONNECT, if it sent one."""
        self._framer = Framer()
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[tuple[type[Packet], int], asyncio.Future[Packet]] = {}
        self._next_id = 0
        self._half_received: set[int] = set()
        self._pinger: asyncio.TimerHandle | None = None
        self._keep_alive = 0
        self._receive_maximum = 65535
        self._posted: dict[int, object] = {}
        self._out: list[bytes] = []
        self._session: Session | None = None
        self._taken: Callable[[p.Publish], object] = self.messages.append
        self._acknowledged: Callable[[object], object] = lambda token: None
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def connect(
        cls,
        network: Network,
        address: Address,
        client_id: str,
        *,
        version: int = V5,
        clean_start: bool = True,
        session_expiry: int = 0,
        keep_alive: int = 60,
        will: p.Will | None = None,
        username: str | None = None,
        timeout: float = 10.0,
        session: Session | None = None,
    ) -> MqttClient:
        """Open a connection and send CONNECT. Raises OSError, TimeoutError, RefusedError or ClientLostError.

        ``session`` is resumed at CONNACK, before any packet behind it is handled.
        """
        async with asyncio.timeout(timeout):
            _, client = await network.connect(lambda: cls(client_id, version=version), address)
            client._session = session
            properties = Properties(session_expiry=session_expiry or None)
            packet = p.Connect(
                client_id=client_id,
                version=version,
                clean_start=clean_start,
                keep_alive=keep_alive,
                will=will,
                username=username,
                properties=properties if version == V5 else Properties(),
            )
            try:
                answer = await client.ask(packet, p.Connack, 0)
            except BaseException:
                client.drop()
                raise
        if answer.reason:
            client.drop()
            raise RefusedError(client_id, "CONNECT", answer.reason)
        client.session_present = answer.session_present
        client._keep_alive = keep_alive
        client._ping_later()
        return client

    def adopt(
        self,
        half_received: set[int],
        taken: Callable[[p.Publish], object],
        acknowledged: Callable[[object], object] = lambda token: None,
    ) -> None:
        """Continue with the QoS 2 identifiers of an earlier connection, and call ``taken`` with messages.

        ``acknowledged`` is called with the token of each posted message that the broker has acknowledged.
        """
        self._half_received = half_received
        self._taken = taken
        self._acknowledged = acknowledged

    @property
    def connected(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def payloads(self) -> list[bytes]:
        """Payloads that were delivered, in order."""
        return [message.payload for message in self.messages]

    async def subscribe(self, *filters: str, qos: int = 0, timeout: float = 30.0) -> None:
        """Return at SUBACK. Raises RefusedError for the first filter that was refused."""
        packet_id = self._new_id()
        wanted = tuple(p.Subscription(one, qos) for one in filters)
        async with asyncio.timeout(timeout):
            answer = await self.ask(
                p.Subscribe(packet_id=packet_id, subscriptions=wanted), p.Suback, packet_id
            )
        for topic_filter, reason in zip(filters, answer.reasons, strict=True):
            if reason >= _FAILURE:
                raise RefusedError(self.client_id, f"SUBSCRIBE to {topic_filter}", reason)

    async def unsubscribe(self, *filters: str, timeout: float = 30.0) -> None:
        packet_id = self._new_id()
        async with asyncio.timeout(timeout):
            await self.ask(p.Unsubscribe(packet_id=packet_id, filters=filters), p.Unsuback, packet_id)

    async def publish(
        self,
        topic: str,
        payload: bytes = b"",
        *,
        qos: int = 0,
        retain: bool = False,
        expiry: int | None = None,
        properties: Properties | None = None,
        timeout: float = 60.0,
    ) -> None:
        """Return when the broker has acknowledged the message, at once for QoS 0."""
        packet_id = self._new_id() if qos else None
        if properties is None:
            properties = Properties(message_expiry=expiry or None)
        packet = p.Publish(
            topic=topic.encode(),
            payload=payload,
            qos=qos,
            retain=retain,
            packet_id=packet_id,
            properties=properties,
        )
        if packet_id is None:
            self._send(packet)
            return
        async with asyncio.timeout(timeout):
            if qos == 1:
                refused = (await self.ask(packet, p.Puback, packet_id)).reason
            else:
                refused = (await self.ask(packet, p.Pubrec, packet_id)).reason
                if refused < _FAILURE:
                    await self.ask(p.Pubrel(packet_id), p.Pubcomp, packet_id)
        if refused >= _FAILURE:
            raise RefusedError(self.client_id, f"PUBLISH to {topic}", refused)

    def post(
        self, topic: bytes, payload: bytes, *, qos: int = 0, retain: bool = False, token: object = None
    ) -> bool:
        """Send a message without waiting; False when it cannot be sent now.

        No more messages are unacknowledged at once than the broker's receive maximum.
        """
        if not self.connected or (qos and len(self._posted) >= self._receive_maximum):
            return False
        packet_id = None
        if qos:
            packet_id = self._new_id()
            self._posted[packet_id] = token
        self._send(p.Publish(topic=topic, payload=payload, qos=qos, retain=retain, packet_id=packet_id))
        return True

    async def disconnect(self) -> None:
        """Send DISCONNECT, and wait until the connection is gone."""
        if self.connected:
            self._send(p.Disconnect())
            self._flush()
            cast("asyncio.Transport", self._transport).close()
            await self.lost

    def drop(self) -> None:
        """End the connection without DISCONNECT."""
        self._flush()
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio.Protocol -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        for first, body in self._framer.feed(data):
            self._take(decode(first, body, self.version))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._pinger is not None:
            self._pinger.cancel()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ClientLostError(self.client_id, exc))
        if not self.lost.done():
            self.lost.set_result(exc)

    # -- inside ---------------------------------------------------------------------------------------

    def _take(self, packet: Packet) -> None:
        match packet:
            case p.Publish():
                self._deliver(packet)
            case p.Pubrel():
                self._half_received.discard(packet.packet_id)
                self._send(p.Pubcomp(packet.packet_id))
            case p.Connack():
                self._receive_maximum = packet.properties.receive_maximum or 65535
                if self._session is not None and not packet.reason:
                    self._session.resume(self, present=packet.session_present)
                self._answer(packet, 0)
            case p.Puback() | p.Suback() | p.Unsuback():  # the other acknowledgements descend from PUBACK
                self._answer(packet, packet.packet_id)
                if isinstance(packet, p.Puback) and packet.packet_id in self._posted:
                    self._settle(packet)
            case p.Disconnect():
                self.left = packet.reason
            case _:
                pass

    def _deliver(self, packet: p.Publish) -> None:
        if packet.qos == 2 and packet.packet_id in self._half_received:
            self._send(p.Pubrec(packet.packet_id))
            return
        self._taken(packet)
        if packet.packet_id is not None:
            if packet.qos == 2:
                self._half_received.add(packet.packet_id)
                self._send(p.Pubrec(packet.packet_id))
            else:
                self._send(p.Puback(packet.packet_id))

    def _settle(self, packet: p.Puback) -> None:
        """Handle the answer to a posted message: PUBACK, PUBREC or PUBCOMP."""
        failed = packet.reason >= _FAILURE
        if not failed and not isinstance(packet, p.Pubcomp):
            self._acknowledged(self._posted[packet.packet_id])
        if isinstance(packet, p.Pubrec) and not failed:
            self._send(p.Pubrel(packet.packet_id))
        else:
            del self._posted[packet.packet_id]

    async def ask(self, packet: Packet, answer: type[P], packet_id: int) -> P:
        """Send a packet, and return the one that answers it."""
        if self._transport is None:
            raise ClientLostError(self.client_id, None)
        key = (cast("type[Packet]", answer), packet_id)
        future = self._waiting[key] = asyncio.get_running_loop().create_future()
        try:
            self._send(packet)
            return cast("P", await future)
        finally:
            del self._waiting[key]

    def _answer(self, packet: Packet, packet_id: int) -> None:
        future = self._waiting.get((type(packet), packet_id))
        if future is not None and not future.done():
            future.set_result(packet)

    def _send(self, packet: Packet) -> None:
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(encode(packet, self.version))

    def _flush(self) -> None:
        if self._transport is not None and self._out:
            self._transport.write(b"".join(self._out))
        self._out.clear()

    def _ping_later(self) -> None:
        if self._keep_alive and self._transport is not None:
            loop = asyncio.get_running_loop()
            self._pinger = loop.call_later(self._keep_alive / 2, self._ping)

    def _ping(self) -> None:
        self._send(p.Pingreq())
        self._ping_later()

    def _new_id(self) -> int:
        while True:
            self._next_id = self._next_id % 65535 + 1
            if self._next_id not in self._posted:
                return self._next_id
