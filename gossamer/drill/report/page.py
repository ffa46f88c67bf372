"""Reports as one self-contained HTML page: of one drill, or of a suite of them.

The page loads nothing, follows the reader's choice of light or dark, can be read on a phone, by keyboard and
by a screen reader, and stays small: long lists are cut, and say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import groupby

import jinja2
from markupsafe import Markup

from gossamer import __version__
from gossamer.drill.record import DrillRecord, Tally
from gossamer.drill.report.promises import promised, short
from gossamer.drill.report.summary import PromiseRow, summarise
from gossamer.drill.report.timeline import legend, timeline
from gossamer.drill.report.words import (
    figures,
    happened,
    name_of,
    names,
    outcome,
    phase_name,
    verdict_in_words,
)

__all__ = ["html", "suite_html"]

MOST = 1000
"""Marks and dropped clients that a report lists."""
MOST_SIDES = 6
"""With more, messages are shown as between sides or within one."""
CONDITIONS = (
    ("clear", "sees everybody"),
    ("doubt", "suspects somebody"),
    ("blind", "holds somebody for dead"),
    ("gone", "does not run"),
    ("still", "stands still"),
)


def html(record: DrillRecord) -> str:
    """The report of one drill."""
    shown = _Shown(record, "drill")
    title = f"Drill: {name_of(record.plan)}"
    return _render("report.html.j2", title=title, drill=shown)


def suite_html(records: Mapping[str, DrillRecord], skipped: Mapping[str, str], *, began_at: float) -> str:
    """The report of a suite: ``records`` by the names of their drills, and why others were not run."""
    summary = summarise(records, skipped)
    drills = {
        name: _Shown(record, f"drill{number}", name, brief=True)
        for number, (name, record) in enumerate(records.items(), 1)
    }
    backends = " and ".join(sorted({record.plan.backend for record in records.values()})) or "none"
    return _render(
        "suite.html.j2",
        title="Drill suite",
        facts=f"{_date(began_at)} · {len(drills)} drills · back end {backends} · gossamer {__version__}",
        outcome="kept" if summary.kept else "broken",
        words=summary.words,
        more=summary.more,
        promises=[_promise(row, drills) for row in summary.promises],
        drills=list(drills.values()),
        skipped=list(skipped.items()),
    )


def _promise(row: PromiseRow, drills: Mapping[str, _Shown]) -> dict[str, object]:
    return {
        "promise": row.promise,
        "kept": row.kept,
        "count": f"{row.kept_in} of {row.judged_in}" if row.judged_in else "",
        "drill": drills.get(row.worst),
        "got": row.got,
    }


def _render(template: str, **values: object) -> str:
    return (
        _environment()
        .get_template(template)
        .render(
            **values,
            version=__version__,
            short=short,
            names=names,
            number=lambda value: f"{value:,}",
            conditions=CONDITIONS,
        )
    )


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("gossamer.drill.report"),
        autoescape=jinja2.select_autoescape(["html", "j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the table of messages."""

    way: str
    what: str
    sent: int
    acknowledged: int
    delivered: int
    late: int
    lost: int
    doubled: int
    owed: int
    """Of those lost: against a promise."""
    twice: int
    """Of those doubled: against a promise."""


class _Shown:
    """A drill as the templates want it; ``brief`` leaves out what only a report of its own has."""

    def __init__(self, record: DrillRecord, identity: str, name: str = "", *, brief: bool = False) -> None:
        plan = record.plan
        few = not brief and len(record.sides) <= MOST_SIDES
        self.record = record
        self.id = identity
        self.most = MOST
        self.brief = brief
        self.name = name or name_of(plan)
        self.took = f"{record.seconds:.0f} s"
        self.outcome = outcome(record.verdicts, record.failure)
        self.words = verdict_in_words(record)
        self.more = [happened(record)]
        self.row = [verdict.kept for verdict in record.verdicts]
        self.figures = figures(record)
        self.late = f"{plan.late_after:g}"
        self.facts = " · ".join(
            (
                _date(record.began_at),
                f"{len(plan.nodes)} nodes",
                f"back end {plan.backend}",
                f"{record.seconds:.0f} s",
                f"seed {plan.seed}",
            )
        )
        # Ours, and every text in it escaped.
        self.timeline = Markup(timeline(record, name=identity, fine=not brief))  # noqa: S704
        self.legend = [(Markup(symbol), kind) for symbol, kind in legend(record)]  # noqa: S704
        self.tallies = _by_phase(record, few=few, detailed=False)
        self.details = [] if brief else _by_phase(record, few=few, detailed=True)
        self.settings = _settings(record)


def _by_phase(record: DrillRecord, *, few: bool, detailed: bool) -> list[tuple[str, list[_Row]]]:
    """Rows of traffic by phase, those alike in what is shown added up."""

    def key(row: Tally) -> tuple[str, ...]:
        way = "within a side" if row.source == row.target else "between sides"
        if few:
            way = f"{row.source} → {row.target}"
        if row.parted:
            way += " (cut off)"
        if not detailed:
            return (way,)
        return way, f"QoS {row.qos}, {'persistent' if row.persistent else 'clean'} session"

    found = []
    judged = promised(record)
    for phase in dict.fromkeys(phase.name for phase in record.phases):
        ordered = sorted((row for row in record.traffic if row.phase == phase), key=key)
        rows = [_sum(kinds, list(group), judged) for kinds, group in groupby(ordered, key=key)]
        if rows:
            found.append((phase_name(record.plan, phase), rows))
    return found


def _sum(kinds: Sequence[str], rows: Sequence[Tally], judged: Callable[[Tally], bool]) -> _Row:
    return _Row(
        way=kinds[0],
        what=kinds[-1],
        sent=sum(row.sent for row in rows),
        acknowledged=sum(row.acknowledged for row in rows),
        delivered=sum(row.delivered for row in rows),
        late=sum(row.late for row in rows),
        lost=sum(row.lost for row in rows),
        doubled=sum(row.doubled for row in rows),
        owed=sum(row.lost for row in rows if judged(row)),
        twice=sum(row.doubled for row in rows if row.qos == 2),
    )


def _settings(record: DrillRecord) -> list[tuple[str, str]]:
    plan = record.plan
    found = {
        "Nodes": ", ".join(plan.nodes),
        "Sides": "; ".join(f"{side.name}: {names(side.nodes)}" for side in record.sides),
        "Back end": plan.backend,
        "Fault held for": f"{plan.seconds:g} s",
        "Load": f"{plan.load:g} messages a second, seed {plan.seed}",
        "Warm-up and end": f"{plan.warm_up:g} s and {plan.after:g} s",
        "Clients": f"{record.clients.publishers} publishers, {record.clients.subscribers} subscribers",
        **{key: str(value) for key, value in plan.settings.items()},
        "Quarantined": _quarantined(record),
        **{f"Machine: {key}": f"{value:g}" if isinstance(value, float) else str(value)
           for key, value in record.machine.items()},
        "Record": f"version {record.version}",
    }  # fmt: skip
    return list(found.items())


def _quarantined(record: DrillRecord) -> str:
    return "; ".join(f"{row.rows:,} rows in {row.file}" for row in record.quarantined) or "nothing"


def _date(at: float) -> str:
    return f"{datetime.fromtimestamp(at, tz=UTC):%Y-%m-%d %H:%M} UTC"
