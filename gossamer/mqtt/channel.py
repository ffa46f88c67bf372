"""A channel: one client's connection, from its first byte to its last.

The only code that sees raw reads. A read is parsed whole, in one loop, and the packets that make up nearly
all traffic (PUBLISH of QoS 0 and 1 without flags or properties, PUBACK) are handled in that loop without
being decoded; every other packet goes through the codec to ``handlers``.

Rules: 1. No task, future or timer per message; none per connection either, but while a client is being
authenticated.  2. Two publishes that begin with the same bytes (same size, same topic) are found out by
comparing those bytes, and QoS 0 ones that follow one another under one plan travel as one slice.  3. What
came before a malformed packet counts; nothing after it does.  4. PUBACK and PUBREC go out in the order of
the publishes ([MQTT-4.6.0-2], [MQTT-4.6.0-3]), each when its message is safe on every node that must
deliver it.  5. A channel holds at most one partial packet, and stops reading while what it owes its client
or its subscribers piles up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import structlog

from gossamer.mqtt.decode import decode
from gossamer.mqtt.encode import encode
from gossamer.mqtt.errors import MqttProtocolError, violation
from gossamer.mqtt.fanout import V5_MARK, Plan, compile_plan, drop_qos0
from gossamer.mqtt.framing import frame
from gossamer.mqtt.handlers import handle, unexpected_ack
from gossamer.mqtt.packets import V4, V5, Connack, Connect, Disconnect, Will
from gossamer.mqtt.pressure import DECIDING, OWING
from gossamer.mqtt.reasons import ReasonCode, connack_return_code
from gossamer.mqtt.session import Session
from gossamer.mqtt.wheel import Deadline
from gossamer.supervisor import Port

if TYPE_CHECKING:
    from gossamer.mqtt.broker import Broker
    from gossamer.mqtt.listener import Acceptor

__all__ = ["Channel"]

log = structlog.get_logger(__name__)

LINGER = 10.0
"""Seconds that a closing connection may take to read what was written to it."""

NEW, WAITING, UP, CLOSED = range(4)
"""Before CONNECT; while the client is being authenticated; in service; over."""


class Channel(Port, asyncio.Protocol):
    """One connection; a process without a task. See the module."""

    __slots__ = (
        "_need",
        "_parts",
        "_parts_size",
        "_pending",
        "_state",
        "_unacked",
        "aliases",
        "broker",
        "deadline",
        "hub",
        "keep_alive",
        "listener",
        "peer",
        "reading_paused",
        "seen",
        "session",
        "transport",
        "version",
        "will",
        "write_full",
    )

    def __init__(self, broker: Broker, listener: Acceptor) -> None:
        self.broker = broker
        self.hub = broker.hub
        self.listener = listener
        self.transport: asyncio.Transport = cast("Any", None)
        self.session: Session = cast("Any", None)
        self.version = V4
        self.will: Will | None = None
        self.keep_alive = 0
        self.deadline: Deadline | None = None
        self.seen = 0.0
        self.peer = ""
        self.aliases: dict[int, bytes] | None = None
        self.reading_paused = 0
        self.write_full = False
        self._state = NEW
        self._parts: list[bytes] | None = None
        self._parts_size = 0
        self._need = 0
        self._pending: deque[list[Any]] | None = None
        self._unacked = 0

    # The connection, as the loop sees it.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer or "unknown")
        self.seen = self.hub.now()
        self.transport.set_write_buffer_limits(high=self.broker.high_water)
        if self.listener.adopt(self):
            self.broker.opened(self)
        else:
            self._state = CLOSED
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.finish("closed by peer" if exc is None else f"connection lost: {exc}")

    def pause_writing(self) -> None:
        self.write_full = True
        if self._state == UP:
            self.session.pause()
            self.hub.pressure.congest(self.session)

    def resume_writing(self) -> None:
        self.write_full = False
        if self._state == UP:
            self.session.unpause()
            self.hub.pressure.relieve(self.session)

    def eof_received(self) -> bool:
        return False

    # Input.

    def data_received(self, data: bytes) -> None:
        try:
            self._received(data)
        except MqttProtocolError as error:
            self.refuse(error)
        except Exception as error:  # noqa: BLE001 - whatever else a client provokes ends its channel, nothing more
            self.crash(error)

    def _received(self, data: bytes) -> None:
        if self._state == CLOSED:
            return
        parts = self._parts
        if parts is not None:
            # The first packet is partial; join only once it is whole, however many reads it takes.
            parts.append(data)
            self._parts_size += len(data)
            if self._parts_size < self._need or self._state == WAITING:
                return
            data = b"".join(parts)
            self._parts = None
        if not data:
            return
        pos = self._intake(data) if self._state == UP else self._first(data)
        if pos < len(data) and self._state != CLOSED:
            self._keep(data, pos)

    def _keep(self, data: bytes, pos: int) -> None:
        """Hold the start of a packet that is not whole."""
        rest = data[pos:] if pos else data
        limit = self.broker.max_packet if self._state == UP else self.broker.max_connect_packet
        start, stop = frame(rest, 0, len(rest), limit)
        self._parts = [rest]
        self._parts_size = len(rest)
        self._need = stop if start else len(rest) + 1

    def _first(self, data: bytes) -> int:
        """CONNECT, and nothing else ([MQTT-3.1.0-1])."""
        if self._state == WAITING:
            return 0
        if data[0] != 0x10:
            raise violation("MQTT-3.1.0-1", f"the first packet starts with 0x{data[0]:02X}, expected CONNECT")
        start, stop = frame(data, 0, len(data), self.broker.max_connect_packet)
        if start == 0 or stop > len(data):
            return 0
        packet = cast("Connect", decode(0x10, data[start:stop], V5))
        self.version = packet.version
        self._state = WAITING
        if stop < len(data):
            self._parts = [data[stop:]]
            self._parts_size = len(data) - stop
            self._need = 0
        self.broker.connect(self, packet)
        if self._state == WAITING:
            self.pause_reading(DECIDING)
        return len(data)

    def _intake(self, data: bytes) -> int:
        """Take every whole packet of ``data``; the position where a partial one starts."""
        hub = self.hub
        cache_get = self.broker.cache_get
        session = self.session
        inflight = session.inflight
        v5 = self.version == V5
        skip = 1 if v5 else 0
        version = V5 if v5 else V4
        end = len(data)
        pos = 0
        # The last publish: how its packet began, up to the topic's end, and how long it was.
        prefix = b""
        total = 0
        pure = False
        sinks: tuple[Session, ...] = ()
        plan: Plan | None = None
        qos = 0
        # The run of QoS 0 publishes under way.
        run: Plan | None = None
        run_start = 0
        run_count = 0
        # Publishes of QoS 1 that peers must have before they are acknowledged, and acknowledgements due now.
        far: list[bytes] = []
        far_acks: list[bytes] = []
        far_plan: Plan | None = None
        acks: list[bytes] = []
        acked = False
        try:
            while pos < end:
                if total and data.startswith(prefix, pos):
                    stop = pos + total
                    if stop > end:
                        break
                    if not qos:
                        run_count += 1
                        pos = stop
                        continue
                else:
                    at = pos + 2
                    if at > end:
                        break
                    first = data[pos]
                    length = data[pos + 1]
                    if length > 0x7F:
                        at, stop = frame(data, pos, end, self.broker.max_packet)
                        if at == 0:
                            break
                    else:
                        stop = at + length
                    if stop > end:
                        break
                    fast = first == 0x30 or first == 0x32
                    if fast:
                        topic_end = at + 2 + (data[at] << 8 | data[at + 1]) if stop - at > 2 else end
                        body = topic_end + (first & 2)
                        # Topic aliases and properties are for the codec.
                        fast = body + skip <= stop and topic_end > at + 2 and not (v5 and data[body])
                    if fast:
                        topic = data[at + 2 : topic_end]
                        route = cache_get(topic)
                        if route is None:
                            route = self.broker.resolve(topic)
                        plan = route.plan or compile_plan(route)
                        qos = first & 2
                        total = stop - pos
                        if not qos:
                            prefix = data[pos : topic_end + skip]
                            if plan is not run or not run_count:
                                if run is not None and run_count:
                                    hub.run(run, data[run_start:pos], run_count, version, session)
                                run = plan
                                run_start = pos
                                run_count = 0
                            run_count += 1
                            pos = stop
                            continue
                        prefix = data[pos:topic_end]
                        pure = plan.pure5 if v5 else plan.pure4
                        sinks = plan.q1_5 if v5 else plan.q1_4
                    elif first == 0x40 and stop - at == 2:
                        if run_count:
                            hub.run(cast("Plan", run), data[run_start:pos], run_count, version, session)
                            run_count = 0
                        packet_id = data[at] << 8 | data[at + 1]
                        packet = inflight.get(packet_id)
                        if packet is not None and packet[0] & 0xF6 == 0x32:
                            del inflight[packet_id]
                            acked = True
                        else:
                            unexpected_ack(self)
                        pos = stop
                        continue
                    else:
                        if run_count:
                            hub.run(cast("Plan", run), data[run_start:pos], run_count, version, session)
                            run_count = 0
                        if far:
                            self._forward(far_plan, far, far_acks)
                            far, far_acks = [], []
                        if acks:
                            self.acknowledge(b"".join(acks), len(acks))
                            acks = []
                        total = 0
                        handle(self, first, data[at:stop])
                        pos = stop
                        if self._state != UP:
                            return end
                        continue
                # One publish of QoS 1.
                if run_count:
                    hub.run(cast("Plan", run), data[run_start:pos], run_count, version, session)
                    run_count = 0
                at = pos + len(prefix)
                identifier = data[at : at + 2]
                at += 2
                if identifier == b"\0\0":
                    raise violation("MQTT-2.2.1-3" if v5 else "MQTT-2.3.1-1", "packet identifier is 0")
                if v5 and data[at]:
                    # Same size and topic as the one before it, but with properties.
                    total = 0
                    continue
                tail = data[at:stop]
                hub.received += 1
                if pure:
                    for sink in sinks:
                        if len(sink.inflight) < sink.window:
                            sink.send(prefix, tail)
                        else:
                            sink.enqueue(prefix, tail)
                    hub.sent += len(sinks)
                    acks.append(b"\x40\x02" + identifier)
                else:
                    plan = cast("Plan", plan)
                    hub.one(plan, prefix, tail, version, session)
                    if plan.peers:
                        if acks:
                            self.acknowledge(b"".join(acks), len(acks))
                            acks = []
                        if far and far_plan is not plan:
                            self._forward(far_plan, far, far_acks)
                            far, far_acks = [], []
                        far_plan = plan
                        if v5:
                            far.append(V5_MARK)
                        far.append(data[pos:stop])
                        far_acks.append(b"\x40\x02" + identifier)
                    else:
                        if far:
                            self._forward(far_plan, far, far_acks)
                            far, far_acks = [], []
                        acks.append(b"\x40\x02" + identifier)
                pos = stop
        finally:
            if run_count:
                hub.run(cast("Plan", run), data[run_start:pos], run_count, version, session)
            if far:
                self._forward(far_plan, far, far_acks)
            if acks:
                self.acknowledge(b"".join(acks), len(acks))
        if acked and (session.queue or session.resend):
            session.pump()
        if pos:
            self.seen = hub.now()
        if hub.pressure and plan is not None:
            hub.pressure.hold_up(self, plan.sessions, plan.peers)
        return pos

    # Acknowledgements, in order.

    def acknowledge(self, acks: bytes, count: int) -> None:
        """``count`` acknowledgements whose messages are safe; behind those that are not yet."""
        if self._pending:
            self._pending.append([acks, 0, count])
            self._owe(count)
        else:
            self.session.push(acks)

    def _forward(self, plan: Plan | None, records: list[bytes], acks: list[bytes]) -> None:
        self.forward(cast("Plan", plan), b"".join(records), b"".join(acks), len(acks))

    def forward(self, plan: Plan, record: bytes, acks: bytes, count: int) -> None:
        """Send ``record`` to every peer of ``plan``; ``acks`` go to the client once all of them are safe."""
        if self._pending is None:
            self._pending = deque()
        cell = [acks, len(plan.peers), count]
        self._pending.append(cell)
        self._owe(count)
        safe = partial(self._safe, cell)
        for peer in plan.peers:
            peer.append_acked(record, safe)

    def _safe(self, cell: list[Any], done: bool) -> None:
        cell[1] -= 1
        if not done:
            self.hub.dropped("peer_down", cell[2])
        pending = self._pending
        while pending and pending[0][1] <= 0:
            acks, _, count = pending.popleft()
            self._unacked -= count
            if self._state == UP:
                self.session.push(acks)
        if self.reading_paused & OWING and self._unacked <= self.broker.receive_maximum // 2:
            self.resume_reading(OWING)

    def _owe(self, count: int) -> None:
        self._unacked += count
        if self._unacked > self.broker.receive_maximum:
            if self.version == V5:
                raise MqttProtocolError(
                    ReasonCode.RECEIVE_MAXIMUM_EXCEEDED,
                    "MQTT-3.3.4-7",
                    f"{self._unacked} unacknowledged, receive maximum {self.broker.receive_maximum}",
                )
            self.pause_reading(OWING)

    # Back-pressure.

    def pause_reading(self, why: int) -> None:
        if not self.reading_paused and self._state != CLOSED:
            self.transport.pause_reading()
        self.reading_paused |= why

    def resume_reading(self, why: int) -> None:
        if not self.reading_paused & why:
            return
        self.reading_paused &= ~why
        if not self.reading_paused and self._state != CLOSED:
            self.seen = self.hub.now()
            self.transport.resume_reading()

    # Output.

    def write_out(self, out: list[bytes]) -> int:
        """Write what the turn brought; the number of bytes."""
        transport = self.transport
        if transport.is_closing():
            out.clear()
            return 0
        if self.write_full and transport.get_write_buffer_size() > self.broker.max_write_buffer:
            kept, lost = drop_qos0(out)
            self.hub.dropped("slow_consumer", lost)
            out.clear()
            if transport.get_write_buffer_size() > 2 * self.broker.max_write_buffer:
                # It sends what must be answered and does not read the answers.
                self.hub.dropped("slow_consumer_closed")
                transport.abort()
                return 0
            if not kept:
                return 0
            data = b"".join(kept)
        else:
            data = out[0] if len(out) == 1 else b"".join(out)
            out.clear()
        transport.write(data)
        return len(data)

    # Beginning and end.

    def admitted(self, session: Session, connack: Connack) -> None:
        """The client is let in; whatever it sent behind CONNECT is taken now."""
        self._state = UP
        self.session = session
        session.push(encode(connack, self.version))
        session.resume()
        self.resume_reading(DECIDING)
        self.data_received(b"")

    def rejected(self, reason: ReasonCode, detail: str) -> None:
        """CONNACK with ``reason``, then the end ([MQTT-3.2.2-7])."""
        if self._state != CLOSED:
            code = reason if self.version == V5 else connack_return_code(reason)
            self.transport.write(encode(Connack(reason=code), self.version))
            self.finish(detail)

    def refuse(self, error: MqttProtocolError) -> None:
        """End the connection as the standard says for ``error``."""
        self.hub.dropped_connections += 1
        log.info("client_refused", peer=self.peer, client_id=self.client_id, error=str(error))
        if self._state == UP:
            self.disconnect(error.reason)
        elif error.reason == ReasonCode.UNSUPPORTED_PROTOCOL_VERSION:
            # Its version is unknown, so both get the form of 3.1.1 ([MQTT-3.1.2-2]).
            self.transport.write(b"\x20\x02\x00\x01")
            self.finish(str(error))
        else:
            self.finish(str(error))

    def disconnect(self, reason: ReasonCode, *, will: bool = True) -> None:
        """Close from this side, telling a 5.0 client why; the will is published unless told otherwise."""
        if self._state == UP:
            self._flush_own()
            if self.version == V5:
                self.transport.write(encode(Disconnect(reason=reason), V5))
        if not will:
            self.will = None
        self.finish(reason.name.lower())

    def finish(self, why: str) -> None:
        """Over, for whatever reason; the session learns it."""
        if self._state == CLOSED:
            return
        up = self._state == UP
        if up:
            self._flush_own()
        self._state = CLOSED
        self._parts = None
        self._pending = None
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
            if self.transport.get_write_buffer_size():
                # Closing waits for the peer to read; not for ever.
                self.broker.wheel.at(self.hub.now() + LINGER, partial(_abort, self.transport))
        if up:
            self.hub.pressure.relieve(self.session)
            self.broker.released(self, self.session)
        self.broker.closed(self, why)
        self.close(("shutdown", "connection closed"))

    def _flush_own(self) -> None:
        out = self.session.out
        if out and self.session.channel is self and not self.transport.is_closing():
            self.write_out(out)

    @property
    def client_id(self) -> str:
        return self.session.client_id if self.session is not None else ""

    @property
    def unwritten(self) -> int:
        """Bytes that the socket has not taken."""
        return self.transport.get_write_buffer_size()

    @property
    def is_up(self) -> bool:
        return self._state == UP

    @property
    def is_closed(self) -> bool:
        return self._state == CLOSED

    # As a process.

    def handle_message(self, message: object) -> None:
        """A channel takes no messages but ``"kick"``."""
        if message == "kick":
            self.disconnect(ReasonCode.ADMINISTRATIVE_ACTION)

    def on_close(self, reason: object) -> None:
        """An exit signal ended the process: the connection goes with it, and nothing else does."""
        shutdown = reason == "shutdown"
        if self._state == UP:
            self.disconnect(ReasonCode.SERVER_SHUTTING_DOWN if shutdown else ReasonCode.UNSPECIFIED_ERROR)
        else:
            self.finish("shutdown" if shutdown else "killed")


def _abort(transport: asyncio.Transport, _now: float) -> None:
    transport.abort()
