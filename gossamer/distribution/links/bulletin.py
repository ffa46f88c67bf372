"""Who hears of nodes that come and go, and of frames that took effect.

A subscriber is a process or a function. One that raises is logged and stays; the others are told.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from gossamer.distribution.events import NodeDown, NodeUp
from gossamer.distribution.wire import PURPOSES, Purpose
from gossamer.supervisor import Pid, Runtime

__all__ = ["Bulletin", "Event", "OnAck", "Subscriber"]

log = structlog.get_logger(__name__)

Event = NodeUp | NodeDown
Subscriber = Pid | Callable[[Event], None]
OnAck = Callable[[str, int], None]
"""Told ``(peer, number)``."""


class Bulletin:
    """The subscribers of one node."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._subscribers: dict[Subscriber, bool] = {}
        self._on_ack: dict[Purpose, list[OnAck]] = {purpose: [] for purpose in PURPOSES}

    def subscribe(self, subscriber: Subscriber, *, hidden: bool) -> None:
        """Tell ``subscriber`` of every event; of ``hidden`` nodes only on demand."""
        self._subscribers[subscriber] = hidden

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """No more events for ``subscriber``."""
        self._subscribers.pop(subscriber, None)

    def publish(self, event: Event, *, hidden: bool) -> None:
        """Something happened to a node, which is a ``hidden`` one or not."""
        for subscriber, wants_hidden in list(self._subscribers.items()):
            if wants_hidden or not hidden:
                self.tell(subscriber, event)

    def tell(self, subscriber: Subscriber, event: Event) -> None:
        """Tell one of them."""
        if isinstance(subscriber, Pid):
            if not self._runtime.send(subscriber, event):
                self._subscribers.pop(subscriber, None)
            return
        try:
            subscriber(event)
        except Exception:
            log.exception("subscriber_failed", event_type=type(event).__name__, peer=event.name)

    def on_ack(self, purpose: Purpose, callback: OnAck) -> None:
        """Call ``callback`` whenever a peer is done with frames of ``purpose``."""
        self._on_ack[purpose].append(callback)

    def acknowledged(self, peer: str, purpose: Purpose, number: int) -> None:
        """``peer`` is done up to ``number``."""
        for callback in self._on_ack[purpose]:
            try:
                callback(peer, number)
            except Exception:
                log.exception("ack_callback_failed", peer=peer, purpose=purpose, number=number)
