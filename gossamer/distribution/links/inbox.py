"""The receiving side: who takes which frames, and what happens to a frame that nobody can take.

Rules: 1. One receiver a purpose; while there is none, frames wait at their senders.  2. A receiver that
raises is reported and counted, and its frame is done: one that cannot be handled must not come again for
ever.  3. A process that ends stops taking; whoever takes over gets again what was received and not done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import structlog

from gossamer.distribution.events import Frame
from gossamer.distribution.wire import Purpose
from gossamer.errors import UsageError
from gossamer.supervisor import Pid, Runtime

if TYPE_CHECKING:
    from gossamer.distribution.links.traffic import Peer

__all__ = ["Inbox", "Receiver"]

log = structlog.get_logger(__name__)

Receiver = Pid | Callable[[Frame], None]
"""Who takes frames: a process, as messages, or a function, in the turn in which they arrive."""


class Inbox:
    """Hands frames over; ``peers`` are the current sessions."""

    def __init__(self, runtime: Runtime, peers: Mapping[str, Peer]) -> None:
        self._runtime = runtime
        self._peers = peers
        self._receivers: dict[Purpose, Receiver] = {}

    def on_frame(self, purpose: Purpose, receiver: Receiver) -> None:
        """Hand over the frames of ``purpose`` to ``receiver``.

        Frames wait at their senders while nobody takes them. A process that ends stops taking; whoever takes
        over gets again what was not done.
        """
        if self._receivers.pop(purpose, None) is not None:
            self._rewind(purpose)
        if isinstance(receiver, Pid):
            entry = self._runtime.table.get(receiver)
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
            peer = self._peers.get(frame.peer)
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
                if self._runtime.send(receiver, frame):
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
        for peer in list(self._peers.values()):
            inbound = peer.inbound.get(purpose)
            if inbound is not None:
                inbound.release()

    def _released(self, purpose: Purpose, receiver: Pid) -> None:
        if self._receivers.get(purpose) == receiver:
            del self._receivers[purpose]
            self._rewind(purpose)

    def _rewind(self, purpose: Purpose) -> None:
        """What the receiver had not done must come again, over a new connection."""
        for peer in self._peers.values():
            stream = peer.receives[purpose]
            if stream.received > stream.done:
                stream.rewind()
                inbound = peer.inbound.get(purpose)
                if inbound is not None:
                    inbound.abort()
