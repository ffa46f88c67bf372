"""Computations over a recording: verdicts and the terms on which they are given, in SQL of both engines."""

from __future__ import annotations

from dataclasses import dataclass

DELIVERED, LATE, DOUBLED, LOST, QUEUED, MISROUTED, UNDECIDABLE = VERDICTS = (
    "delivered",
    "late",
    "doubled",
    "lost",
    "queued",
    "misrouted",
    "undecidable",
)


@dataclass(frozen=True, slots=True)
class Terms:
    """Bounds of the verdicts; microseconds."""

    settle: int = 1_000_000
    late_after: int = 5_000_000

    @classmethod
    def of_seconds(cls, settle: float, late_after: float) -> Terms:
        return cls(int(settle * 1e6), int(late_after * 1e6))
