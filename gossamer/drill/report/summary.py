"""Many drills, one verdict for each promise: kept where every drill that could break it kept it; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gossamer.drill.record import DrillRecord
from gossamer.drill.report.promises import PROMISES

__all__ = ["PromiseRow", "Summary", "summarise"]


@dataclass(frozen=True, slots=True)
class PromiseRow:
    """One promise over all drills. ``kept`` None: no drill put it to the test."""

    promise: str
    kept: bool | None
    kept_in: int
    judged_in: int
    worst: str
    """Name of the drill that broke it first; of one that kept it where none did."""
    got: str
    """In that drill."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a suite came to. ``kept``: every drill was carried out and kept what it put to the test."""

    kept: bool
    words: str
    more: tuple[str, ...]
    promises: tuple[PromiseRow, ...]


def summarise(records: Mapping[str, DrillRecord], skipped: Mapping[str, str]) -> Summary:
    """``records`` by the names of their drills; ``skipped``: why others were not run."""
    rows = tuple(_row(promise, records) for promise in PROMISES)
    broken = [row for row in rows if row.kept is False]
    judged = [row for row in rows if row.kept is not None]
    failed = [name for name, record in records.items() if record.failure]
    more = [f"{name} could not be carried out to its end: {records[name].failure}" for name in failed]
    if judged and (untested := [row.promise for row in rows if row.kept is None]):
        more.append(f"Not put to the test: {'; '.join(untested)}.")
    if skipped:
        more.append(f"Not run: {', '.join(f'{name} ({reason})' for name, reason in skipped.items())}.")
    drills = "1 drill" if len(records) == 1 else f"{len(records)} drills"
    if broken:
        what = "; ".join(row.promise for row in broken)
        words = f"{len(broken)} of {len(judged)} promises broken over {drills}: {what}."
    elif failed:
        words = f"No promise broken, but {len(failed)} of {drills} could not be carried out to the end."
    elif judged:
        words = f"{len(judged)} of {len(rows)} promises put to the test over {drills}, all kept."
    else:
        words = "No promise was put to the test."
    return Summary(bool(judged) and not broken and not failed, words, tuple(more), rows)


def _row(promise: str, records: Mapping[str, DrillRecord]) -> PromiseRow:
    found = {
        name: verdict
        for name, record in records.items()
        for verdict in record.verdicts
        if verdict.promise == promise and verdict.kept is not None
    }
    if not found:
        return PromiseRow(promise, None, 0, 0, "", "")
    worst, verdict = min(found.items(), key=lambda item: bool(item[1].kept))
    kept = sum(bool(verdict.kept) for verdict in found.values())
    return PromiseRow(promise, kept == len(found), kept, len(found), worst, verdict.got)
