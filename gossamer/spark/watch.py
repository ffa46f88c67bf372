"""The state of a stream of recorded files, and how far it may judge: plain values, a batch after the other.

Files come as recorders finish them, those of one node in order, those of different nodes some time apart. A
message may be judged when every node has reported up to the time until which it had to be delivered.

Rules: 1. The watermark is the time up to which *every* node has reported, the slowest one's; a mean, or the
latest with a delay, would count messages as lost that a slow node has not reported yet.  2. A node that
closed cleanly is not waited for, nor one without files for ``patience`` while others have some, which is a
hole.  3. A node that only others mention is waited for like one that has begun.  4. Events from before the
watermark are late: they are counted and reported, and change no verdict.  5. No wall clock: the same files in
the same batches give the same verdicts, so that a batch that is done again writes the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gossamer.spark.source.files import FileProblem, Footer
from gossamer.spark.source.holes import Hole


@dataclass(frozen=True, slots=True)
class Known:
    """State after a batch; times are microseconds since 1970."""

    footers: tuple[Footer, ...] = ()
    named: tuple[str, ...] = ()
    """Nodes that others mention."""
    judged_until: int = 0
    compacted_until: int = 0
    """Sessions before this are kept as a table, and their files are not read again."""
    sessions_at: int = -1
    """The batch that wrote that table."""
    alarms: tuple[str, ...] = ()
    """Alarms that are raised."""
    problems: tuple[FileProblem, ...] = field(default=())
    """Files that could not be read and are permanently missing."""

    def watermark(self, *, patience: int) -> tuple[int, list[Hole]]:
        """Return the time until which all awaited nodes have reported, and the holes of the others."""
        if not self.footers:
            return 0, []
        reported: dict[str, int] = {}
        closed: dict[str, bool] = {}
        for footer in self.footers:
            if footer.end >= reported.get(footer.node, 0):
                closed[footer.node] = footer.closed
            reported[footer.node] = max(reported.get(footer.node, 0), footer.end)
        first, last = min(f.begin for f in self.footers), max(reported.values())
        for name in self.named:
            reported.setdefault(name, first)
        waited = {
            name: until
            for name, until in reported.items()
            if not closed.get(name, False) and last - until <= patience
        }
        until = min(waited.values(), default=last)
        silent = [
            Hole(name, end, until, "nothing has come of this node since")
            for name, end in sorted(reported.items())
            if name not in waited and not closed.get(name, False) and end < until
        ]
        return until, silent

    def with_files(self, footers: Iterable[Footer], problems: Iterable[FileProblem]) -> Known:
        return replace(
            self,
            footers=(*self.footers, *footers),
            problems=(*self.problems, *(problem for problem in problems if problem.is_loss)),
        )

    def folded(self, until: int) -> Known:
        """Fold the files that end before ``until`` into one entry per creation."""
        old: dict[tuple[str, int], list[Footer]] = {}
        kept = []
        for footer in self.footers:
            if footer.end < until:
                old.setdefault((footer.node, footer.creation), []).append(footer)
            else:
                kept.append(footer)
        return replace(self, footers=(*(f for creation in old.values() for f in _joined(creation)), *kept))


def _joined(creation: Iterable[Footer]) -> list[Footer]:
    """Join consecutive footers into one without a path: they are not read again."""
    joined: list[Footer] = []
    for footer in sorted(creation, key=lambda file: (file.first, -file.last)):
        before = joined[-1] if joined else None
        if before is not None and footer.first <= before.last + 1:
            if footer.last > before.last:
                joined[-1] = replace(
                    before, last=footer.last, end=max(before.end, footer.end), closed=footer.closed
                )
        else:
            joined.append(replace(footer, path="", gaps=(), only=()))
    return joined
