"""What happened on a simulated network, in order, and one digest of it all.

Two runs with the same seed must have the same digest; where they have not, the traces tell the first
difference. Rules: 1. Only what the simulation decides goes in: virtual time, hosts, sizes; never an address
of memory, a wall clock or a payload (which may hold real nonces).  2. The tail kept for people is bounded,
the digest covers everything.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One event: ``at`` in virtual seconds, ``size`` in bytes where there are any."""

    at: float
    kind: str
    source: str
    target: str
    size: int

    def __str__(self) -> str:
        way = f"{self.source} > {self.target}" if self.target else self.source
        size = f" {self.size} B" if self.size else ""
        return f"{self.at:14.6f} {self.kind:<10} {way}{size}"


class Trace:
    """Keeps counts, a digest and the last ``keep`` events."""

    def __init__(self, *, keep: int = 2000) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._tail: deque[TraceEvent] = deque(maxlen=keep)
        self.counts: Counter[str] = Counter()

    def record(self, at: float, kind: str, source: str, target: str = "", size: int = 0) -> None:
        self.counts[kind] += 1
        self._tail.append(TraceEvent(at, kind, source, target, size))
        self._hash.update(f"{at!r} {kind} {source} {target} {size}\n".encode())

    def digest(self) -> str:
        """Of every event so far."""
        return self._hash.copy().hexdigest()

    def tail(self, count: int = 40) -> list[TraceEvent]:
        """The last events, oldest first."""
        return list(self._tail)[-count:]
