"""Forwarding: what one remote node gets of the messages published here.

Records of one turn of the loop become one frame, or several of about ``frame_bytes``. A frame that carries
any acknowledged record (QoS 1 and 2) is reliable: the link keeps it until the peer has dispatched it, then
``on_safe`` of its records is called, in the order of their appending. A frame of QoS 0 records alone is not
kept.

What becomes of ``on_safe``: True, the peer dispatched the record. When the peer is declared down, its
subscribers are gone with it, so nothing more can be done for the record and it counts as safe, unless
``lost_is_safe`` is False. Every record that does not arrive is counted with its reason.

A forwarder with ``lost`` keeps its acknowledged records, and gives those that a peer that went down has not
acknowledged to ``lost(record, on_safe)`` instead, which finds another way. One with ``left`` keeps its frames
(the link has them anyway) and gives those instead, with their numbers and whoever waits for them: the peer
may have dispatched them, and can be asked once it is back. While ``away`` is set, acknowledged records go
there and nowhere else.

That is ``sync`` forwarding. ``async`` answers True once the record is on its way, at the end of the turn: the
link still keeps it until the peer has it, so only a peer or a node that fails loses it, counted but too late
to tell the publisher. It saves publishers a round trip between nodes.

A peer that falls behind by ``high_water`` unacknowledged bytes is ``congested`` until it is down to half of
that: QoS 0 records are dropped, acknowledged ones still go, and whoever publishes them is told to slow
down.

``dropped`` is told what was dropped, by its reason: see :data:`Dropped`.

Rules: 1. No clock; ``schedule`` runs a function at the end of the turn, ``send`` is the link.  2.
``append`` and ``append_acked`` never call back before they return.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

import structlog

from gossamer.errors import GossamerError, UnavailableError

log = structlog.get_logger(__name__)

OnSafe = Callable[[bool], None]
Left = Callable[[int, bytes, list[OnSafe]], int]
"""Told the number of a frame (0: it was never sent), its records, and who waits for it; how many messages it
does not keep."""
Dropped = Callable[[str, bytes, str, bool], object]
"""Told ``(peer, records, reason, kept)`` of records that do not arrive; ``kept``: but for those that ``left``
keeps."""


class Forwarder:
    """The batch that goes to one remote node. ``prefix`` opens every frame."""

    __slots__ = (
        "_callbacks",
        "_congestion",
        "_frame_bytes",
        "_high_water",
        "_kept",
        "_lost",
        "_lost_is_safe",
        "_ready",
        "_records",
        "_schedule",
        "_scheduled",
        "_send",
        "_size",
        "_sync",
        "_unacked",
        "away",
        "congested",
        "counts",
        "dropped",
        "left",
        "peer",
        "prefix",
        "unacked_bytes",
        "up",
    )

    def __init__(
        self,
        peer: str,
        *,
        send: Callable[[bytes, bool], int],
        schedule: Callable[[Callable[[], None]], object],
        congestion: Callable[[Forwarder, bool], None] | None = None,
        prefix: bytes = b"",
        frame_bytes: int = 256 * 1024,
        high_water: int = 8 * 1024 * 1024,
        lost_is_safe: bool = True,
        sync: bool = True,
        lost: Callable[[bytes, OnSafe], None] | None = None,
    ) -> None:
        self.peer = peer
        self.prefix = prefix
        self.congested = False
        self.up = True
        """Whether the link takes frames for this peer; what is flushed otherwise is dropped."""
        self.unacked_bytes = 0
        self.counts: Counter[str] = Counter()
        """``frames`` and ``bytes`` sent, ``acked`` frames, ``dropped_<reason>`` records."""
        self.away: Callable[[bytes, OnSafe], None] | None = None
        """Who takes acknowledged records instead of the peer."""
        self.left: Left | None = None
        self.dropped: Dropped | None = None
        self._send = send
        self._schedule = schedule
        self._congestion = congestion
        self._frame_bytes = frame_bytes
        self._high_water = high_water
        self._lost_is_safe = lost_is_safe
        self._sync = sync
        self._lost = lost
        self._kept: list[bytes] = []
        self._scheduled = False
        self._ready: list[tuple[list[bytes], list[OnSafe], list[bytes]]] = []
        self._records: list[bytes] = []
        self._size = 0
        self._callbacks: list[OnSafe] = []
        # Frames: number, size, who waits, how many acknowledged records, they or the frame itself if kept.
        self._unacked: deque[tuple[int, int, list[OnSafe], int, list[bytes]]] = deque()

    def append(self, record: bytes) -> None:
        """Forward a record, or several in a row, of QoS 0."""
        if self.congested:
            self.counts["dropped_congested"] += 1
            if self.dropped is not None:
                self.dropped(self.peer, record, "congested", False)
            return
        if not self._scheduled:
            self._scheduled = True
            self._schedule(self.flush)
        self._records.append(record)
        self._size += len(record)
        if self._size >= self._frame_bytes:
            self._cut()

    def append_acked(self, record: bytes, on_safe: OnSafe) -> None:
        """Forward a record and learn what became of it; always later, never within this call."""
        if self.away is not None:
            self.away(record, on_safe)
            return
        if not self._scheduled:
            self._scheduled = True
            self._schedule(self.flush)
        self._records.append(record)
        self._callbacks.append(on_safe)
        if self._lost is not None:
            self._kept.append(record)
        self._size += len(record)
        if self._size >= self._frame_bytes:
            self._cut()

    def flush(self) -> None:
        """Send what was appended in this turn."""
        self._scheduled = False
        if self._records:
            self._cut()
        ready, self._ready = self._ready, []
        for records, callbacks, kept in ready:
            if self.up:
                self._push(records, callbacks, kept)
            else:
                self._drop(records, callbacks, kept)

    def acked(self, number: int) -> None:
        """The peer has dispatched all frames up to this number."""
        unacked = self._unacked
        while unacked and unacked[0][0] <= number:
            _, size, callbacks, _, _ = unacked.popleft()
            self.unacked_bytes -= size
            self.counts["acked"] += 1
            self._resolve(callbacks, True)
        self._weigh()

    def down(self) -> None:
        """The peer is declared down: nothing sent to it so far will be acknowledged any more."""
        self.up = False
        while self._unacked:
            number, size, callbacks, records, kept = self._unacked.popleft()
            self.unacked_bytes -= size
            self._give_up(callbacks, records, kept, number)
        if self.left is not None:
            # In their order: what comes next goes elsewhere at once.
            self.flush()
        self._weigh()

    @property
    def pending(self) -> int:
        """Records that wait for the peer's acknowledgement, sent or not."""
        waiting = len(self._callbacks) + sum(len(callbacks) for _, callbacks, _ in self._ready)
        return waiting + sum(records for _, _, _, records, _ in self._unacked)

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way."""
        return not (self._scheduled or self._unacked)

    def _cut(self) -> None:
        self._ready.append((self._records, self._callbacks, self._kept))
        self._records = []
        self._callbacks = []
        self._kept = []
        self._size = 0

    def _drop(self, records: list[bytes], callbacks: list[OnSafe], kept: list[bytes]) -> None:
        self.counts["dropped_peer_down"] += len(records) - len(callbacks)
        if self._lost is not None:
            # Acknowledged ones find another way.
            others = set(map(id, kept))
            self._tell([record for record in records if id(record) not in others], "peer_down")
        elif callbacks:
            kept = [b"".join(records)]
        else:
            self._tell(records, "peer_down")
        self._give_up(callbacks, len(callbacks), kept)

    def _give_up(self, callbacks: list[OnSafe], records: int, kept: list[bytes], number: int = 0) -> None:
        """These will not be acknowledged any more."""
        if self._lost is None:
            self._tell(kept, "peer_down")
        if self.left is not None and kept:
            self.counts["dropped_peer_down"] += self.left(number, kept[0], callbacks)
            return
        if self._lost is None:
            self.counts["dropped_peer_down"] += records
            self._resolve(callbacks, self._lost_is_safe)
            return
        self.counts["redispatched"] += records
        for number, record in enumerate(kept):
            try:
                # Whose publishers have been answered already wait no more.
                self._lost(record, callbacks[number] if number < len(callbacks) else _nobody)
            except Exception:
                log.exception("redispatch_failed", peer=self.peer)

    def _push(self, records: list[bytes], callbacks: list[OnSafe], kept: list[bytes]) -> None:
        frame = b"".join([self.prefix, *records]) if self.prefix or len(records) > 1 else records[0]
        try:
            number = self._send(frame, bool(callbacks))
        except UnavailableError:
            # Not a peer any more: the same as if it had gone down a moment later.
            self._drop(records, callbacks, kept)
            return
        except GossamerError as error:
            self.counts["dropped_refused"] += len(records)
            self._tell(records, "refused")
            log.warning("forward_refused", peer=self.peer, bytes=len(frame), error=str(error))
            self._resolve(callbacks, False)
            return
        self.counts["frames"] += 1
        self.counts["bytes"] += len(frame)
        if callbacks:
            waiting = callbacks if self._sync else []
            if self._lost is None and (self.left is not None or self.dropped is not None):
                kept = [frame[len(self.prefix) :]]
            self._unacked.append((number, len(frame), waiting, len(callbacks), kept))
            self.unacked_bytes += len(frame)
            self._weigh()
            if not self._sync:
                self._resolve(callbacks, True)

    def _tell(self, records: list[bytes], reason: str) -> None:
        if self.dropped is None:
            return
        for each in records:
            try:
                self.dropped(self.peer, each, reason, self.left is not None)
            except Exception:
                log.exception("dropped_failed", peer=self.peer)

    def _weigh(self) -> None:
        limit = self._high_water // 2 if self.congested else self._high_water
        if self.congested is not (self.unacked_bytes >= limit):
            self.congested = not self.congested
            if self._congestion is not None:
                self._congestion(self, self.congested)

    def _resolve(self, callbacks: list[OnSafe], safe: bool) -> None:
        for on_safe in callbacks:
            try:
                on_safe(safe)
            except Exception:
                # The others still have to be told, and in order.
                log.exception("on_safe_failed", peer=self.peer)


def _nobody(_safe: bool) -> None:
    pass
