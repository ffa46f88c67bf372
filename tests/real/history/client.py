"""A raw MQTT client that keeps its session's state across connections and notes what it sees.

Rules: 1. It does what the standard asks of a client and no more: it sends again what is not acknowledged
(DUP, PUBREL) when the session is present; where it is not, it begins anew: messages of QoS 1 are sent again
as new ones, those of QoS 2 are abandoned.  2. A PUBLISH of QoS 2 whose identifier is not released is never
handed on twice.  3. Everything is noted in the moment in which it is seen; nothing is judged here.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from . import packets
from .history import History
from .packets import Kind, Packet, Will
from .wire import Wire

CONNECT_TIMEOUT = 12.0
ANSWER_TIMEOUT = 15.0
GOODBYE_TIMEOUT = 2.0
EXPIRY = 3600


@dataclass(slots=True)
class _Outgoing:
    """A message of ours that its server has not taken yet."""

    message: str
    topic: str
    qos: int
    retain: bool
    tries: int = 0
    released: bool = False
    """PUBREC came."""


class Client:
    """``addresses``: where each node that clients may go to listens. ``clean``: the session ends with its
    connection. ``window``: what it takes unacknowledged at most; 0: as much as the protocol allows.
    """

    def __init__(
        self,
        history: History,
        addresses: Mapping[int, tuple[str, int]],
        name: str,
        *,
        version: int = 5,
        clean: bool = False,
        expiry: int = EXPIRY,
        will: Will | None = None,
        client_id: str = "",
        keep_alive: int = 60,
        window: int = 0,
    ) -> None:
        self.name = name
        self.client_id = client_id or name
        self.version = version
        self.clean = clean
        self.will = will
        self.muted = False
        """While set, messages are not acknowledged."""
        self.falls_on: Callable[[int], bool] = lambda kind: False
        """Whether the client falls on a packet of this kind: it takes it, and says nothing any more."""
        self._expiry = 0 if clean else expiry
        self._keep_alive = keep_alive
        self._window = window
        self._history = history
        self._addresses = addresses
        self._wire: Wire | None = None
        self._connections = itertools.count(1)
        self._identifiers = itertools.cycle(range(1, 60000))
        self._out: dict[int, _Outgoing] = {}
        self._in: dict[int, str] = {}
        self._answers: dict[int, asyncio.Future[int | None]] = {}
        self._messages = itertools.count(1)
        self._topics: dict[int, str] = {}
        self.filters: dict[str, int] = {}
        """What the server has said that this session subscribes to."""
        self.got: set[str] = set()
        """Messages that were handed on."""
        self.doubtful = False
        """A CONNECT went unanswered: the session may be a new one, whatever the next CONNACK says."""
        self.wanted: dict[str, int] = {}
        """What it wants: subscribed to again wherever the session is new."""

    @property
    def connected(self) -> bool:
        wire = self._wire
        return wire is not None and wire.connack.done() and not wire.lost.is_set() and not wire.ended

    @property
    def node(self) -> int:
        """Where the last connection went."""
        return self._wire.node if self._wire is not None else 0

    @property
    def pending(self) -> list[str]:
        """Messages that no server has acknowledged."""
        return [out.message for out in self._out.values()]

    async def connect(self, node: int, *, timeout: float = CONNECT_TIMEOUT) -> bool:
        """Whether the server let it in; whatever connection was there is aborted first."""
        self.abort()
        wire = await self.dial(node, timeout=timeout)
        if wire is None:
            return False
        try:
            async with asyncio.timeout(timeout):
                return await wire.connack
        except TimeoutError:
            self._note("timeout", wire, note="CONNECT")
            self.abort()
            return False

    async def dial(self, node: int, *, timeout: float = CONNECT_TIMEOUT) -> Wire | None:
        """Open a connection and send CONNECT, without waiting for the answer."""
        if node not in self._addresses:
            return None
        wire = Wire(self, next(self._connections), node)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                await loop.create_connection(lambda: wire, *self._addresses[node])
        except (OSError, TimeoutError):
            wire.connack.cancel()
            return None
        self.doubtful = self.doubtful or (self._wire is not None and not self._wire.let_in)
        self._wire = wire
        self._note("connecting", wire, note="clean" if self.clean else "")
        if self.will is not None:
            will, delay = self.will, min(self.will.delay, self._expiry)
            self._note("will", wire, message=will.payload.decode(), topic=will.topic, code=delay)
        wire.write(
            packets.connect(
                version=self.version,
                client_id=self.client_id,
                clean=self.clean,
                keep_alive=self._keep_alive,
                expiry=self._expiry,
                window=self._window,
                will=self.will,
            )
        )
        return wire

    def abort(self) -> None:
        """Drop the connection without a word."""
        wire = self._wire
        if wire is not None and not wire.ended and not wire.lost.is_set():
            self._note("aborted", wire, note="after DISCONNECT" if wire.leaving else "")
            wire.end()
            self._give_up_answers()

    async def goodbye(self) -> bool:
        """DISCONNECT; True once the server has closed, so it has surely read it."""
        wire = self._wire
        if wire is None or not self.connected:
            return False
        wire.leaving = True
        wire.write(packets.disconnect(version=self.version))
        try:
            async with asyncio.timeout(GOODBYE_TIMEOUT):
                await wire.lost.wait()
        except TimeoutError:
            self.abort()
            return False
        return True

    async def leave(self, *, politely: bool) -> None:
        """By DISCONNECT, or without a word."""
        if politely:
            await self.goodbye()
        else:
            self.abort()

    async def lost(self) -> None:
        """Wait until the connection is gone."""
        if self._wire is not None:
            await self._wire.lost.wait()

    def publish(self, topic: str, qos: int, *, retain: bool = False) -> str:
        """Send a new message and return its name, which is its payload; QoS 0 is forgotten at once."""
        message = f"{self.name}:{next(self._messages)}"
        out = _Outgoing(message, topic, qos, retain)
        packet_id = 0
        if qos:
            packet_id = self._identifier()
            self._out[packet_id] = out
        self._send(packet_id, out)
        return message

    async def subscribe(self, topic_filter: str, qos: int) -> int | None:
        """The reason code of SUBACK; None: none came on this connection."""
        self.wanted[topic_filter] = qos
        return await self._ask("subscribing", topic_filter, qos)

    async def subscribe_again(self) -> bool:
        """Subscribe to what is wanted and may not be there; whether all of it is now."""
        for topic_filter, qos in list(self.wanted.items()):
            if (self.doubtful or topic_filter not in self.filters) and await self._ask(
                "subscribing", topic_filter, qos
            ) is None:
                return False
        self.doubtful = False
        return True

    async def unsubscribe(self, topic_filter: str) -> int | None:
        self.wanted.pop(topic_filter, None)
        return await self._ask("unsubscribing", topic_filter, 0)

    async def ping(self) -> None:
        """Ask whether anybody serves this connection; the answer is noted when it comes."""
        if self._wire is not None and self.connected:
            self._wire.write(packets.ping())

    async def _ask(self, kind: str, topic_filter: str, qos: int) -> int | None:
        wire = self._wire
        if wire is None or not self.connected:
            return None
        packet_id = self._identifier()
        answer: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._answers[packet_id] = answer
        self._topics[packet_id] = topic_filter
        self._note(kind, wire, topic=topic_filter, qos=qos, packet_id=packet_id)
        wanted = qos if kind == "subscribing" else None
        wire.write(
            packets.subscribe(
                version=self.version, packet_id=packet_id, topic_filter=topic_filter, qos=wanted
            )
        )
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                return await answer
        except TimeoutError:
            self._note("timeout", wire, topic=topic_filter, note=kind)
            return None
        finally:
            self._answers.pop(packet_id, None)

    def _identifier(self) -> int:
        return next(n for n in self._identifiers if n not in self._out and n not in self._answers)

    def _send(self, packet_id: int, out: _Outgoing) -> None:
        if self._wire is None or not self.connected:
            return
        fields = {
            "topic": out.topic,
            "qos": out.qos,
            "packet_id": packet_id,
            "dup": out.tries > 0,
            "retain": out.retain,
        }
        out.tries += 1
        self._note("sent", self._wire, message=out.message, **fields)
        self._wire.write(packets.publish(self.version, out.message.encode(), **fields))

    def _give_up_answers(self) -> None:
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(None)

    def gone(self, wire: Wire) -> None:
        if not wire.connack.done():
            wire.connack.set_result(False)
        if wire.ended:
            return
        self._note("goodbye" if wire.leaving else "closed", wire, code=wire.code)
        if wire is self._wire:
            self._give_up_answers()

    def take(self, wire: Wire, packet: Packet) -> None:
        match packet.kind:
            case Kind.CONNACK:
                self._let_in(wire, packet)
            case Kind.PUBLISH:
                self._deliver(wire, packet)
            case Kind.PUBACK | Kind.PUBREC | Kind.PUBCOMP:
                self._acknowledged(wire, packet)
            case Kind.PUBREL:
                packet_id, _ = packets.parse_ack(packet)
                self._in.pop(packet_id, None)
                wire.write(packets.ack(Kind.PUBCOMP, packet_id))
            case Kind.SUBACK | Kind.UNSUBACK:
                self._answered(wire, packet)
            case Kind.PINGRESP:
                self._note("served", wire)
            case Kind.DISCONNECT:
                wire.code = packets.parse_disconnect(packet)

    def _let_in(self, wire: Wire, packet: Packet) -> None:
        present, code = packets.parse_connack(packet)
        if code:
            self._note("refused", wire, code=code)
            wire.connack.set_result(False)
            wire.end()
            return
        self._note("connected", wire, present=present)
        wire.let_in = True
        wire.connack.set_result(True)
        if not present:
            self._in.clear()
            self.filters.clear()
        for packet_id, out in list(self._out.items()):
            if not present:
                out.tries = 0
                if out.qos == 2:
                    del self._out[packet_id]
                    self._note("abandoned", wire, message=out.message, topic=out.topic)
                    continue
            if out.released:
                wire.write(packets.ack(Kind.PUBREL, packet_id))
            else:
                self._send(packet_id, out)

    def _deliver(self, wire: Wire, packet: Packet) -> None:
        seen = packets.parse_publish(self.version, packet)
        message = seen.payload.decode(errors="replace")
        fields = {
            "topic": seen.topic,
            "message": message,
            "qos": seen.qos,
            "packet_id": seen.packet_id,
            "dup": seen.dup,
            "retain": seen.retain,
        }
        note = "unacknowledged" if self.muted and seen.qos else ""
        if seen.qos == 2 and seen.packet_id in self._in:
            self._note("repeated", wire, **fields, note=self._in[seen.packet_id])
        else:
            self._note("received", wire, **fields, note=note)
            self.got.add(message)
        if seen.qos == 2:
            self._in.setdefault(seen.packet_id, message)
        if seen.qos and not self.muted:
            wire.write(packets.ack(Kind.PUBACK if seen.qos == 1 else Kind.PUBREC, seen.packet_id))

    def _acknowledged(self, wire: Wire, packet: Packet) -> None:
        packet_id, code = packets.parse_ack(packet)
        out = self._out.get(packet_id)
        if out is None:
            return
        fields = {"message": out.message, "topic": out.topic, "qos": out.qos, "packet_id": packet_id}
        if packet.kind == Kind.PUBREC and code < 0x80:
            out.released = True
            self._note("received by server", wire, **fields)
            wire.write(packets.ack(Kind.PUBREL, packet_id))
            return
        del self._out[packet_id]
        # An identifier that is not found after PUBREC: its message went on its way then.
        unknown = packet.kind == Kind.PUBCOMP and code == 0x92
        note = "packet identifier not found" if unknown else ""
        self._note("acknowledged", wire, **fields, code=0 if unknown else code, note=note)

    def _answered(self, wire: Wire, packet: Packet) -> None:
        packet_id, code, said = packets.parse_suback(self.version, packet)
        topic_filter = self._topics.pop(packet_id, "")
        if packet.kind == Kind.SUBACK:
            self._note("subscribed", wire, topic=topic_filter, code=code, note=said, packet_id=packet_id)
            if code < 0x80 and topic_filter in self.wanted:
                self.filters[topic_filter] = code
        else:
            self._note("unsubscribed", wire, topic=topic_filter, code=code, packet_id=packet_id)
            self.filters.pop(topic_filter, None)
        answer = self._answers.get(packet_id)
        if answer is not None and not answer.done():
            answer.set_result(code)

    def _note(self, kind: str, wire: Wire, **fields: object) -> None:
        self._history.record(kind, client=self.name, node=wire.node, connection=wire.number, **fields)
