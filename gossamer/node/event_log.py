"""What happened at this node lately, as its own processes saw it: whom it suspected, lost and found again.

Logs say the same for people; this is for programs, such as drills, that want to know when.

Rules: 1. Bounded: the oldest go first, and serial numbers show that some are missing.  2. Intervals are on
the monotonic clock, so that ages hold while the wall clock jumps.  3. Noting is one append; nobody is called.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gossamer.clock import Clock
from gossamer.errors import UsageError, mismatch

_KEPT = 2000

HAPPENINGS: Final[Mapping[str, str]] = {
    "up": "``peer`` became a member, or one again",
    "suspected": "``peer`` did not answer probes, and has the time of a suspicion to refute it",
    "refuted": "``peer`` was suspected and showed that it lives",
    "down": "``peer`` is held for dead; ``text`` says why",
    "left": "``peer`` left the cluster in order",
    "link_up": "the link to ``peer`` stands",
    "link_down": "the link to ``peer`` is gone; ``text`` says why",
    "partition": "this node and ``peer`` held each other for dead and met again; ``text``: in which context",
    "confirmed": "the same, and it still held after the time to confirm",
    "plan": "this node leads a heal and made its plan ``text``, with ``peer`` as coordinator",
    "coordinates": "this node carries out the plan ``text``",
    "reloaded": "this node reloaded its store for the plan ``text``, from ``peer``",
    "healed": "the plan ``text``, coordinated by ``peer``, is done",
    "removed": "autoclean removed ``peer``, which had been down for too long",
}
"""What each kind means; the fields are those of :class:`Happening`."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One event. ``at`` is the wall clock then, ``monotonic`` the interval clock."""

    serial: int
    at: float
    monotonic: float
    kind: str
    peer: str
    text: str


class EventLog:
    """Made once a node; its processes come and go."""

    def __init__(self, clock: Clock, *, creation: int, kept: int = _KEPT) -> None:
        self.creation = creation
        self._clock = clock
        self._serial = 0
        self._kept: deque[Happening] = deque(maxlen=kept)

    def note(self, kind: str, peer: str = "", text: str = "") -> None:
        """It happens now; ``kind`` is one of :data:`HAPPENINGS`."""
        if kind not in HAPPENINGS:
            raise mismatch(UsageError, "kind", repr(kind), f"one of {', '.join(HAPPENINGS)}")
        self._serial += 1
        clock = self._clock
        self._kept.append(Happening(self._serial, clock.wall(), clock.monotonic(), kind, peer, text))

    def after(self, serial: int) -> list[Happening]:
        """What came after that one, oldest first; 0 for all that is kept."""
        return [happening for happening in self._kept if happening.serial > serial]

    def age(self, happening: Happening) -> float:
        """Seconds ago."""
        return self._clock.monotonic() - happening.monotonic
