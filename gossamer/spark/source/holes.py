"""Holes in a recording: what is missing between files, after them, and of whole nodes.

Rules: 1. What is missing between two files of one recorder is a hole: a span of time at one node in which
nothing can be judged; events are numbered without a break, so that footers tell.  2. A recorder that did not
close may have lived on for ``TAIL`` after its last event.  3. A node that others speak of, and that left no
file, is a hole from end to end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from gossamer.spark.source.files import FileProblem, Footer, micros_of, partition_of, text_of

TAIL = 5_000_000
"""Microseconds after the last event of a recorder that did not close in which it may have lived on."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A span at one node that the recording lacks; microseconds since 1970."""

    node: str
    begin: int
    end: int
    why: str

    @property
    def in_words(self) -> str:
        return f"{text_of(self.begin)} to {text_of(self.end)}: {self.why}"


def holes_between(footers: Iterable[Footer], low: int, high: int) -> list[Hole]:
    """Return what is missing of each recorder before, between and after its files, within [low, high)."""
    lives: dict[str, dict[int, list[Footer]]] = {}
    for footer in footers:
        lives.setdefault(footer.node, {}).setdefault(footer.creation, []).append(footer)
    holes = []
    for node, creations in lives.items():
        before: int | None = None
        for creation in sorted(creations):
            files = sorted(creations[creation], key=lambda file: file.first)
            expected, at = 1, before if before is not None else files[0].begin - TAIL
            for file in files:
                holes += [
                    # One that opens a file began where the file before it ended.
                    Hole(
                        node,
                        at if begin <= file.begin else begin,
                        end,
                        f"the recorder dropped {count} events",
                    )
                    for begin, end, count in file.gaps
                ]
                if file.first > expected:
                    holes.append(
                        Hole(node, at, file.begin, f"events {expected} to {file.first - 1} are missing")
                    )
                expected, at = max(expected, file.last + 1), max(at, file.end)
            if not files[-1].closed:
                holes.append(Hole(node, at, at + TAIL, "the recorder did not close"))
            before = at
    return [hole for hole in holes if hole.begin < high and hole.end > low]


def holes_of_problems(problems: Iterable[FileProblem], footers: Sequence[Footer]) -> list[Hole]:
    """Return the holes of last files that cannot be read, which no later numbers reveal."""
    holes = []
    for problem in problems:
        place = partition_of(problem.path)
        if not problem.is_loss or place is None:
            continue
        hour, node = place
        begin, end = micros_of(hour), micros_of(hour + timedelta(hours=1))
        own = [footer for footer in footers if footer.node == node]
        name = re.search(r"/(\d+)-(\d+)\.parquet$", problem.path)
        if name is not None:
            creation, first = int(name.group(1)), int(name.group(2))
            life = [footer for footer in own if footer.creation == creation]
            if any(footer.first > first for footer in life):
                continue
            begin = max([begin, *(footer.end for footer in life)])
        holes.append(Hole(node, min(begin, end), end, f"{problem.path}: {problem.kind}"))
    return holes
