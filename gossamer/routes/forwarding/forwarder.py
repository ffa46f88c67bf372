"""Forwarder: batches of messages published here, for one remote node.

Records of one turn of the loop become one frame, or several of about ``frame_bytes``. A frame with any
acknowledged record (QoS 1 and 2) is reliable: the link keeps it until the peer has delivered it; then the
``on_safe`` of its records are called, in their order. Of two frames the later may be delivered first, since
each waits for other quorums (``mqtt.flow.ranges``). A frame of QoS 0 records alone is not kept.

``on_safe`` is called with True once the peer has delivered the record. When the peer is declared down, its
subscribers are gone with it, so nothing more can be done for the record and it counts as safe, unless
``lost_is_safe`` is False. Every record that does not arrive is counted with its reason.

A forwarder with ``lost`` keeps its acknowledged records, and passes those that a peer that went down has not
acknowledged to ``lost(record, on_safe)`` instead, which redispatches them. One with ``left`` passes whole
frames (the link has them anyway) instead, with their numbers and callbacks: the peer may have delivered them,
and can be asked once it is back. While ``away`` is set, acknowledged records go there instead of the peer.

That is ``sync`` forwarding. ``async`` calls ``on_safe(True)`` once the record is sent, at the end of the
turn: the link still keeps it until the peer has it, so it is lost only if a peer or a node fails; that is
counted, but too late for the publisher. It saves publishers a round trip between nodes.

A peer that falls behind by ``high_water`` unacknowledged bytes is ``congested`` until it is down to half of
that: QoS 0 records are dropped, acknowledged ones still go, and their publishers are slowed down.

Rules: 1. No clock; ``schedule`` runs a function at the end of the turn, ``send`` is the link.  2.
``append`` and ``append_acked`` never call back before they return.
"""

from __future__ import annotations

import asyncio
import dataclasses
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog
from msgspec import Struct, field

from gossamer.errors import GossamerError, UnavailableError

log = structlog.get_logger(__name__)

OnSafe = Callable[[bool], None]
Left = Callable[[int, bytes, list[OnSafe]], int]
"""Called with a frame's number (0: never sent), records and callbacks; returns how many messages it does not
keep."""
Dropped = Callable[[str, bytes, str, bool], object]
"""Called as ``(peer, records, reason, kept)`` with records that do not arrive; ``kept``: ``left`` keeps those
that persistent sessions wait for."""


class _Batch(Struct):
    """Records of one turn, then the frame that was made of them."""

    records: list[bytes] = field(default_factory=list)
    waiting: list[OnSafe] = field(default_factory=list)
    """Callbacks of the acknowledged ones."""
    kept: list[bytes] = field(default_factory=list)
    """The acknowledged ones, for ``lost``."""
    starts: list[int] = field(default_factory=list)
    """Where they begin in the frame."""
    done: bytearray = field(default_factory=bytearray)
    """Which of its bytes have taken effect, once some have and others not."""
    acked: int = 0
    """Number of acknowledged ones."""
    size: int = 0
    number: int = 0
    frame: bytes = b""


@dataclass(slots=True, eq=False, kw_only=True)
class Forwarder:
    """Batches for one remote node. ``prefix`` opens every frame."""

    peer: str = dataclasses.field(kw_only=False)
    send: Callable[[bytes, bool], int] | None = None
    """The link, once there is one."""
    schedule: Callable[[Callable[[], None]], object] | None = None
    congestion: Callable[[str, bool], object] | None = None
    prefix: bytes = b""
    frame_bytes: int = 256 * 1024
    high_water: int = 8 * 1024 * 1024
    lost_is_safe: bool = True
    sync: bool = True
    lost: Callable[[bytes, OnSafe], object] | None = None
    away: Callable[[bytes, OnSafe], None] | None = None
    """Called with acknowledged records instead of the peer."""
    left: Left | None = None
    dropped: Dropped | None = None
    up: bool = True
    """Whether the link takes frames for this peer; records flushed otherwise are dropped."""
    congested: bool = False
    unacked_bytes: int = 0
    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    """``frames`` and ``bytes`` sent, ``acked`` frames, ``dropped_<reason>`` records."""
    _batches: list[_Batch] = dataclasses.field(default_factory=list)
    _unacked: deque[_Batch] = dataclasses.field(default_factory=deque)

    def append(self, record: bytes) -> None:
        """Forward a record, or several in a row, of QoS 0."""
        if self.congested:
            self.counts["dropped_congested"] += 1
            self._report(record, "congested", kept=False)
            return
        batches = self._batches
        if not batches:
            batches.append(_Batch())
            (self.schedule or asyncio.get_running_loop().call_soon)(self.flush)
        batch = batches[-1]
        batch.records.append(record)
        batch.size += len(record)
        if batch.size >= self.frame_bytes:
            batches.append(_Batch())

    def append_acked(self, record: bytes, on_safe: OnSafe) -> None:
        """Forward a record; ``on_safe`` is called later, never within this call."""
        if self.away is not None:
            self.away(record, on_safe)
            return
        batches = self._batches
        if not batches:
            batches.append(_Batch())
            (self.schedule or asyncio.get_running_loop().call_soon)(self.flush)
        batch = batches[-1]
        batch.records.append(record)
        batch.waiting.append(on_safe)
        batch.starts.append(batch.size)
        batch.acked += 1
        if self.lost is not None:
            batch.kept.append(record)
        batch.size += len(record)
        if batch.size >= self.frame_bytes:
            batches.append(_Batch())

    def flush(self) -> None:
        """Send the records appended in this turn."""
        batches, self._batches = self._batches, []
        for batch in batches:
            records = batch.records
            if not records:
                # The one before it was just full.
                continue
            frame = b"".join([self.prefix, *records]) if self.prefix or len(records) > 1 else records[0]
            if not self.up or self.send is None:
                self._give_up(batch)
                continue
            try:
                batch.number = self.send(frame, batch.acked > 0)
            except UnavailableError:
                # Not a peer any more: the same as if it had gone down a moment later.
                self._give_up(batch)
                continue
            except GossamerError as error:
                self.counts["dropped_refused"] += len(records)
                self._report(b"".join(records), "refused")
                log.warning("forward_refused", peer=self.peer, bytes=len(frame), error=str(error))
                self._resolve(batch.waiting, False)
                continue
            self.counts["frames"] += 1
            self.counts["bytes"] += len(frame)
            if batch.acked:
                batch.records, batch.frame = [], frame
                self._unacked.append(batch)
                self.unacked_bytes += len(frame)
                if not self.congested and self.unacked_bytes >= self.high_water:
                    self._weigh()
                if not self.sync:
                    waiting, batch.waiting = batch.waiting, []
                    self._resolve(waiting, True)

    def acked(self, number: int) -> None:
        """Call back for all frames up to this number, which the peer has delivered."""
        unacked = self._unacked
        while unacked and unacked[0].number <= number:
            batch = unacked.popleft()
            self.unacked_bytes -= len(batch.frame)
            self.counts["acked"] += 1
            self._resolve(batch.waiting, True)
        if self.congested:
            self._weigh()

    def ahead(self, numbers: Iterable[int]) -> None:
        """Call back for frames that the peer has delivered, though not all before them. It has their effect,
        so they are not given up; the link has them until :meth:`acked`."""
        for number in numbers:
            batch = self._find(number)
            if batch is not None:
                waiting, batch.waiting, batch.acked = batch.waiting, [], 0
                self._resolve(waiting, True)

    def partly(self, number: int, start: int, stop: int) -> None:
        """Call back for the records in these bytes of a frame, of which the peer has the effect. Should it go
        down, the frame is given up with them: they may come twice."""
        batch = self._find(number)
        if batch is None or not batch.waiting:
            return
        starts, done = batch.starts, batch.done or bytearray(len(batch.frame))
        batch.done, stop = done, min(stop, len(done))
        done[start:stop] = b"\1" * (stop - start)
        for place in range(max(0, bisect_right(starts, start) - 1), bisect_left(starts, stop)):
            end = starts[place + 1] if place + 1 < len(starts) else len(done)
            on_safe = batch.waiting[place]
            if on_safe is not _ignore and done.find(0, starts[place], end) < 0:
                batch.waiting[place] = _ignore
                batch.acked -= 1
                self._resolve([on_safe], True)

    def _find(self, number: int) -> _Batch | None:
        unacked = self._unacked
        at = bisect_left(unacked, number, key=_number)
        return unacked[at] if at < len(unacked) and unacked[at].number == number else None

    def down(self) -> None:
        """Give up all that the peer, which is declared down, has not acknowledged."""
        self.up = False
        while self._unacked:
            batch = self._unacked.popleft()
            self.unacked_bytes -= len(batch.frame)
            if batch.acked:
                self._give_up(batch)
        if self.left is not None:
            # To keep the order: records appended next go to the keeper at once.
            self.flush()
        self._weigh()

    @property
    def pending(self) -> int:
        """Number of records that wait for the peer's acknowledgement, sent or not."""
        return sum(batch.acked for batch in (*self._unacked, *self._batches))

    @property
    def idle(self) -> bool:
        """Return whether nothing is queued or unacknowledged."""
        return not (self._batches or self._unacked)

    def _give_up(self, batch: _Batch) -> None:
        """Redispatch, keep or drop the records of a batch that will not be acknowledged any more."""
        others = batch.records
        if self.lost is not None:
            # Acknowledged ones are redispatched.
            found = set(map(id, batch.kept))
            others = [record for record in others if id(record) not in found]
        self.counts["dropped_peer_down"] += len(batch.records) - batch.acked if batch.records else 0
        lost = batch.frame[len(self.prefix) :] if batch.frame and self.lost is None else b"".join(others)
        if lost:
            self._report(lost, "peer_down")
        if self.lost is not None:
            self._redispatch(batch, self.lost)
        elif self.left is not None and batch.acked:
            self.counts["dropped_peer_down"] += self.left(batch.number, lost, batch.waiting)
        else:
            self.counts["dropped_peer_down"] += batch.acked
            self._resolve(batch.waiting, self.lost_is_safe)

    def _redispatch(self, batch: _Batch, lost: Callable[[bytes, OnSafe], object]) -> None:
        self.counts["redispatched"] += batch.acked
        for number, record in enumerate(batch.kept):
            try:
                # With async forwarding the callbacks have been called already.
                lost(record, batch.waiting[number] if number < len(batch.waiting) else _ignore)
            except Exception:
                log.exception("redispatch_failed", peer=self.peer)

    def _report(self, records: bytes, reason: str, *, kept: bool = True) -> None:
        if self.dropped is not None:
            try:
                self.dropped(self.peer, records, reason, kept and self.left is not None)
            except Exception:
                log.exception("dropped_failed", peer=self.peer)

    def _weigh(self) -> None:
        limit = self.high_water // 2 if self.congested else self.high_water
        if self.congested is not (self.unacked_bytes >= limit):
            self.congested = not self.congested
            if self.congestion is not None:
                self.congestion(self.peer, self.congested)

    def _resolve(self, waiting: list[OnSafe], safe: bool) -> None:
        for on_safe in waiting:
            try:
                on_safe(safe)
            except Exception:
                # The others still have to be called, and in order.
                log.exception("on_safe_failed", peer=self.peer)


def _number(batch: _Batch) -> int:
    return batch.number


def _ignore(_safe: bool) -> None:
    pass
