"""The values that links give to those above them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import Struct

from gossamer.distribution.wire import PURPOSES, Purpose
from gossamer.histogram import Histogram
from gossamer.supervisor import Pid


class Frame(Struct, frozen=True, gc=False):
    """A frame from a peer; give it back to ``Distribution.done`` when it has taken effect.

    ``number`` is 0 for an unreliable frame. ``session`` ties the acknowledgement to the session it came in.
    """

    peer: str
    purpose: Purpose
    number: int
    payload: bytes
    session: int = 0


class NodeUp(Struct, frozen=True):
    """Frames flow both ways. Nothing of that session was handed over before."""

    name: str
    creation: int


class NodeDown(Struct, frozen=True):
    """The session is over; nothing of it is handed over after this. Unacked frames are lost.

    ``renewing``: the peer is a member still and another session begins, so that NodeUp follows, or a second
    NodeDown when the peer goes before that.
    """

    name: str
    creation: int
    reason: str
    renewing: bool = False


Event = NodeUp | NodeDown
Subscriber = Pid | Callable[[Event], None]
Receiver = Callable[[Frame], object]
"""Takes a frame, in the turn in which it arrives: True where it has taken effect at once, or else
``Distribution.done`` is called when it has."""
OnAck = Callable[[str, int], None]
"""Told ``(peer, number)``."""


@dataclass(slots=True)
class StreamCounts:
    """What one stream with one peer carried, over all sessions."""

    frames_out: int = 0
    bytes_out: int = 0
    frames_in: int = 0
    bytes_in: int = 0
    dropped: int = 0
    """Unreliable frames that found no room."""
    lost_out: int = 0
    """Reliable frames that were not acked when the session ended."""
    duplicates: int = 0
    failed: int = 0
    """Frames whose receiver raised."""
    latency: Histogram = field(default_factory=Histogram)
    """Seconds from the sending of a reliable frame until the acknowledgement that it took effect."""


@dataclass(slots=True)
class Counts:
    """What links with one peer went through."""

    streams: dict[str, StreamCounts] = field(
        default_factory=lambda: {purpose: StreamCounts() for purpose in PURPOSES}
    )
    connects: int = 0
    resets: int = 0
    refusals: int = 0
    """Attempts that found nobody, whether refused or unreachable."""
