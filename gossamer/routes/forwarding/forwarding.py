"""Forwarding to all nodes, and taking in what they forward: the router's side of the links.

One forwarder a node carries what is for everybody there who wants the topic. Records for one share group go
by a forwarder of the node and the group, whose frames open with :data:`GROUP_MARK` and the group's name, so
that the other side delivers them to one member of that group alone. Both kinds travel on one stream, in
order.

A node that is away has a *keeper*: what its persistent sessions want goes there, and comes to the node, once
it is back, in frames of its own, which open with :data:`KEPT_MARK` and are for those sessions alone.

Whoever takes records may return something with ``then``: their effect is not complete yet, and the peer hears
of it when that calls back, so that its publishers slow down while somebody here is far behind.

Records are their users' own and opaque, but none may begin with :data:`GROUP_MARK` or :data:`KEPT_MARK`; no
MQTT packet that is forwarded does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
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
"""``fresh(records, seconds)``: the records with so much less time left, and how many have expired."""
GROUP_MARK = 0xFF
KEPT_MARK = 0xFE
_IDLE_LIMIT = 1024
_SESSIONS = 5
"""Sessions with a node that are remembered."""


def _nobody(_peer: str, _congested: bool) -> None:
    pass


class Held(Protocol):
    """Records that were taken but whose effect is not complete yet."""

    def then(self, callback: Callable[[], object], /) -> None:
        """Call ``callback`` when it is, in the order of these calls."""


@dataclass(eq=False, kw_only=True)
class Forwarding:
    """Forwarders to all peers, and the receiver of what they forward.

    ``changed(bit)`` is called when the node of that bit goes up or down, ``forgotten(slot)`` when nothing is
    expected of a node any more.
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
    """The number of the last frame of each node, by session: the current one and the latest few."""
    _everybody: Callable[[str, bytes], Held | None] | None = None
    _group: Callable[[str, str, bytes], Held | None] | None = None
    _group_lost: Callable[[str, bytes, OnSafe], object] | None = None
    _kept: Callable[[str, bytes], Held | None] | None = None
    _congestion: Callable[[str, bool], object] = _nobody
    _dropped: Dropped | None = None
    _fresh: tuple[Fresh, Fresh] | None = None

    def __post_init__(self) -> None:
        self.nodes = NodeTable(self._make)

    def attach(self, links: Distribution) -> None:
        """Forward over ``links`` from now on; once for each."""
        if self.links is links:
            return
        self.links = links
        for slot in self.nodes:
            for forwarder in slot.forwarders:
                forwarder.send = partial(links.send, slot.name, DATA)
        links.on_ack(DATA, self._acked)
        links.refresh_with(DATA, self._refreshed)
        links.subscribe(self._event)
        if self._everybody is not None:
            links.on_frame(DATA, self._receive)

    def on_forward(self, callback: Callable[[str, bytes], Held | None]) -> None:
        """Call ``callback(peer, records)`` with what other nodes forward: their records, joined, in order.

        Nothing is taken off the links before there is one. What it returns, unless None, has ``then``.
        """
        first = self._everybody is None
        self._everybody = callback
        if first and self.links is not None:
            self.links.on_frame(DATA, self._receive)

    def on_group_forward(self, callback: Callable[[str, str, bytes], Held | None]) -> None:
        """Call ``callback(peer, group, records)`` with records for one share group."""
        self._group = callback

    def on_kept(self, callback: Callable[[str, bytes], Held | None]) -> None:
        """Call ``callback(peer, records)`` with what ``peer`` has kept for persistent sessions here."""
        self._kept = callback

    def refresh_with(self, fresh: Fresh, fresh_kept: Fresh) -> None:
        """Records that a link could not carry for so many seconds go on as ``fresh`` makes them, what goes to
        :meth:`to_kept` as ``fresh_kept`` does."""
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
            # It would be tried again with every link that is opened, and nothing behind it would ever pass.
            log.error("not_refreshed", bytes=len(frame), error=str(error))
            return frame

    def keep_with(self, keeper: Keeper) -> None:
        """Give ``keeper`` what persistent sessions of nodes that are away want; once, before any is known."""
        self.keeper = keeper
        for slot in self.nodes:
            self._kept_for(slot, keeper)

    def to_kept(self, peer: str) -> Forwarder:
        """Return the forwarder to a node's persistent sessions alone, for what was kept; a loss is answered
        False."""
        slot = self.nodes.slot(peer)
        if slot.kept is None:
            slot.kept = self._make(peer, bytes([KEPT_MARK]))
            slot.kept.up = slot.up
            slot.renew()
        return slot.kept

    def last_frames(self, peer: str) -> dict[int, int]:
        """By session the number of the last frame that ``peer`` sent, this and the latest few."""
        return dict(self.arrived.get(peer, ()))

    def live(self, peer: str) -> NodeSlot:
        """A node that was away has all that was kept for it: it gets what comes itself again."""
        slot = self.nodes.slot(peer)
        slot.away = False
        slot.forwarder.away = None
        self.nodes.renew()
        self.forgotten(slot)
        return slot

    def away(self, peer: str) -> NodeSlot:
        """Send what comes for a node's persistent sessions to the keeper."""
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
        """Call ``callback(peer, records, reason, kept)`` with what does not arrive at a node."""
        self._dropped = callback
        for slot in self.nodes:
            for forwarder in slot.forwarders:
                if forwarder is not slot.kept:
                    forwarder.dropped = callback

    def to_group(self, peer: str, group: str) -> Forwarder:
        """The forwarder to the members of a group at a node."""
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
        """``name`` is declared down: forward nothing to it, and answer for what was."""
        keeper = self.keeper
        slot = self.nodes.get(name)
        if keeper is not None and slot is not None:
            # Before what was on its way is answered for: part of it is to be kept.
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
        """A node that is down is a member no more: nothing is kept for it."""
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
        """Call ``callback(group, record, on_safe)`` with what a node that went down has not acknowledged of a
        share group's: it is to choose another member, and to answer. Without it, such records are dropped."""
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
            # What is kept for a node stays kept.
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
        hold.then(partial(self.links.done, frame))
        return False
