"""Memory of a node: its last hour as a reading every few seconds, told as rates, and its last events.

Logs say the same of events for people; here they are for programs, such as drills, that want to know when.

Rules: 1. Bounded: an hour, or 2,000 events with serial numbers, and the oldest go first.  2. A
reading is of counters and costs as much as one pulse; rates are made when somebody asks. Noting an event is
one append; nobody is called.  3. Intervals and ages are on the clock that does not jump; where a point stands
is on the wall clock, and after a jump of that what stands in the future is left out.  4. Ring and log are the
node's, the processes that fill them come and go.
"""

from __future__ import annotations

import resource
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final

from gossamer.api.model.cluster import NodeHistory
from gossamer.clock import Clock
from gossamer.errors import UsageError, mismatch
from gossamer.supervisor import GenServer, send_after

_EVENTS_KEPT = 2000

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
"""Meaning of each kind; the fields are those of :class:`Happening`."""


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

    def __init__(self, clock: Clock, *, creation: int, kept: int = _EVENTS_KEPT) -> None:
        self.creation = creation
        self.kinds: Collection[str] = HAPPENINGS.keys()
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
        """Return the events after that one, oldest first; 0 for all that is kept."""
        return [happening for happening in self._kept if happening.serial > serial]

    def age(self, happening: Happening) -> float:
        """Seconds ago."""
        return self._clock.monotonic() - happening.monotonic


HISTORY = "history"
INTERVAL = 5.0
"""Seconds between two readings."""
_KEPT = 1 + round(3600 / INTERVAL)
_PAGE = resource.getpagesize()


def resident_memory() -> int:
    """Bytes of this process that are in memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - one read of a pseudo file
            return int(statm.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


@dataclass(frozen=True, slots=True)
class Reading:
    """A node at one moment; what is counted begins at its start."""

    at: float
    monotonic: float
    received: int
    sent: int
    dropped: int
    cpu: float
    """Seconds of processor time."""
    connections: int
    memory: int
    loop_lag: float
    """The worst since the reading before."""


class Ring:
    """Readings of the last hour."""

    def __init__(self, *, kept: int = _KEPT) -> None:
        self._kept: deque[Reading] = deque(maxlen=kept)

    def add(self, reading: Reading) -> None:
        """It is the latest."""
        self._kept.append(reading)

    def history(self, node: str, *, now: float, seconds: int, step: int) -> NodeHistory:
        """Return the ``seconds`` before ``now``, a point for each ``step`` that has readings."""
        points = [
            (end, list(pairs))
            for end, pairs in groupby(self._pairs(now - seconds, now), key=lambda pair: _end(pair[1], step))
        ]
        last = [pairs[-1][1] for _, pairs in points]

        def rates(count: Callable[[Reading], float]) -> tuple[float, ...]:
            return tuple(_rate(pairs, count) for _, pairs in points)

        return NodeHistory(
            node=node,
            step=step,
            at=tuple(end for end, _ in points),
            received=rates(lambda reading: reading.received),
            sent=rates(lambda reading: reading.sent),
            dropped=rates(lambda reading: reading.dropped),
            connections=tuple(reading.connections for reading in last),
            cpu=rates(lambda reading: reading.cpu),
            memory=tuple(reading.memory for reading in last),
            loop_lag=tuple(round(max(after.loop_lag for _, after in pairs), 4) for _, pairs in points),
        )

    def _pairs(self, begin: float, end: float) -> Iterator[tuple[Reading, Reading]]:
        for before, after in pairwise(self._kept):
            if begin < after.at <= end and after.monotonic > before.monotonic:
                yield before, after


def _end(reading: Reading, step: int) -> float:
    return (reading.at // step + 1) * step


def _rate(pairs: list[tuple[Reading, Reading]], count: Callable[[Reading], float]) -> float:
    number = sum(count(after) - count(before) for before, after in pairs)
    return round(max(0.0, number / sum(after.monotonic - before.monotonic for before, after in pairs)), 3)


class HistoryKeeper(GenServer):
    """``await HistoryKeeper.start_link(ring, read)``; one a node."""

    kind = "worker"

    async def init(self, ring: Ring, read: Callable[[], Reading], *, interval: float = INTERVAL) -> None:
        self._ring, self._read, self._interval = ring, read, interval
        self._take()

    async def handle_info(self, message: object) -> None:
        if message == "take":
            self._take()

    def _take(self) -> None:
        self._ring.add(self._read())
        send_after(self._interval, self.process.pid, "take")
