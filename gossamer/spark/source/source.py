"""From a directory of recordings to tables of events, and a list of what could not be used.

A recording is partitioned by day, hour and node (``audit.schema``).

Rules: 1. ``t`` is a row's time for all jobs: the wall clock less the offset that the node knew of, and less
the one that its links reveal (``clocks``), in microseconds.  2. Of files from before the span only events of
sessions are read, which decide the subscriptions in it.  3. Nodes that others mention and that left no file
are missing, and reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import gossamer.audit.schema as schema
from gossamer.spark.engine.engine import Engine, one_of
from gossamer.spark.errors import NoDataError
from gossamer.spark.source.clocks import MAX_OFFSET, Life, delays_of_links, offsets_of
from gossamer.spark.source.files import (
    FileProblem,
    Footer,
    judge_file,
    micros_of,
    partition_of,
    text_of,
    without_duplicates,
)
from gossamer.spark.source.holes import Hole, holes_between, holes_of_problems

_SLACK = timedelta(hours=26)
"""How far from the asked span a partition may lie and still hold its events: a clock may be off by a day."""
_DAY = int(_SLACK.total_seconds()) * 1_000_000
MARGIN = 600_000_000
"""Microseconds around the span in which events may tell of its messages."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The input of a job."""

    engine: Engine
    events: str
    """A view: the columns of ``audit.schema`` and ``t``, of files that meet the span."""
    begin: int
    end: int
    """The span that is judged, microseconds since 1970, end excluded."""
    last: int
    """The end of the recording."""
    earlier: str | None = None
    """A view of files from before it, or of what a stream kept of them: the columns of ``histories``."""
    earlier_until: int = 0
    """Sessions before this are all in ``earlier``, and in it alone."""
    holes: tuple[Hole, ...] = ()
    problems: tuple[FileProblem, ...] = ()
    files: int = 0
    nodes: tuple[str, ...] = field(default=())
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Nodes of which there is no file, each with those that saw it."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """The share of the messages that each node's recorder keeps, where it said so."""
    size: int = 0
    """Events, about."""

    @property
    def share(self) -> float:
        """Share of all messages that was recorded; the smallest if nodes differ."""
        return min(self.shares.values(), default=1.0)

    @property
    def within(self) -> str:
        """A condition: an event is of the span."""
        return f"t >= {self.begin} AND t < {self.end}"

    def in_hole(self, condition: str) -> str:
        """Return a condition on rows: ``condition``, with a hole as ``h``, is true for some hole."""
        if not self.holes:
            return "false"
        holes = self.engine.structs([{"node": h.node, "begin": h.begin, "end": h.end} for h in self.holes])
        return f"array_contains(transform({holes}, h -> coalesce({condition}, false)), true)"


def load(
    engine: Engine,
    where: str,
    *,
    begin: datetime | None = None,
    end: datetime | None = None,
) -> Recording:
    """The events recorded in ``where`` that a job over [begin, end) needs, and what is wrong with the rest.

    Raises:
        NoDataError: there is nothing to read.
    """
    listed = engine.list_files(where)
    files = [path for path in listed if _near(path, end)]
    span = f"from {begin.isoformat() if begin else 'the beginning'} to {end.isoformat() if end else 'now'}"
    where = f"{where} {span}"
    if listed and not files:
        first = min(place[0] for path in listed if (place := partition_of(path)))
        found = f"{counted(len(listed))}, the first of {first:%Y-%m-%d %H:%M} UTC"
        raise NoDataError(where=where, found=found)
    # One after another: the bridge to the JVM mixes up answers to several threads.
    judged = [judge_file(engine, path) for path in files]
    return recording_of(
        engine,
        judged,
        where=where,
        begin=micros_of(begin) if begin else None,
        end=micros_of(end) if end else None,
    )


def recording_of(
    engine: Engine,
    judged: Sequence[Footer | FileProblem],
    *,
    where: str,
    begin: int | None = None,
    end: int | None = None,
    sessions: tuple[str, int] | None = None,
) -> Recording:
    """A recording of files that have been looked at; ``where`` is for the message of an error.

    ``sessions``: what is known of sessions already, and until when; files from before are not read then, and
    those without a path never are.

    Raises:
        NoDataError: none of them can be used, or none has events of the span.
    """
    problems = [item for item in judged if isinstance(item, FileProblem)]
    footers, doubled = without_duplicates([item for item in judged if isinstance(item, Footer)])
    problems += doubled
    if not footers:
        raise NoDataError(where=where, found=_unusable(len(judged), problems))
    wrong = _unknown_offsets(engine, footers, begin)
    problems += _of_clocks(footers, wrong)
    footers = [_righted(footer, wrong) for footer in footers]
    low = begin if begin is not None else min(f.begin for f in footers)
    high = end if end is not None else max(f.end for f in footers) + 1
    floor = low - MARGIN if sessions is None else min(low - MARGIN, sessions[1])
    met = [f for f in footers if f.path and f.end >= floor and f.begin < high + MARGIN]
    past = [f for f in footers if f.path and f.end < floor]
    if not met or not any(f.begin < high and f.end >= low for f in footers):
        first, last = min(f.begin for f in footers), max(f.end for f in footers)
        found = f"{counted(len(footers))} with events from {text_of(first)} to {text_of(last)}"
        raise NoDataError(where=where, found=found)
    events = read(engine, met, wrong)
    shares, named = _survey(engine, events)
    nodes = {f.node for f in footers}
    missing = {name: tuple(sorted(seers)) for name, seers in sorted(named.items()) if name not in nodes}
    holes = holes_between(footers, low, high)
    holes += holes_of_problems(problems, footers)
    holes += [
        Hole(name, low, high, "no file of this node is here, though others speak of it") for name in missing
    ]
    return Recording(
        engine=engine,
        events=events,
        earlier=sessions[0] if sessions else read(engine, past, wrong) if past else None,
        earlier_until=sessions[1] if sessions else 0,
        begin=low,
        end=high,
        last=max(f.end for f in footers),
        holes=tuple(holes),
        problems=tuple(problems),
        files=len(footers),
        nodes=tuple(sorted(nodes)),
        missing=missing,
        shares=shares,
        size=_events_in(met),
    )


def read(engine: Engine, footers: Iterable[Footer], wrong: Mapping[Life, int] | None = None) -> str:
    """A view of the rows of good files, with ``t``; ``wrong``: by how much clocks were off."""
    footers = list(footers)
    t = "unix_micros(`at`) - coalesce(offset_us, 0)"
    for (node, creation), offset in (wrong or {}).items():
        own = f"recorder = {engine.literal(node)} AND creation = {creation}"
        t += f" - CASE WHEN {own} THEN {offset} ELSE 0 END"
    whole = [footer.path for footer in footers if not footer.only]
    parts = [engine.events(whole)] if whole else []
    for footer in footers:
        if footer.only:
            kept = " OR ".join(f"seq BETWEEN {first} AND {last}" for first, last in footer.only)
            parts.append(f"SELECT * FROM ({engine.events([footer.path])}) WHERE {kept}")
    return engine.view(f"SELECT *, {t} AS t FROM ({' UNION ALL '.join(parts)})")


def _unknown_offsets(engine: Engine, footers: Iterable[Footer], begin: int | None) -> dict[Life, int]:
    """Return by how many microseconds clocks were off without their nodes knowing it."""
    near = [f for f in footers if f.path and (begin is None or f.end >= begin - _DAY)]
    return offsets_of(delays_of_links(engine, read(engine, near), known=_events_in(near))) if near else {}


def _events_in(footers: Iterable[Footer]) -> int:
    return sum(footer.last - footer.first + 1 for footer in footers)


def _unusable(files: int, problems: Sequence[FileProblem]) -> str:
    if not problems:
        return "no files"
    kinds = ", ".join(sorted({problem.kind for problem in problems}))
    return f"{counted(files)}, none of them usable ({kinds}; {problems[0].message})"


def counted(files: int) -> str:
    """A number of files, in words."""
    return "1 file" if files == 1 else f"{files:,} files"


def spoken_of(engine: Engine, events: str) -> set[str]:
    """The names of nodes that others speak of."""
    return set(_survey(engine, events)[1])


def _survey(engine: Engine, events: str) -> tuple[dict[str, float], dict[str, set[str]]]:
    """Return the share that each node keeps, and the nodes that others speak of, with those that do."""
    speaks = one_of(schema.FORWARDED, schema.RECEIVED, schema.NODE_UP)
    shares: dict[str, float] = {}
    named: dict[str, set[str]] = {}
    for row in engine.rows(
        f"SELECT DISTINCT recorder, peer, NULL AS detail FROM {events} WHERE {speaks} AND peer IS NOT NULL "
        f"UNION ALL SELECT DISTINCT recorder, NULL, detail FROM {events} WHERE {one_of(schema.OPENED)}"
    ):
        if row["peer"] is not None:
            named.setdefault(row["peer"], set()).add(row["recorder"])
        elif (share := _share(row["detail"])) is not None:
            shares[row["recorder"]] = min(share, shares.get(row["recorder"], share))
    return shares, named


def _share(detail: str | None) -> float | None:
    try:
        return float(json.loads(detail or "")["share"])
    except (ValueError, KeyError, TypeError):
        return None


def _of_clocks(footers: Iterable[Footer], wrong: Mapping[Life, int]) -> list[FileProblem]:
    problems = []
    for file in footers:
        clock = f"the clock of {file.node} was"
        if abs(file.offset) > MAX_OFFSET:
            message = f"{clock} {file.offset / 1e6:+.1f} s off, which it knew; corrected"
            problems.append(FileProblem(file.path, "clock", message))
        offset = wrong.get((file.node, file.creation))
        if offset is not None:
            message = f"{clock} about {offset / 1e6:+.1f} s off, which it did not know; "
            message += "corrected by what its links tell"
            problems.append(FileProblem(file.path, "clock", message))
    return problems


def _righted(footer: Footer, wrong: Mapping[Life, int]) -> Footer:
    offset = wrong.get((footer.node, footer.creation), 0)
    if not offset:
        return footer
    gaps = tuple((begin - offset, end - offset, count) for begin, end, count in footer.gaps)
    return replace(footer, begin=footer.begin - offset, end=footer.end - offset, gaps=gaps)


def _near(path: str, end: datetime | None) -> bool:
    """Return whether a file may be relevant: not after the span; before it, for subscriptions."""
    place = partition_of(path)
    return place is None or end is None or place[0] < end + _SLACK
