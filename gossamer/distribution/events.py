"""Values that links pass to the layers above them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from gossamer.distribution.wire import PURPOSES, Purpose
from gossamer.histogram import Histogram
from gossamer.supervisor import Pid


class Frame(Struct, frozen=True, gc=False):
    """Frame from a peer; pass it to ``Distribution.done`` when it has taken effect.

    ``number`` is 0 for an unreliable frame. ``session`` ties the acknowledgement to the session it came in.
    """

    peer: str
    purpose: Purpose
    number: int
    payload: bytes
    session: int = 0


class NodeUp(Struct, frozen=True):
    """Frames flow both ways. No frame of that session was delivered before."""

    name: str
    creation: int


class NodeDown(Struct, frozen=True):
    """The session is over; no frame of it is delivered after this. Unacked frames are lost.

    ``renewing``: the peer is still a member and another session begins, so NodeUp follows, or a second
    NodeDown if the peer goes down before that.
    """

    name: str
    creation: int
    reason: str
    renewing: bool = False


Event = NodeUp | NodeDown
Subscriber = Pid | Callable[[Event], None]
Receiver = Callable[[Frame], object]
"""Handles a frame in the turn of its arrival: returns True if it took effect at once, otherwise
``Distribution.done`` is called when it has."""
OnAck = Callable[[str, int], None]
"""Called with ``(peer, number)``."""
OnAhead = Callable[[str, Sequence[int], Sequence[tuple[int, int, int]]], None]
"""Called with ``(peer, numbers, parts)``; a part is the number of a frame, and where it begins and ends."""


@dataclass(slots=True)
class StreamCounts:
    """Counts of one stream with one peer, over all sessions."""

    frames_out: int = 0
    bytes_out: int = 0
    frames_in: int = 0
    bytes_in: int = 0
    dropped: int = 0
    """Unreliable frames that did not fit."""
    lost_out: int = 0
    """Reliable frames that were not acked when the session ended."""
    duplicates: int = 0
    failed: int = 0
    """Frames whose receiver raised."""
    latency: Histogram = field(default_factory=Histogram)
    """Seconds from sending a reliable frame to the acknowledgement that it took effect."""


@dataclass(slots=True)
class Counts:
    """Counts of the links with one peer."""

    streams: dict[str, StreamCounts] = field(
        default_factory=lambda: {purpose: StreamCounts() for purpose in PURPOSES}
    )
    connects: int = 0
    resets: int = 0
    refusals: int = 0
    """Attempts without a connection, whether refused or unreachable."""
