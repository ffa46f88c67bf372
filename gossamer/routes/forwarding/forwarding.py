"""Forwarding: forwarders to all nodes, and the receiver of their frames; the router's side of the links.

One forwarder a node carries records for all its subscribers. Records for one share group go by a forwarder of
the node and the group, whose frames open with :data:`GROUP_MARK` and the group's name, so that the other side
delivers them to one member of that group alone. Both kinds are sent on one stream, in order.

Messages for persistent sessions of a node that is away go to the *keeper*, and once the node is back to it as
hints, in frames that open with :data:`KEPT_MARK` and are for those sessions alone.

The receiver of records may return a :class:`Held`: the frame is acknowledged to the peer when that calls
back, so that its publishers slow down while a session here is far behind.

Records are opaque here, but none may begin with :data:`GROUP_MARK` or :data:`KEPT_MARK`; no MQTT packet that
is forwarded does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

import structlog

from gossamer.distribution import Distribution, Frame, NodeDown, NodeUp
from gossamer.errors import GossamerError
from gossamer.routes.forwarding.forwarder import Dropped, Forwarder, OnSafe
from gossamer.routes.forwarding.nodes import Keeper, NodeSlot, NodeTable

log = structlog.get_logger(__name__)

DATA: Final = "data"
Fresh = Callable[[bytes, float], tuple[bytes, int]]
"""``fresh(records, seconds)``: the records, so many seconds closer to expiry, and how many have expired."""
GROUP_MARK = 0xFF
KEPT_MARK = 0xFE
_IDLE_LIMIT = 1024
_SESSIONS = 5
"""Link sessions with a node that are remembered."""


def _ignore(_peer: str, _congested: bool) -> None:
    pass


class Held(Protocol):
    """Records that were taken but have not taken full effect yet."""

    tell: Callable[[Sequence[tuple[int, int]]], object]
    """To be called with bytes that have before the others."""

    def then(self, callback: Callable[[], object], /) -> None:
        """Call ``callback`` when they have, in the order of these calls."""


@dataclass(eq=False, kw_only=True)
class Forwarding:
    """Forwarders to all peers, and the receiver of their frames.

    ``changed(bit)`` is called when the node of that bit goes up or down, ``forgotten(slot)`` when no filters
    are expected of a node any more.
    """

    schedule: Callable[[Callable[[], None]], object] | None
    changed: Callable[[int], None]
    forgotten: Callable[[NodeSlot], None]
    counts: Counter[str]
    high_water: int
    sync: bool
    nodes: NodeTable = field(init=False)
    links: Distribution | None = None
    keeper: Keeper | None = None
    arrived: dict[str, dict[int, int]] = field(default_factory=dict)
    """By node and link session, the number of its last frame: of the current session and the latest few."""
    _everybody: Callable[[str, bytes], Held | None] | None = None
    _group: Callable[[str, str, bytes], Held | None] | None = None
    _group_lost: Callable[[str, bytes, OnSafe], object] | None = None
    _kept: Callable[[str, bytes], Held | None] | None = None
    _congestion: Callable[[str, bool], object] = _ignore
    _dropped: Dropped | None = None
    _fresh: tuple[Fresh, Fresh] | None = None

    def __post_init__(self) -> None:
        self.nodes = NodeTable(self._make)

    def attach(self, links: Distribution) -> None:
        """Forward over ``links`` from now on; a second call with the same has no effect."""
        if self.links is links:
            return
        self.links = links
        for slot in self.nodes:
            for forwarder in slot.forwarders:
                forwarder.send = partial(links.send, slot.name, DATA)
        links.on_ack(DATA, self._acked)
        links.on_ahead(DATA, self._ahead)
        links.refresh_with(DATA, self._refreshed)
        links.subscribe(self._event)
        if self._everybody is not None:
            links.on_frame(DATA, self._receive)

    def on_forward(self, callback: Callable[[str, bytes], Held | None]) -> None:
        """Call ``callback(peer, records)`` with the records that other nodes forward, joined, in order.

        No frames are taken off the links before there is one.
        """
        first = self._everybody is None
        self._everybody = callback
        if first and self.links is not None:
            self.links.on_frame(DATA, self._receive)

    def on_group_forward(self, callback: Callable[[str, str, bytes], Held | None]) -> None:
        """Call ``callback(peer, group, records)`` with records for one share group."""
        self._group = callback

    def on_kept(self, callback: Callable[[str, bytes], Held | None]) -> None:
        """Call ``callback(peer, hints)`` with hints of ``peer`` for persistent sessions here."""
        self._kept = callback

    def refresh_with(self, fresh: Fresh, fresh_kept: Fresh) -> None:
        """Reduce the expiry in frames that a link could not send for a while: of records by ``fresh``, of
        hints (:meth:`to_kept`) by ``fresh_kept``."""
        self._fresh = fresh, fresh_kept

    def _refreshed(self, frame: bytes, seconds: float) -> bytes:
        if self._fresh is None:
            return frame
        (fresh, fresh_kept), start = self._fresh, 0
        if frame[:1] == bytes([KEPT_MARK]):
            fresh, start = fresh_kept, 1
        elif frame[:1] == bytes([GROUP_MARK]):
            start = 4 + int.from_bytes(frame[1:4])
        try:
            return frame[:start] + fresh(frame[start:], seconds)[0]
        except GossamerError as error:
            # It would be tried again with every new link, and block all frames behind it.
            log.error("not_refreshed", bytes=len(frame), error=str(error))
            return frame

    def keep_with(self, keeper: Keeper) -> None:
        """Give ``keeper`` messages for persistent sessions of nodes that are away; call it once, first."""
        self.keeper = keeper
        for slot in self.nodes:
            self._kept_for(slot, keeper)

    def to_kept(self, peer: str) -> Forwarder:
        """Return the forwarder of hints to a node; it calls ``on_safe(False)`` for a loss."""
        slot = self.nodes.slot(peer)
        if slot.kept is None:
            slot.kept = self._make(peer, bytes([KEPT_MARK]))
            slot.kept.up = slot.up
            slot.renew()
        return slot.kept

    def last_frames(self, peer: str) -> dict[int, int]:
        """Return the number of the last frame that ``peer`` sent, by link session, of the latest few."""
        return dict(self.arrived.get(peer, ()))

    def live(self, peer: str) -> NodeSlot:
        """Forward directly to a node again that was away and has all its hints."""
        slot = self.nodes.slot(peer)
        slot.away = False
        slot.forwarder.away = None
        self.nodes.renew()
        self.forgotten(slot)
        return slot

    def away(self, peer: str) -> NodeSlot:
        """Send messages for a node's persistent sessions to the keeper."""
        slot = self.nodes.slot(peer)
        if self.keeper is not None:
            slot.away = True
            slot.forwarder.away = partial(self.keeper.take, peer)
            self.nodes.renew()
        return slot

    def on_congestion(self, callback: Callable[[str, bool], object]) -> None:
        """Call ``callback(peer, congested)`` when a peer falls behind and when it has caught up."""
        self._congestion = callback

    def on_dropped(self, callback: Dropped) -> None:
        """Call ``callback`` with records that do not arrive at a node; see :data:`Dropped`."""
        self._dropped = callback
        for slot in self.nodes:
            for forwarder in slot.forwarders:
                if forwarder is not slot.kept:
                    forwarder.dropped = callback

    def to_group(self, peer: str, group: str) -> Forwarder:
        """Return the forwarder to the members of a group at a node."""
        slot = self.nodes.slot(peer)
        forwarder = slot.groups.get(group)
        if forwarder is None:
            if len(slot.groups) >= _IDLE_LIMIT:
                for name in [name for name, other in slot.groups.items() if other.idle]:
                    self.nodes.retired.update(slot.groups.pop(name).counts)
            encoded = group.encode()
            prefix = bytes([GROUP_MARK]) + len(encoded).to_bytes(3) + encoded
            lost = None if self._group_lost is None else partial(self._group_lost, group)
            forwarder = slot.groups[group] = self._make(peer, prefix, lost)
            forwarder.up = slot.up
            slot.renew()
        return forwarder

    def node_up(self, name: str) -> None:
        """Forward to ``name``."""
        slot = self.nodes.set_up(name, True)
        if slot is not None:
            if self.keeper is not None:
                self._kept_for(slot, self.keeper)
                if self.keeper.up(name):
                    self.live(name)
                else:
                    self.away(name)
            self.changed(slot.bit | slot.persistent_bit)

    def node_down(self, name: str, *, left: bool = False, creation: int = 0) -> None:
        """Stop forwarding to ``name``, which is declared down, and give up records in transit."""
        keeper = self.keeper
        slot = self.nodes.get(name)
        if keeper is not None and slot is not None:
            # Before records in transit are given up: some of them are kept.
            if left:
                slot.forwarder.left = None
            else:
                keeper.down(name, creation)
        slot = self.nodes.set_up(name, False)
        if keeper is not None and left:
            self.gone(name)
        elif slot is not None:
            slot = self.away(name)
        if slot is not None:
            self.changed(slot.bit | slot.persistent_bit)

    def gone(self, name: str) -> None:
        """Keep nothing for a node that is down and not a member any more."""
        if self.keeper is not None:
            self.keeper.gone(name)
        slot = self.nodes.get(name)
        if slot is not None:
            self.live(name)
            self.changed(slot.bit | slot.persistent_bit)
            self.nodes.release(slot)

    def _kept_for(self, slot: NodeSlot, keeper: Keeper) -> None:
        if slot.forwarder.left is None:
            slot.forwarder.left = partial(keeper.left, slot.name)

    def is_up(self, name: str) -> bool:
        """Return whether ``name`` is forwarded to."""
        slot = self.nodes.get(name)
        return slot is not None and slot.up

    def on_group_lost(self, callback: Callable[[str, bytes, OnSafe], object]) -> None:
        """Call ``callback(group, record, on_safe)`` with records of share groups that a node that went down
        has not acknowledged, to choose another member. Without it, they are dropped."""
        self._group_lost = callback

    def _make(
        self,
        name: str,
        prefix: bytes = b"",
        lost: Callable[[bytes, OnSafe], object] | None = None,
    ) -> Forwarder:
        kept = prefix[:1] == bytes([KEPT_MARK])
        return Forwarder(
            name,
            send=None if self.links is None else partial(self.links.send, name, DATA),
            schedule=self.schedule,
            congestion=self._congested,
            prefix=prefix,
            high_water=self.high_water,
            lost_is_safe=not kept,
            sync=self.sync or kept,
            lost=lost,
            # Hints that do not arrive stay in the hint log.
            dropped=None if kept else self._dropped,
            # Rows may come before the link is up.
            up=False,
        )

    def _congested(self, peer: str, congested: bool) -> None:
        log.info("forward_congestion", peer=peer, congested=congested)
        self._congestion(peer, congested)

    def _event(self, event: NodeUp | NodeDown) -> None:
        if isinstance(event, NodeUp):
            self.node_up(event.name)
        else:
            self.node_down(event.name, left=event.reason == "left", creation=event.creation)

    def _acked(self, peer: str, number: int) -> None:
        slot = self.nodes.get(peer)
        if slot is not None:
            for forwarder in slot.forwarders:
                forwarder.acked(number)

    def _ahead(self, peer: str, numbers: Sequence[int], parts: Sequence[tuple[int, int, int]]) -> None:
        slot = self.nodes.get(peer)
        if slot is not None:
            for forwarder in slot.forwarders:
                forwarder.ahead(numbers)
            for number, start, stop in parts:
                slot.forwarder.partly(number, start, stop)

    def _receive(self, frame: Frame) -> bool:
        payload = frame.payload
        self.counts["frames_in"] += 1
        self.counts["bytes_in"] += len(payload)
        if frame.number:
            sessions = self.arrived.setdefault(frame.peer, {})
            sessions[frame.session] = frame.number
            if len(sessions) > _SESSIONS:
                del sessions[next(iter(sessions))]
        hold: Held | None = None
        if payload and payload[0] == KEPT_MARK:
            if self._kept is not None:
                hold = self._kept(frame.peer, payload[1:])
        elif payload and payload[0] == GROUP_MARK:
            end = 4 + int.from_bytes(payload[1:4])
            if self._group is not None:
                hold = self._group(frame.peer, payload[4:end].decode(), payload[end:])
            else:
                self.counts["group_frames_dropped"] += 1
        elif self._everybody is not None:
            hold = self._everybody(frame.peer, payload)
        if hold is None or self.links is None:
            return True
        self.counts["frames_held"] += 1
        hold.tell = partial(self.links.partly, frame)
        hold.then(partial(self.links.done, frame))
        return False
