"""Ledger of all messages: sent, acknowledged, delivered, late, lost, doubled; pure.

A stream is all messages of one publisher to one subscriber with one quality of service, numbered from 0. The
ledger records three times for each message (sent, acknowledged, first delivered), whether it came behind a
later one, and counts copies; tallies and samples are computed at the end.

Rules: 1. Times are passed in and only compared with each other.  2. A message delivered and never sent counts
as ``foreign``, and in no tally.  3. A message for a clean session whose client was disconnected is parted
from it in any phase: there was no subscription.  4. 27 bytes per message: a million fit into a drill.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from gossamer.drill.record import Phase, PhaseName, Sample, Tally

_NEVER = math.nan
_COPIES = 255


def _no_times() -> array[float]:
    return array("d")


@dataclass(slots=True, eq=False)
class Stream:
    """One publisher's messages to one subscriber, by node name; ``number`` is sent in the payload."""

    number: int
    source: str
    target: str
    qos: int
    persistent: bool
    absent: array[int] = field(default_factory=partial(array, "B"))
    """Per message: whether it had no subscriber when it was sent."""
    sent: array[float] = field(default_factory=_no_times)
    acknowledged: array[float] = field(default_factory=_no_times)
    delivered: array[float] = field(default_factory=_no_times)
    copies: array[int] = field(default_factory=partial(array, "B"))
    overtaken: array[int] = field(default_factory=partial(array, "B"))
    """Per message: whether it was first delivered behind a later one."""
    latest: int = -1
    """The last of those that were delivered."""

    def rows(self) -> Iterator[tuple[float, float, float, int]]:
        """Yield each message's times of sending, acknowledgement and first delivery, and its copies."""
        return zip(self.sent, self.acknowledged, self.delivered, self.copies, strict=True)


class Ledger:
    """All streams of a drill."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.foreign = 0
        """Deliveries of messages that this drill never sent."""
        self.sent: Counter[tuple[str, str]] = Counter()
        """Messages sent so far, by source and target; for progress displays."""
        self.delivered: Counter[tuple[str, str]] = Counter()
        self.owed = 0
        """Messages acknowledged and not delivered so far."""

    def open(self, source: str, target: str, qos: int, *, persistent: bool) -> Stream:
        """Open a new stream."""
        stream = Stream(len(self.streams), source, target, qos, persistent)
        self.streams.append(stream)
        return stream

    def note_sent(self, stream: Stream, at: float, *, absent: bool = False) -> int:
        """Record a message written to the socket; return its number. ``absent``: it has no subscriber."""
        self.sent[stream.source, stream.target] += 1
        stream.absent.append(absent)
        stream.sent.append(at)
        # QoS 0 has no acknowledgement: it counts as acknowledged when written.
        stream.acknowledged.append(_NEVER if stream.qos else at)
        self.owed += not stream.qos
        stream.delivered.append(_NEVER)
        stream.copies.append(0)
        stream.overtaken.append(0)
        return len(stream.sent) - 1

    def note_acknowledged(self, stream: Stream, sequence: int, at: float) -> None:
        """Record the broker's acknowledgement."""
        if math.isnan(stream.acknowledged[sequence]):
            stream.acknowledged[sequence] = at
            self.owed += stream.copies[sequence] == 0

    def note_delivered(self, number: int, sequence: int, at: float) -> None:
        """Record the delivery of message ``sequence`` of stream ``number``, from its payload."""
        if not 0 <= number < len(self.streams) or not 0 <= sequence < len(self.streams[number].sent):
            self.foreign += 1
            return
        stream = self.streams[number]
        copies = stream.copies[sequence]
        stream.copies[sequence] = min(copies + 1, _COPIES)
        if copies == 0:
            stream.delivered[sequence] = at
            stream.overtaken[sequence] = sequence < stream.latest
            stream.latest = max(stream.latest, sequence)
            self.delivered[stream.source, stream.target] += 1
            self.owed -= not math.isnan(stream.acknowledged[sequence])

    # -- results

    def tallies(
        self,
        phases: Sequence[Phase],
        *,
        side_of: Callable[[str], str],
        parted: Callable[[PhaseName, str, str], bool],
        late_after: float,
    ) -> tuple[Tally, ...]:
        """Tally by side, phase, quality of service, kind of session, and whether the fault separated them.

        A message belongs to the phase in which it was sent; phases follow each other.
        """
        # Counts in the order of the fields of a tally.
        sums: dict[tuple[str, str, PhaseName, int, bool, bool], list[int]] = {}
        begins = [phase.begin for phase in phases]
        for stream in self.streams:
            source, target = side_of(stream.source), side_of(stream.target)
            kind = stream.qos, stream.persistent
            rows = [
                [
                    sums.setdefault((source, target, phase.name, *kind, apart), [0] * 8)
                    for apart in (parted(phase.name, stream.source, stream.target), True)
                ]
                for phase in phases
            ]
            at = 0
            for absent, overtaken, (sent, acknowledged, delivered, copies) in zip(
                stream.absent, stream.overtaken, stream.rows(), strict=True
            ):
                # Times of sending only grow, so one pass over the phases is enough.
                while at + 1 < len(begins) and sent >= begins[at + 1]:
                    at += 1
                row = rows[at][absent]
                row[0] += 1
                known = not math.isnan(acknowledged)
                row[1] += known
                row[6] += overtaken
                # In milliseconds.
                row[7] = max(row[7], round((acknowledged - sent) * 1000)) if known else row[7]
                if copies:
                    row[2] += 1
                    row[3] += delivered - sent > late_after
                    row[5] += copies - 1
                elif known:
                    row[4] += 1
        return tuple(
            replace(Tally(*key, *row[:-1]), waited=row[-1] / 1000) for key, row in sums.items() if row[0]
        )

    def samples(self, end: float, *, side_of: Callable[[str], str]) -> tuple[Sample, ...]:
        """Return samples per second and side; deliveries count for the subscriber's side."""
        counts: Counter[tuple[str, int]] = Counter()
        latencies: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
        for stream in self.streams:
            source, target = side_of(stream.source), side_of(stream.target)
            for sent, _, delivered, copies in stream.rows():
                counts[source, int(sent)] += 1
                if copies:
                    latencies[target, int(delivered)].append(delivered - sent)
        nodes = (node for stream in self.streams for node in (stream.source, stream.target))
        return tuple(
            Sample(
                float(second),
                side,
                sent=counts[side, second],
                delivered=len(late := sorted(latencies[side, second])),
                latency_p50=_quantile(late, 0.5),
                latency_p99=_quantile(late, 0.99),
            )
            for side in dict.fromkeys(map(side_of, nodes))
            for second in range(max(1, math.ceil(end)))
        )


def _quantile(ordered: Sequence[float], share: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 6) if ordered else 0.0
