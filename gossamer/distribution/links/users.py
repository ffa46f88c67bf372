"""Those above the links of a node: who takes frames, who hears of nodes, and of frames that took effect.

Rules: 1. One receiver a purpose; while there is none, frames wait at their senders.  2. A receiver that
raises is reported and counted, and its frame is done: one that cannot be handled must not come again for
ever.  3. A process that ends stops taking; whoever takes over gets again what was received and not done.
4. A subscriber that raises is logged and stays; the others are told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from gossamer.distribution.events import Frame, NodeDown, NodeUp
from gossamer.distribution.links.stream import Refresh
from gossamer.distribution.wire import PURPOSES, Purpose
from gossamer.errors import UsageError
from gossamer.supervisor import Pid, Runtime

if TYPE_CHECKING:
    from gossamer.distribution.links.traffic import Peer

log = structlog.get_logger(__name__)

_BATCH = 256 * 1024

Event = NodeUp | NodeDown
Subscriber = Pid | Callable[[Event], None]
OnAck = Callable[[str, int], None]
"""Told ``(peer, number)``."""
Receiver = Pid | Callable[[Frame], None]
"""Who takes frames: a process, as messages, or a function, in the turn in which they arrive."""


class LinkUsers:
    """The users of one node's links; ``peers`` are the current sessions."""

    def __init__(self, runtime: Runtime, *, max_frame: int) -> None:
        self.runtime = runtime
        self.max_frame = max_frame
        # A message holds frames of about a batch's size, or one longer frame.
        self.batch_size = min(_BATCH, max_frame)
        self.peers: dict[str, Peer] = {}
        self.refreshers: dict[Purpose, Refresh] = {}
        self._receivers: dict[Purpose, Receiver] = {}
        self._subscribers: dict[Subscriber, bool] = {}
        self._on_ack: dict[Purpose, list[OnAck]] = {purpose: [] for purpose in PURPOSES}

    def now(self) -> float:
        """The loop's own time."""
        return asyncio.get_running_loop().time()

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
        self._on_ack[purpose].append(callback)

    def acknowledged(self, peer: str, purpose: Purpose, number: int) -> None:
        """``peer`` is done up to ``number``."""
        for callback in self._on_ack[purpose]:
            try:
                callback(peer, number)
            except Exception:
                log.exception("ack_callback_failed", peer=peer, purpose=purpose, number=number)

    def refresh_with(self, purpose: Purpose, refresh: Refresh) -> None:
        """Frames of ``purpose`` that could not leave for seconds go out as ``refresh`` makes them."""
        self.refreshers[purpose] = refresh

    # Frames that came.

    def on_frame(self, purpose: Purpose, receiver: Receiver) -> None:
        """Hand over the frames of ``purpose`` to ``receiver``.

        Frames wait at their senders while nobody takes them. A process that ends stops taking; whoever takes
        over gets again what was not done.
        """
        if self._receivers.pop(purpose, None) is not None:
            self._rewind(purpose)
        if isinstance(receiver, Pid):
            entry = self.runtime.table.get(receiver)
            if entry is None:
                raise UsageError(
                    f"on_frame({purpose!r}) got {receiver}; expected a process of this node that is alive"
                )
            entry.on_release(lambda _: self._released(purpose, receiver))
        self._receivers[purpose] = receiver
        self._release(purpose)

    def done(self, frame: Frame) -> None:
        """``frame`` has taken effect; its sender will be told, cumulatively."""
        if frame.number:
            peer = self.peers.get(frame.peer)
            # Frames of a session that is over are nobody's.
            if peer is not None and peer.session == frame.session:
                self._finish(peer, frame.purpose, frame.number)

    def takes(self, peer: Peer, purpose: Purpose) -> bool:
        """May frames of ``purpose`` be handed over now?"""
        return peer.up and purpose in self._receivers

    def take(self, peer: Peer, purpose: Purpose, number: int, payload: bytes) -> None:
        """Hand over a frame."""
        counts = peer.counts.streams[purpose]
        counts.frames_in += 1
        counts.bytes_in += len(payload)
        frame = Frame(peer.name, purpose, number, payload, peer.session)
        receiver = self._receivers.get(purpose)
        try:
            if isinstance(receiver, Pid):
                if self.runtime.send(receiver, frame):
                    return
                problem = "mailbox full"
            elif receiver is not None:
                receiver(frame)
                return
            else:
                problem = "nobody takes it"
            log.error("frame_not_taken", peer=peer.name, purpose=purpose, number=number, problem=problem)
        except Exception:
            log.exception("receiver_failed", peer=peer.name, purpose=purpose, number=number)
        counts.failed += 1
        self.done(frame)

    def _finish(self, peer: Peer, purpose: Purpose, number: int) -> None:
        if peer.receives[purpose].finish(number):
            inbound = peer.inbound.get(purpose)
            if inbound is not None:
                inbound.ack_due()

    def _release(self, purpose: Purpose) -> None:
        for peer in list(self.peers.values()):
            inbound = peer.inbound.get(purpose)
            if inbound is not None:
                inbound.release()

    def _released(self, purpose: Purpose, receiver: Pid) -> None:
        if self._receivers.get(purpose) == receiver:
            del self._receivers[purpose]
            self._rewind(purpose)

    def _rewind(self, purpose: Purpose) -> None:
        """What the receiver had not done must come again, over a new connection."""
        for peer in self.peers.values():
            stream = peer.receives[purpose]
            if stream.received > stream.done:
                stream.rewind()
                inbound = peer.inbound.get(purpose)
                if inbound is not None:
                    inbound.abort()
