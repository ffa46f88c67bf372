"""What became of every message: sent, acknowledged, delivered, late, lost, doubled; pure.

A stream is all that one publisher says to one subscriber by one quality of service, numbered from 0. The
ledger notes three times for each message (sent, acknowledged, first delivered) and counts copies; tallies and
samples are read off in the end.

Rules: 1. Times are passed in and only compared with each other.  2. What was delivered and never sent is
counted as ``foreign``, and in no tally.  3. A message for a clean session whose client was away is
parted from it, whatever the phase: nobody was subscribed.  4. 26 bytes a message: a million fit into a drill.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from gossamer.drill.record import Phase, PhaseName, Sample, Tally

__all__ = ["Ledger", "Stream"]

_NEVER = math.nan
_COPIES = 255


class Stream:
    """One publisher's messages for one subscriber; nodes are named, ``number`` travels in the payload."""

    __slots__ = (
        "absent",
        "acknowledged",
        "copies",
        "delivered",
        "number",
        "persistent",
        "qos",
        "sent",
        "source",
        "target",
    )

    def __init__(self, number: int, source: str, target: str, qos: int, *, persistent: bool) -> None:
        self.number = number
        self.source = source
        self.target = target
        self.qos = qos
        self.persistent = persistent
        self.absent = array("B")
        self.sent = array("d")
        self.acknowledged = array("d")
        self.delivered = array("d")
        self.copies = array("B")

    def note_sent(self, at: float, *, absent: bool = False) -> int:
        """A message is handed to the socket; its number. ``absent``: nobody subscribes to it."""
        self.absent.append(absent)
        self.sent.append(at)
        # Nobody acknowledges QoS 0; what was handed over counts.
        self.acknowledged.append(at if self.qos == 0 else _NEVER)
        self.delivered.append(_NEVER)
        self.copies.append(0)
        return len(self.sent) - 1

    def note_acknowledged(self, sequence: int, at: float) -> bool:
        """The broker has it; False when that was known."""
        known = not math.isnan(self.acknowledged[sequence])
        if not known:
            self.acknowledged[sequence] = at
        return not known

    def note_delivered(self, sequence: int, at: float) -> bool:
        """The subscriber has it; False when it is a copy."""
        copies = self.copies[sequence]
        self.copies[sequence] = min(copies + 1, _COPIES)
        if copies == 0:
            self.delivered[sequence] = at
        return copies == 0


class Ledger:
    """All streams of a drill."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.foreign = 0
        """Deliveries of what this drill never sent."""
        self.sent: Counter[tuple[str, str]] = Counter()
        """So far, by source and target; for those who look while it goes on."""
        self.delivered: Counter[tuple[str, str]] = Counter()
        self.owed = 0
        """Acknowledged and not delivered, so far."""

    def open(self, source: str, target: str, qos: int, *, persistent: bool) -> Stream:
        """A new stream."""
        stream = Stream(len(self.streams), source, target, qos, persistent=persistent)
        self.streams.append(stream)
        return stream

    def note_sent(self, stream: Stream, at: float, *, absent: bool = False) -> int:
        """See :meth:`Stream.note_sent`."""
        self.sent[stream.source, stream.target] += 1
        if stream.qos == 0:
            self.owed += 1
        return stream.note_sent(at, absent=absent)

    def note_acknowledged(self, stream: Stream, sequence: int, at: float) -> None:
        """See :meth:`Stream.note_acknowledged`."""
        if stream.note_acknowledged(sequence, at):
            self.owed += stream.copies[sequence] == 0

    def note_delivered(self, number: int, sequence: int, at: float) -> None:
        """A subscriber got message ``sequence`` of stream ``number``, as its payload says."""
        if not 0 <= number < len(self.streams) or not 0 <= sequence < len(self.streams[number].sent):
            self.foreign += 1
            return
        stream = self.streams[number]
        if stream.note_delivered(sequence, at):
            self.delivered[stream.source, stream.target] += 1
            self.owed -= not math.isnan(stream.acknowledged[sequence])

    # -- in the end

    def tallies(
        self,
        phases: Sequence[Phase],
        *,
        side_of: Callable[[str], str],
        parted: Callable[[PhaseName, str, str], bool],
        late_after: float,
    ) -> tuple[Tally, ...]:
        """By side, phase, quality of service, kind of session, and whether the fault stood between.

        A message belongs to the phase in which it was sent; phases follow each other.
        """
        sums: dict[tuple[str, str, PhaseName, int, bool, bool], list[int]] = {}
        begins = [phase.begin for phase in phases]
        for stream in self.streams:
            source, target = side_of(stream.source), side_of(stream.target)
            kind = stream.qos, stream.persistent
            rows = [
                [
                    sums.setdefault((source, target, phase.name, *kind, apart), [0] * 6)
                    for apart in (parted(phase.name, stream.source, stream.target), True)
                ]
                for phase in phases
            ]
            at = 0
            for absent, (sent, acknowledged, delivered, copies) in zip(
                stream.absent, _rows(stream), strict=True
            ):
                # Times of sending only grow, so the phases are walked through once.
                while at + 1 < len(begins) and sent >= begins[at + 1]:
                    at += 1
                row = rows[at][absent]
                row[0] += 1
                known = not math.isnan(acknowledged)
                row[1] += known
                if copies:
                    row[2] += 1
                    row[3] += delivered - sent > late_after
                    row[5] += copies - 1
                elif known:
                    row[4] += 1
        return tuple(
            Tally(
                source=source,
                target=target,
                phase=phase,
                qos=qos,
                persistent=persistent,
                parted=apart,
                sent=row[0],
                acknowledged=row[1],
                delivered=row[2],
                late=row[3],
                lost=row[4],
                doubled=row[5],
            )
            for (source, target, phase, qos, persistent, apart), row in sums.items()
            if row[0]
        )

    def samples(self, end: float, *, side_of: Callable[[str], str]) -> tuple[Sample, ...]:
        """Second by second, each side; what was delivered counts for the subscriber's side."""
        sides = list(dict.fromkeys(side_of(stream.source) for stream in self.streams))
        seconds = max(1, math.ceil(end))
        counts = {side: [[0, 0, 0] for _ in range(seconds)] for side in sides}
        latencies: dict[tuple[str, int], list[float]] = {}
        for stream in self.streams:
            source, target = side_of(stream.source), side_of(stream.target)
            ours, theirs = counts[source], counts.setdefault(target, [[0, 0, 0] for _ in range(seconds)])
            for sent, acknowledged, delivered, copies in _rows(stream):
                _count(ours, sent, 0)
                _count(ours, acknowledged, 1)
                if copies and 0 <= delivered < seconds:
                    latencies.setdefault((target, int(delivered)), []).append(delivered - sent)
                    if source != target:
                        _count(theirs, delivered, 2)
        return tuple(
            _sample(second, side, counts[side][second], latencies.get((side, second), []))
            for side in counts
            for second in range(seconds)
        )


def _rows(stream: Stream) -> Iterator[tuple[float, float, float, int]]:
    return zip(stream.sent, stream.acknowledged, stream.delivered, stream.copies, strict=True)


def _count(rows: list[list[int]], at: float, column: int) -> None:
    if not math.isnan(at) and 0 <= at < len(rows):
        rows[int(at)][column] += 1


def _sample(second: int, side: str, counts: list[int], latencies: Iterable[float]) -> Sample:
    ordered = sorted(latencies)
    return Sample(
        float(second),
        side,
        sent=counts[0],
        acknowledged=counts[1],
        delivered=len(ordered),
        foreign=counts[2],
        latency_p50=_quantile(ordered, 0.5),
        latency_p99=_quantile(ordered, 0.99),
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 6) if ordered else 0.0
