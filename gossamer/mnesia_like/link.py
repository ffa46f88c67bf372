"""The seam between tables and the links that carry their frames.

A link tells its sink which peers are up, under which creation, and hands it their frames; the store sends
frames by it. A link may lose, double and reorder frames: replication repairs that. It should be reliable most
of the time, since repair costs a round trip.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

__all__ = ["ReplicationLink", "ReplicationSink"]


class ReplicationSink(Protocol):
    """Takes what a link has to say; every method returns at once and never raises."""

    def peer_up(self, name: str, creation: int) -> None:
        """``name`` can be reached; said again when frames may have been lost though it stayed up."""

    def peer_down(self, name: str, *, left: bool, renewing: bool = False) -> None:
        """``name`` cannot be reached; ``left``: it left the cluster and its rows may go at once.

        ``renewing``: it is no less a member, and either comes up or is told down once more.
        """

    def frame(self, peer: str, payload: bytes) -> None:
        """A frame of ``peer``."""


class ReplicationLink(Protocol):
    """What carries frames."""

    def peers(self) -> Mapping[str, int]:
        """Peers that are up, with their creations."""

    def renewing(self) -> set[str]:
        """Peers that were told down as ``renewing``, and nothing since."""

    def send(self, peer: str, frame: bytes) -> None:
        """Send, without ever blocking; to a peer that is gone the frame is lost."""

    def attach(self, sink: ReplicationSink) -> None:
        """From now on tell ``sink``, and no longer the one before."""
