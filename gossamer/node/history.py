"""The last hour of a node: a reading every few seconds in a ring, told as rates.

Rules: 1. Bounded: an hour, and the oldest go first.  2. A reading is of counters and costs as much as one
pulse; rates are made when somebody asks.  3. Intervals are on the clock that does not jump; where a point
stands is on the wall clock, and after a jump of that what stands in the future is left out.  4. The ring is
the node's, the process that fills it comes and goes.
"""

from __future__ import annotations

import resource
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from gossamer.api.model.cluster import NodeHistory
from gossamer.supervisor import GenServer, send_after

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
        """What was in the ``seconds`` before ``now``, a point for each ``step`` that has readings."""
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

    async def handle_info(self, message: Any) -> None:
        if message == "take":
            self._take()

    def _take(self) -> None:
        self._ring.add(self._read())
        send_after(self._interval, self.process.pid, "take")
