"""The seam between tables and the links that carry their frames.

A link tells its sink which peers are up, under which creation and in which session, and hands it their
frames; the store sends frames by it. What is sent in a session arrives in it, once and in order, or both ends
are told that it is over. Nothing of a peer is handed over before it is up, or after it is down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

__all__ = ["ReplicationLink", "ReplicationSink"]


class ReplicationSink(Protocol):
    """Takes what a link has to say; every method returns at once and never raises."""

    def peer_up(self, name: str, creation: int, session: int) -> None:
        """``name`` can be reached."""

    def peer_down(self, name: str, *, left: bool, renewing: bool = False) -> None:
        """``name`` cannot be reached; ``left``: it left the cluster and its rows may go at once.

        ``renewing``: it is no less a member, and either comes up or is told down once more.
        """

    def frame(self, peer: str, payload: bytes, done: Callable[[], None]) -> None:
        """A frame of ``peer``; ``done`` is to be called once it has taken effect."""


class ReplicationLink(Protocol):
    """What carries frames."""

    def peers(self) -> Mapping[str, tuple[int, int]]:
        """Peers that are up, with their creations and sessions."""

    def renewing(self) -> set[str]:
        """Peers that were told down as ``renewing``, and nothing since."""

    def send(self, peer: str, session: int, frame: bytes) -> None:
        """Send, without ever blocking; what is for a session that is over is dropped."""

    def renew(self, peer: str) -> None:
        """End the session with ``peer``, at both ends, and begin another: something of it was lost here."""

    def attach(self, sink: ReplicationSink) -> None:
        """From now on tell ``sink`` instead of the one before; what that was not done with comes again."""
