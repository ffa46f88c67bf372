"""The bytes of a connection: who stops it from reading, what is written, which acknowledgements wait.

Apart from the channel, which says what the bytes mean.

Rules: 1. No task, future or timer per message.  2. PUBACK and PUBREC go out in the order of the publishes
([MQTT-4.6.0-2], [MQTT-4.6.0-3]), each when its message is safe on every node that must deliver it.  3.
Nothing is read while what the client is owed, or what it does to others, piles up.  4. CONNACK is the first
that is written ([MQTT-3.2.0-1]), however long it waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from gossamer.mqtt.codec.errors import MqttProtocolError
from gossamer.mqtt.codec.packets import V4, V5
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.codec.summary import glance
from gossamer.mqtt.connection.shared import Shared
from gossamer.mqtt.flow.backpressure import OWING
from gossamer.mqtt.messages.ports import ForwarderLike
from gossamer.mqtt.publish.fanout import drop_qos0
from gossamer.mqtt.session.session import Session
from gossamer.supervisor import Port, Sent

NEW, WAITING, ASKED, UP, CLOSED = range(5)
"""Before CONNECT; while the client is being authenticated; while it is challenged; in service; over."""


class Pipe(Port, asyncio.Protocol):
    """One connection below MQTT; see the module."""

    __slots__ = (
        *("_pending", "_unacked", "early", "fanout", "limits", "peer", "reading_paused", "seen", "session"),
        *("consumers", "descriptor", "phase", "transport", "unwelcome", "version", "write_full"),
    )

    def __init__(self, shared: Shared) -> None:
        self.fanout = shared.fanout
        self.limits = shared.limits
        self.transport: asyncio.Transport = cast("Any", None)
        self.session: Session = cast("Any", None)
        self.descriptor: int | None = None
        """Where the fan-out may write at once; see ``publish.lone``."""
        self.phase = NEW
        self.version = V4
        self.peer = ""
        self.unwelcome = False
        """Its will is not safe yet; until then nothing is written, and what it sends is held."""
        self.consumers: Any = None
        """Its consumers of queues; see ``consuming``."""
        self.early: bytearray | None = bytearray()
        """What waits behind CONNACK; None once that is written."""
        self.seen = 0.0
        self.reading_paused = 0
        self.write_full = False
        self._pending: deque[list[Any]] | None = None
        self._unacked = 0

    @property
    def unwritten(self) -> int:
        """Bytes that the socket has not taken."""
        return self.transport.get_write_buffer_size()

    @property
    def is_up(self) -> bool:
        return self.phase == UP

    @property
    def is_closed(self) -> bool:
        return self.phase == CLOSED

    def pause_writing(self) -> None:
        self.write_full = True
        if self.phase == UP:
            self.session.pause()
            self.fanout.pressure.congest(self.session)

    def resume_writing(self) -> None:
        self.write_full = False
        if self.phase == UP:
            self.session.unpause()
            if self.consumers is not None:
                self.consumers.send()
            self.fanout.pressure.relieve(self.session)

    def eof_received(self) -> bool:
        return False

    # Acknowledgements, in order.

    def acknowledge(
        self,
        acks: bytes | bytearray,
        count: int,
        message_ids: Sequence[int] = (),
        peers: tuple[ForwarderLike, ...] = (),
        record: bytes = b"",
        *,
        safe: Callable[[], object] | None = None,
    ) -> None:
        """Send ``record`` to ``peers``, and once it is safe at all of them ``count`` acknowledgements to the
        client, behind those of earlier messages.

        ``message_ids`` are the identifiers of those messages that are recorded. ``safe`` is called as soon as
        it is, whether the client is there or not.
        """
        pending = self._pending
        if not (peers or pending):
            if len(self.session.incoming) >= self.limits.receive_maximum and acks[0] == 0x40:
                # QoS 2 alone is all that the client may have in flight.
                self.check_quota(count)
            self.session.push(bytes(acks))
            if message_ids:
                self._told(message_ids)
            return
        if pending is None:
            pending = self._pending = deque()
        cell = [acks, len(peers), count, message_ids]
        pending.append(cell)
        self._unacked += count
        if self._unacked + len(self.session.incoming) > self.limits.receive_maximum:
            self._owes_much()
        if peers:
            on_safe = partial(self._safe, cell, safe)
            for peer in peers:
                peer.append_acked(record, on_safe)

    def _safe(self, cell: list[Any], safe: Callable[[], object] | None, done: bool) -> None:
        cell[1] -= 1
        if safe is not None and not cell[1]:
            safe()
        if not done:
            self.fanout.dropped("peer_down", cell[2])
        pending = self._pending
        while pending and pending[0][1] <= 0:
            acks, _, count, message_ids = pending.popleft()
            self._unacked -= count
            if self.phase == UP:
                self.session.push(bytes(acks))
                if message_ids:
                    self._told(message_ids)
        if self.reading_paused & OWING and self._unacked <= self.limits.receive_maximum // 2:
            self.resume_reading(OWING)

    def _told(self, message_ids: Sequence[int]) -> None:
        """The client has its last word of these messages."""
        if self.fanout.recorder is not None:
            self.fanout.recorder.acknowledged(self.session, message_ids, "publisher")

    def _owes_much(self) -> None:
        if self.version == V5:
            self.check_quota(0)
        elif self._unacked > self.limits.receive_maximum:
            self.pause_reading(OWING)

    def check_quota(self, more: int) -> None:
        """Check that what the client has in flight, and ``more``, is within the receive maximum
        ([MQTT-3.3.4-7]): QoS 1 that is not acknowledged, and QoS 2 until it is complete."""
        most = self._unacked + len(self.session.incoming) + more
        if most <= self.limits.receive_maximum or self.version != V5:
            return
        # What waits for a PUBREC is in both counts.
        begun = sum(count for acks, _, count, _ in self._pending or () if acks[:1] == b"\x50")
        held = most - begun
        if held > self.limits.receive_maximum:
            raise MqttProtocolError(
                ReasonCode.RECEIVE_MAXIMUM_EXCEEDED,
                "MQTT-3.3.4-7",
                f"{held} unacknowledged, receive maximum {self.limits.receive_maximum}",
            )

    # Back-pressure.

    def pause_reading(self, why: int) -> None:
        if not self.reading_paused and self.phase != CLOSED:
            self.transport.pause_reading()
        self.reading_paused |= why

    def resume_reading(self, why: int) -> None:
        if not self.reading_paused & why:
            return
        self.reading_paused &= ~why
        if not self.reading_paused and self.phase != CLOSED:
            self.seen = self.fanout.now()
            self.transport.resume_reading()

    # Output.

    def write_out(self, out: list[bytes]) -> int:
        """Write what the turn brought; the number of bytes."""
        # One test for each session and turn: whether the session owes CONNACK is asked behind it.
        if self.early is not None and self._waits_for_connack(self.early, out):
            return 0
        transport = self.transport
        if transport.is_closing():
            if self.fanout.recorder is not None:
                self.fanout.recorder.failed[self.session] = "offline"
            out.clear()
            return 0
        if self.write_full and transport.get_write_buffer_size() > self.limits.max_write_buffer:
            kept = self._without_qos0(out)
            if transport.get_write_buffer_size() > 2 * self.limits.max_write_buffer:
                # It sends what must be answered and does not read the answers.
                self.fanout.dropped("slow_consumer_closed")
                transport.abort()
                return 0
            if not kept:
                return 0
            data = b"".join(kept)
        else:
            data = out[0] if len(out) == 1 else b"".join(out)
            out.clear()
        if self.tracer is not None:
            self.tracer("send", Sent("", glance(data)))
        transport.write(data)
        return len(data)

    def _waits_for_connack(self, early: bytearray, out: list[bytes]) -> bool:
        """Return whether nothing may be written yet; else CONNACK is the first of ``out`` now.

        The session keeps CONNACK back until the disc has what it promises, and with it all that comes through
        the session; the fan-out puts QoS 0 into ``out`` itself.
        """
        at = next((at for at, piece in enumerate(out) if piece[0] == 0x20), None)
        if at is None:
            too_much = len(early) + sum(map(len, out)) > self.limits.max_write_buffer
            early += b"".join(self._without_qos0(out) if too_much else out)
            out.clear()
            return True
        if self.unwelcome:
            return True
        connack = out.pop(at)
        out[:0] = (connack, bytes(early)) if early else (connack,)
        self.early = None
        return False

    def _without_qos0(self, out: list[bytes]) -> list[bytes]:
        """Empty ``out`` and return what of it must be sent; the rest is dropped, and counted."""
        kept, lost = drop_qos0(out)
        self.session.dropped("slow_consumer", lost)
        if lost and self.fanout.recorder is not None:
            self.fanout.recorder.failed[self.session] = "slow_consumer"
        out.clear()
        return kept
