"""Forwarding to all nodes, and taking in what they forward: the router's side of the links.

One forwarder a node carries what is for everybody there who wants the topic. Records for one share group go
by a forwarder of the node and the group, whose frames open with :data:`GROUP_MARK` and the group's name, so
that the other side delivers them to one member of that group and to nobody else. Both kinds travel on one
stream, in order.

Whoever takes records may return something with ``then``: their effect is not complete yet, and the peer hears
of it when that calls back, so that its publishers slow down while somebody here is far behind.

Records are their users' own and opaque, but none may begin with :data:`GROUP_MARK`; no MQTT packet that is
forwarded does.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog

from gossamer.distribution import Gap, NodeDown, NodeUp, PeerGoneError
from gossamer.routes.forwarder import Forwarder
from gossamer.routes.nodes import NodeSlot, NodeTable
from gossamer.routes.ports import DataLinks, Held

__all__ = ["GROUP_MARK", "Forwarding"]

log = structlog.get_logger(__name__)

DATA = "data"
GROUP_MARK = 0xFF
_IDLE_LIMIT = 1024


class Forwarding:
    """See the module. ``changed(bit)`` is called when the node of that bit comes up or goes down."""

    def __init__(
        self,
        *,
        schedule: Callable[[Callable[[], None]], object] | None,
        changed: Callable[[int], None],
        counts: Counter[str],
        frame_bytes: int,
        high_water: int,
        lost_is_safe: bool,
        sync: bool,
    ) -> None:
        self.nodes = NodeTable(self._make)
        self.links: DataLinks | None = None
        self._schedule = schedule or _end_of_turn
        self._changed = changed
        self._counts = counts
        self._frame_bytes = frame_bytes
        self._high_water = high_water
        self._lost_is_safe = lost_is_safe
        self._sync = sync
        self._everybody: Callable[[str, bytes], Any] | None = None
        self._group: Callable[[str, str, bytes], Any] | None = None
        self._group_lost: Callable[[str, bytes, Callable[[bool], None]], Any] | None = None
        self._congestion: list[Callable[[str, bool], Any]] = []

    def attach(self, links: DataLinks) -> None:
        """Forward over ``links`` from now on; once for each."""
        if self.links is links:
            return
        self.links = links
        links.on_ack(DATA, self._acked)
        links.on_gap(DATA, self._gap)
        links.subscribe(self._event)
        if self._everybody is not None:
            links.on_frame(DATA, self._receive)

    def on_forward(self, callback: Callable[[str, bytes], Any]) -> None:
        """Who takes records for everybody here; nothing is taken off the links before there is one."""
        first = self._everybody is None
        self._everybody = callback
        if first and self.links is not None:
            self.links.on_frame(DATA, self._receive)

    def on_group_forward(self, callback: Callable[[str, str, bytes], Any]) -> None:
        """Who takes records for one group."""
        self._group = callback

    def on_congestion(self, callback: Callable[[str, bool], Any]) -> None:
        """Who is told when a peer falls behind and when it has caught up."""
        self._congestion.append(callback)

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
            forwarder = self._make(peer, prefix, lost)
            forwarder.up = slot.up
            slot.groups[group] = forwarder
        return forwarder

    def node_up(self, name: str) -> None:
        """Forward to ``name``."""
        slot = self.nodes.set_up(name, True)
        if slot is not None:
            self._changed(slot.bit)

    def node_down(self, name: str) -> None:
        """``name`` is declared down: forward nothing to it, and answer for what was."""
        slot = self.nodes.set_up(name, False)
        if slot is not None:
            self._changed(slot.bit)

    def is_up(self, name: str) -> bool:
        """Whether ``name`` is forwarded to."""
        slot = self.nodes.get(name)
        return slot is not None and slot.up

    def on_group_lost(self, callback: Callable[[str, bytes, Callable[[bool], None]], Any]) -> None:
        """Who finds another member for what was on its way to a group of a node that went down."""
        self._group_lost = callback

    def _make(
        self,
        name: str,
        prefix: bytes = b"",
        lost: Callable[[bytes, Callable[[bool], None]], None] | None = None,
    ) -> Forwarder:
        def send(frame: bytes, reliable: bool) -> int:
            if self.links is None:
                raise PeerGoneError(name)
            return self.links.send(name, DATA, frame, reliable)

        forwarder = Forwarder(
            name,
            send=send,
            schedule=self._schedule,
            congestion=self._congested,
            prefix=prefix,
            frame_bytes=self._frame_bytes,
            high_water=self._high_water,
            lost_is_safe=self._lost_is_safe,
            sync=self._sync,
            lost=lost,
        )
        # Rows may come before the link is up.
        forwarder.up = False
        return forwarder

    def _congested(self, forwarder: Forwarder, congested: bool) -> None:
        log.info("forward_congestion", peer=forwarder.peer, congested=congested)
        for callback in self._congestion:
            callback(forwarder.peer, congested)

    def _event(self, event: NodeUp | NodeDown) -> None:
        if isinstance(event, NodeUp):
            self.node_up(event.name)
        else:
            self.node_down(event.name)

    def _acked(self, peer: str, number: int) -> None:
        slot = self.nodes.get(peer)
        if slot is not None:
            for forwarder in slot.forwarders():
                forwarder.acked(number)

    def _gap(self, gap: Gap) -> None:
        if gap.side == "receive":
            self._counts["gaps_in"] += 1
            return
        slot: NodeSlot | None = self.nodes.get(gap.peer)
        if slot is not None:
            for forwarder in slot.forwarders():
                forwarder.lost(gap.last)

    def _receive(self, frame: Any) -> None:
        payload: bytes = frame.payload
        self._counts["frames_in"] += 1
        self._counts["bytes_in"] += len(payload)
        hold: Held | None = None
        if payload and payload[0] == GROUP_MARK:
            end = 4 + int.from_bytes(payload[1:4])
            if self._group is not None:
                hold = self._group(frame.peer, payload[4:end].decode(), payload[end:])
            else:
                self._counts["group_frames_dropped"] += 1
        elif self._everybody is not None:
            hold = self._everybody(frame.peer, payload)
        if self.links is None:
            return
        if hold is None:
            self.links.done(frame)
        else:
            self._counts["frames_held"] += 1
            hold.then(partial(self.links.done, frame))


def _end_of_turn(function: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(function)
