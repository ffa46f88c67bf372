"""Those above the links of a node: who takes frames, who hears of nodes, and of frames that took effect.

Rules: 1. One receiver a purpose; while there is none, frames wait at their senders.  2. A receiver that
raises is reported and counted, and its frame is done: one that cannot be handled must not come again for
ever.  3. Who takes over from a receiver gets again what was received and not done.
4. A subscriber that raises is logged and stays; the others are told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from gossamer.distribution.events import Frame, NodeDown, NodeUp
from gossamer.distribution.links.stream import Refresh
from gossamer.distribution.wire import Purpose
from gossamer.supervisor import Pid, Runtime

if TYPE_CHECKING:
    from gossamer.distribution.links.traffic import Peer

log = structlog.get_logger(__name__)

_BATCH = 256 * 1024

Event = NodeUp | NodeDown
Subscriber = Pid | Callable[[Event], None]
OnAck = Callable[[str, int], None]
"""Told ``(peer, number)``."""
Receiver = Callable[[Frame], object]
"""Takes a frame, in the turn in which it arrives: True where it has taken effect at once, or else
``Distribution.done`` is called when it has."""


class LinkUsers:
    """The users of one node's links; ``peers`` are the current sessions."""

    def __init__(self, runtime: Runtime, *, max_frame: int) -> None:
        self.runtime = runtime
        self.max_frame = max_frame
        # A message holds frames of about a batch's size, or one longer frame.
        self.batch_size = min(_BATCH, max_frame)
        self.peers: dict[str, Peer] = {}
        self.refreshers: dict[Purpose, Refresh] = {}
        self.receivers: dict[Purpose, Receiver] = {}
        self.on_acks: dict[Purpose, OnAck] = {}
        self._subscribers: dict[Subscriber, bool] = {}

    # Nodes.

    def nodes(self, *, hidden: bool = False) -> list[str]:
        """The peers that are up; those that are ``hidden`` on demand."""
        return [peer.name for peer in self.peers.values() if peer.up and (hidden or not peer.hidden)]

    def subscribe(self, subscriber: Subscriber, *, hidden: bool = False) -> None:
        """Tell ``subscriber`` of every NodeUp and NodeDown; of the peers that are up already, at once."""
        self._subscribers[subscriber] = hidden
        for peer in list(self.peers.values()):
            if peer.up and (hidden or not peer.hidden):
                self._tell(subscriber, NodeUp(peer.name, peer.creation))

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """No more events for ``subscriber``."""
        self._subscribers.pop(subscriber, None)

    def publish(self, event: Event, *, hidden: bool) -> None:
        """Something happened to a node, which is a ``hidden`` one or not."""
        for subscriber, wants_hidden in list(self._subscribers.items()):
            if wants_hidden or not hidden:
                self._tell(subscriber, event)

    def _tell(self, subscriber: Subscriber, event: Event) -> None:
        if isinstance(subscriber, Pid):
            if not self.runtime.send(subscriber, event):
                self._subscribers.pop(subscriber, None)
            return
        try:
            subscriber(event)
        except Exception:
            log.exception("subscriber_failed", event_type=type(event).__name__, peer=event.name)

    # Frames that left.

    def on_ack(self, purpose: Purpose, callback: OnAck) -> None:
        """Call ``callback(peer, number)`` whenever ``acked`` moves."""
        self.on_acks[purpose] = callback

    def refresh_with(self, purpose: Purpose, refresh: Refresh) -> None:
        """Frames of ``purpose`` that could not leave for seconds go out as ``refresh`` makes them."""
        self.refreshers[purpose] = refresh

    # Frames that came.

    def on_frame(self, purpose: Purpose, receiver: Receiver) -> None:
        """Hand over the frames of ``purpose`` to ``receiver``.

        Frames wait at their senders while nobody takes them. What a receiver had not done comes again, over a
        new connection, for the one that replaces it.
        """
        replaces = purpose in self.receivers
        self.receivers[purpose] = receiver
        for peer in list(self.peers.values()):
            inbound = peer.inbound.get(purpose)
            if replaces and peer.receives[purpose].rewind() and inbound is not None:
                inbound.abort()
            elif inbound is not None:
                inbound.received()

    def done(self, frame: Frame) -> None:
        """``frame`` has taken effect; its sender will be told, cumulatively."""
        peer = self.peers.get(frame.peer)
        # Frames of a session that is over are nobody's.
        if frame.number and peer is not None and peer.session == frame.session:
            due, inbound = peer.receives[frame.purpose].finish(frame.number), peer.inbound.get(frame.purpose)
            if due and inbound is not None:
                inbound.received()
