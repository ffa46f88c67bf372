"""One session with one peer: its streams, and the channels that are open for them now.

Plain state, shared by the processes of the distribution as they come and go: a link process that crashes
loses its connections, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.distribution.events import Counts, StreamCounts
from gossamer.distribution.links.stream import ReceiveStream, SendStream
from gossamer.distribution.wire import PURPOSES, Purpose
from gossamer.network import Address

if TYPE_CHECKING:
    from gossamer.distribution.links.traffic import Receiving, Sending

__all__ = ["Peer"]


class Peer:
    """What this node knows of ``name`` in the session ``session``."""

    __slots__ = (
        "address",
        "counts",
        "creation",
        "given_up",
        "hidden",
        "inbound",
        "name",
        "outbound",
        "purposes",
        "receives",
        "renewing",
        "sends",
        "session",
        "theirs",
        "up",
    )

    def __init__(
        self,
        name: str,
        creation: int,
        address: Address,
        *,
        session: int,
        retain: int,
        queue: int,
        counts: Counts | None = None,
        purposes: tuple[Purpose, ...] = PURPOSES,
        hidden: bool = False,
    ) -> None:
        self.name = name
        self.creation = creation
        self.address = address
        self.session = session
        self.theirs = 0
        self.purposes = purposes
        """The streams of this link; with a hidden node control alone."""
        self.hidden = hidden
        """It is no member: nobody counts it, and its going is seen by its connections alone."""
        self.up = False
        """Both directions have been open in this session."""
        self.renewing = False
        """Not up yet in this session, though it was in the one before: somebody waits for it."""
        self.given_up = False
        """The session ends with this turn."""
        self.sends: dict[Purpose, SendStream] = {
            purpose: SendStream(retain=retain, queue=queue) for purpose in PURPOSES
        }
        self.receives: dict[Purpose, ReceiveStream] = {purpose: ReceiveStream() for purpose in PURPOSES}
        self.outbound: dict[Purpose, Sending] = {}
        self.inbound: dict[Purpose, Receiving] = {}
        self.counts = counts or Counts(streams={purpose: StreamCounts() for purpose in PURPOSES})

    @property
    def connected(self) -> bool:
        """Every stream is open both ways."""
        return len(self.outbound) == len(self.inbound) == len(self.purposes)
