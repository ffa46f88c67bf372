"""A channel: one client's connection, from its first byte to its last, as a process without a task.

It feeds whole reads to ``publish_reader``, and keeps what belongs to the connection rather than to the
session: a partial packet, the will, what its client may do. ``pipe`` has what is below that.

Rules: 1. No task, future or timer per connection, but while a client is being authenticated.  2. At most one
partial packet is held.  3. Whatever a client provokes ends its own channel at worst.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, cast

import structlog

from gossamer.mqtt.auth.acl import Gate
from gossamer.mqtt.codec.decoder import connect_version, decode
from gossamer.mqtt.codec.encoder import encode, explained
from gossamer.mqtt.codec.errors import MqttProtocolError, violation
from gossamer.mqtt.codec.framing import frame
from gossamer.mqtt.codec.packets import V4, V5, Auth, Connack, Connect, Disconnect, Packet, Will
from gossamer.mqtt.codec.properties import NONE, Properties
from gossamer.mqtt.codec.reasons import ReasonCode, connack_return_code
from gossamer.mqtt.codec.summary import glance
from gossamer.mqtt.connection.limits import Entrance
from gossamer.mqtt.connection.pipe import ASKED, CLOSED, NEW, UP, WAITING, Pipe
from gossamer.mqtt.connection.shared import Shared
from gossamer.mqtt.flow.backpressure import DECIDING, TURN
from gossamer.mqtt.flow.deadlines import Deadline
from gossamer.mqtt.publish.fanout import Fanout
from gossamer.mqtt.publish.lone import bind, descriptor_of
from gossamer.mqtt.publish.plan import Audience, Plan
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.tenants.tenant import Tenant
from gossamer.routes import Route

log = structlog.get_logger(__name__)

EARLY = 16 * 1024
"""Bytes held of what a client sends before it is let in, and then no more is read. Reading is what tells that
a client has gone, so it goes on until then."""
LINGER = 10.0
"""Seconds that a closing connection may take to read what was written to it."""


class Service(Protocol):
    """Server of the channels of a node."""

    def opened(self, channel: Channel, /) -> None: ...
    def connect(self, channel: Channel, packet: Connect, /) -> None: ...
    def answered(self, channel: Channel, packet: Packet, /) -> None: ...
    def take(self, channel: Channel, data: bytes, /) -> int: ...
    def handle(self, channel: Channel, first: int, body: bytes, /) -> None: ...
    def closed(self, channel: Channel, why: str, /) -> None: ...


class Channel(Pipe):
    """One client's connection; a process without a task."""

    __slots__ = (
        *("_need", "_parts", "_parts_size", "aliases", "answered", "asked", "cache_get", "came", "deadline"),
        *("ends", "exchange", "gate", "held", "keep_alive", "listener", "max_packet", "more", "plan_of"),
        *("service", "shared", "since", "stamp", "tenant", "username", "will"),
    )

    def __init__(self, shared: Shared, service: Service, listener: Entrance) -> None:
        super().__init__(shared)
        self.shared = shared
        self.service = service
        self.listener = listener
        self.will: Will | None = None
        self.keep_alive = 0
        self.gate: Gate | None = None
        self.cache_get = shared.publishing.cache_get
        self.plan_of: Callable[[bytes], Plan | None] = shared.publishing.plan_of
        self.max_packet = min(shared.limits.max_packet, listener.max_packet)
        self.deadline: Deadline | None = None
        self.ends: Deadline | None = None
        """When what the client proved who it is with holds no longer."""
        self.asked = NONE
        """The properties of its CONNECT."""
        self.exchange: Any = None
        """The enhanced authentication under way; see ``enhanced``."""
        self.since = 0.0
        """When its client was let in, by the wall clock."""
        self.answered = 0.0
        """When a SUBACK went last that had to wait, by the wall clock."""
        self.came = 0.0
        """When its CONNECT came, by the fan-out's clock."""
        self.username: str | None = None
        """Who its client was found to be; None: anonymous, or not known yet."""
        self.tenant: Tenant | None = None
        """Tenant of its client; None: the default one, or not known yet."""
        self.stamp = 0
        """The same for comparison with connections to other nodes; see ``claims``."""
        self.aliases: dict[int, bytes] | None = None
        self.more = False
        self.held = 0
        """How many SUBACKs wait for other nodes."""
        self._parts: list[bytes] | None = None
        self._parts_size = 0
        self._need = 0

    # The connection, as the loop sees it.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer or "local")
        self.seen = self.fanout.now()
        self.descriptor = descriptor_of(transport)
        self.transport.set_write_buffer_limits(high=self.limits.high_water)
        if self.listener.adopt(self):
            self.service.opened(self)
        else:
            self.phase = CLOSED
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.finish("closed by peer" if exc is None else f"connection lost: {exc}")

    # Input.

    def data_received(self, data: bytes) -> None:
        fanout = self.fanout
        fanout.bytes_received += len(data)
        if self.phase != UP and (self.phase == CLOSED or not self.listener.hold(self, len(data))):
            return
        try:
            now = fanout.now()
            fence = fanout.fence
            if fence is not None and now > fence.fine_until and fence.stops(self):
                self._hold(data)
                return
            if self._parts is not None:
                # The first packet is partial; join only once it is whole, however many reads it takes.
                self._hold(data)
                if self.phase == WAITING or self.unwelcome or self._parts_size < self._need:
                    return
                data = b"".join(self._parts)
                self._parts = None
            if not data:
                return
            if self.phase == WAITING:
                self._hold(data)
                return
            if self.tracer is not None:
                # Here data begins with a packet; in the middle of one anything could be taken for a topic.
                self.tracer("receive", glance(data))
            if self.phase == UP:
                pos = self.service.take(self, data)
                if pos:
                    self.seen = now
            else:
                pos = self._first(data)
            if pos < len(data) or self.more:
                self._keep(data, pos)
        except MqttProtocolError as error:
            self.refuse(error)
        except Exception as error:  # noqa: BLE001 - whatever else a client provokes ends its channel, nothing more
            self.crash(error)

    def _hold(self, data: bytes) -> None:
        """Put what came behind what is held; of a client that is not in service yet only so much."""
        if self._parts is None:
            self._parts, self._parts_size, self._need = [], 0, 0
        self._parts.append(data)
        self._parts_size += len(data)
        if (self.phase == WAITING or self.unwelcome) and self._parts_size > EARLY:
            self.pause_reading(DECIDING)

    def _go_on(self) -> None:
        """Take the rest of a read that was too much for one turn."""
        self.resume_reading(TURN)
        self.data_received(b"")

    def _keep(self, data: bytes, pos: int) -> None:
        """Hold the start of a packet that is not whole, or what is too much for this turn."""
        if self.phase == CLOSED:
            self.more = False
            return
        rest = data[pos:] if pos else data
        self._hold(rest)
        if self.more:
            self.more = False
            self.pause_reading(TURN)
            self.fanout.wide.after(self._go_on)
            return
        limit = self.max_packet if self.phase == UP else self.limits.max_connect_packet
        start, stop = frame(rest, 0, len(rest), limit)
        self._need = stop if start else len(rest) + 1

    def _first(self, data: bytes) -> int:
        """CONNECT, and nothing else ([MQTT-3.1.0-1]); behind it, AUTH where the client was asked for it."""
        new = self.phase == NEW
        if new and data[0] & 0xF0 != 0x10:
            raise violation("MQTT-3.1.0-1", f"the first packet starts with 0x{data[0]:02X}, expected CONNECT")
        if not new and data[0] & 0xF0 == 0x10:
            raise violation("MQTT-3.1.0-2", "a second CONNECT")
        if new:
            # What a refusal is written in, if the packet cannot be read.
            self.version = connect_version(data)
        start, stop = frame(data, 0, len(data), self.limits.max_connect_packet)
        if start == 0 or stop > len(data):
            return 0
        packet = decode(data[0], data[start:stop], self.version)
        self.phase = WAITING
        if stop < len(data):
            self._hold(data[stop:])
        if new:
            self.service.connect(self, cast("Connect", packet))
        else:
            self.service.answered(self, packet)
        return len(data)

    # Beginning and end.

    def admitted(self, session: Session, connack: Connack, *, known: bool) -> None:
        """The client is let in; whatever it sent behind CONNECT is taken now. ``known``: its will is safe;
        else CONNACK waits for :meth:`welcome`."""
        self.phase = UP
        self.listener.free(self)
        self.unwelcome = not known
        self.session = session
        session.push(encode(connack, self.version))
        if self.fanout.recorder is not None:
            self.fanout.recorder.connected(session, connack.session_present)
        session.resume()
        if known:
            self.welcome()
        elif self._parts is None:
            # From here on it is held like what came before.
            self._parts, self._parts_size, self._need = [], 0, 0

    def welcome(self) -> None:
        """The client may know that it is let in."""
        if self.phase != UP:
            return
        if self.unwelcome:
            self.unwelcome = False
            self._flush_own()
        self.resume_reading(DECIDING)
        self.data_received(b"")

    def ask(self, packet: Auth) -> None:
        """AUTH: the client is to say more of who it is before it is let in, or refused."""
        self.transport.write(encode(packet, V5))
        self.phase = ASKED
        self.resume_reading(DECIDING)
        self.data_received(b"")

    def crowd_out(self) -> None:
        """End, since clients that are not let in yet have sent too much together, and this one most."""
        self.listener.crowded_out(self.peer)
        self.finish("crowded out before it was let in")

    def rejected(self, reason: ReasonCode, detail: str, properties: Properties = NONE) -> None:
        """CONNACK with ``reason``, then the end ([MQTT-3.2.2-7])."""
        if self.phase == CLOSED:
            return
        self.listener.refused(reason.name.lower())
        if self.version == V5:
            connack = Connack(reason=reason, properties=properties)
            self.transport.write(explained(connack, detail, self.asked))
        elif (code := connack_return_code(reason)) is not None:
            self.transport.write(encode(Connack(reason=code), V4))
        self.finish(detail)

    def turn_away(self, detail: str) -> None:
        """End since its session cannot be served here now; where CONNACK is not out yet, it says so."""
        self._flush_own()
        if self.early is None:
            self.disconnect(ReasonCode.SERVER_BUSY, detail=detail)
        else:
            self.will = None
            self.rejected(ReasonCode.SERVER_UNAVAILABLE, detail)

    def refuse(self, error: MqttProtocolError) -> None:
        """End the connection as the standard says for ``error``."""
        self.shared.log_limit.write(
            log.info, "client_refused", peer=self.peer, client_id=self.client_id, error=str(error)
        )
        if self.phase == UP:
            self.disconnect(error.reason, detail=error.detail)
        elif error.reason == ReasonCode.UNSUPPORTED_PROTOCOL_VERSION:
            # Its version is unknown, so both get the form of 3.1.1 ([MQTT-3.1.2-2]).
            self.transport.write(b"\x20\x02\x00\x01")
            self.listener.refused(error.reason.name.lower())
            self.finish(str(error))
        elif self.version == V5:
            self.rejected(error.reason, error.detail)
        else:
            # Without CONNACK ([MQTT-3.1.4-1] of 3.1.1).
            self.listener.refused(error.reason.name.lower())
            self.finish(str(error))

    def disconnect(
        self, reason: ReasonCode, *, will: bool = True, properties: Properties = NONE, detail: str = ""
    ) -> None:
        """Close from this side, telling a 5.0 client why; the will is published unless told otherwise."""
        if self.phase == UP:
            self.shared.disconnected[reason.name.lower()] += 1
            self._flush_own()
            if self.version == V5 and self.early is None:
                goodbye = Disconnect(reason=reason, properties=properties)
                self.transport.write(explained(goodbye, detail, self.asked))
        if not will:
            self.will = None
        self.finish(reason.name.lower())

    def finish(self, why: str) -> None:
        """Over, for whatever reason; the session learns it."""
        if self.phase == CLOSED:
            return
        up = self.phase == UP
        if up:
            self._flush_own()
        self.phase = CLOSED
        self.listener.free(self)
        self._parts = None
        self._pending = None
        if self.exchange is not None:
            self.exchange.close()
            self.exchange = None
        if self.ends is not None:
            self.ends.cancel()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
            if self.transport.get_write_buffer_size():
                # Closing waits for the peer to read; not forever.
                self.shared.wheel.at(self.fanout.now() + LINGER, partial(_abort, self.transport))
        if up:
            self.fanout.pressure.relieve(self.session)
            if self.fanout.recorder is not None:
                self.fanout.recorder.disconnected(self.session, why)
        if self.consumers is not None:
            self.consumers.close()
        if self.session is not None:
            will, self.will = self.will, None
            self.shared.table.released(self.session, self, will)
        self.service.closed(self, why)
        self.close(("shutdown", "connection closed"))

    def _flush_own(self) -> None:
        out = self.session.out
        if out and self.session.channel is self and not self.transport.is_closing():
            self.write_out(out)

    @property
    def client_id(self) -> str:
        return self.session.client_id if self.session is not None else ""

    @property
    def tenant_name(self) -> str:
        return "" if self.tenant is None else self.tenant.name

    # As a process.

    def note(self) -> str:
        return f"{self.client_id or 'not let in yet'} from {self.peer}"

    def handle_message(self, message: object) -> None:
        """A channel takes no messages but ``"kick"``."""
        if message == "kick":
            self.disconnect(ReasonCode.ADMINISTRATIVE_ACTION)

    def on_close(self, reason: object) -> None:
        """An exit signal ended the process: the connection goes with it, and nothing else does."""
        shutdown = reason == "shutdown"
        if self.phase == UP:
            self.disconnect(ReasonCode.SERVER_SHUTTING_DOWN if shutdown else ReasonCode.UNSPECIFIED_ERROR)
        else:
            self.finish("shutdown" if shutdown else "killed")


def _abort(transport: asyncio.Transport, _now: float) -> None:
    transport.abort()


bind(Channel, Session, Plan, Audience, Fanout, Route)
