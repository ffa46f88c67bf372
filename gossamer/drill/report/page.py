"""Report of a drill or of a suite, as one self-contained HTML page.

The page loads nothing, follows the reader's choice of light or dark, works on a phone, by keyboard and with a
screen reader, and stays small: long lists are truncated, with a note.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import groupby

from msgspec.structs import asdict

from gossamer import __version__
from gossamer.drill.record import DrillRecord, Tally
from gossamer.drill.report.found import short
from gossamer.drill.report.promises import promised
from gossamer.drill.report.timeline import legend, picture
from gossamer.drill.report.words import (
    figures,
    happened,
    name_of,
    names,
    outcome,
    phase_name,
    summarise,
    verdict_in_words,
)
from gossamer.faults import DRILLS
from gossamer.pages import environment

MOST = 1000
"""Maximum number of marks and dropped clients in a report."""
MOST_SIDES = 6
"""Number of sides above which messages are shown only as between sides or within one."""
CONDITIONS = (
    ("clear", "sees everybody"),
    ("doubt", "suspects somebody"),
    ("blind", "holds somebody for dead"),
    ("gone", "does not run"),
    ("still", "stands still"),
)
_COUNTS = ("sent", "acknowledged", "delivered", "late", "lost", "doubled", "owed", "twice")


def html(record: DrillRecord) -> str:
    """Render the report of one drill."""
    title = f"Drill: {name_of(record.plan)}"
    return _render("report.html.j2", title=title, drill=_shown(record, "drill"))


def suite_html(records: Mapping[str, DrillRecord], skipped: Mapping[str, str], *, began_at: float) -> str:
    """Render the report of a suite: ``records`` by drill name; ``skipped``: why others did not run."""
    summary = summarise(records, skipped)
    drills = {
        name: {**_shown(record, f"drill{number}", brief=True), "name": name}
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
        promises=summary.promises,
        drills=drills,
        skipped=skipped,
    )


def _render(template: str, **values: object) -> str:
    return (
        environment("gossamer.drill.report")
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


def _shown(record: DrillRecord, identity: str, *, brief: bool = False) -> dict[str, object]:
    """Build the template data of a drill; ``brief`` leaves out details for the suite's report."""
    plan = record.plan
    few = not brief and len(record.sides) <= MOST_SIDES
    facts = (
        _date(record.began_at),
        f"{len(plan.nodes)} nodes",
        f"back end {plan.backend}",
        f"{record.seconds:.0f} s",
        f"seed {plan.seed}",
    )
    return {
        "record": record,
        "id": identity,
        "most": MOST,
        "brief": brief,
        "outcome": outcome(record.verdicts, record.failure),
        "words": verdict_in_words(record),
        "more": [happened(record)],
        "figures": figures(record),
        "facts": " · ".join(facts),
        "timeline": picture(record, fine=not brief),
        "legend": legend(record),
        "tallies": _by_phase(record, few=few, detailed=False),
        "details": [] if brief else _by_phase(record, few=few, detailed=True),
        "settings": _settings(record),
    }


def _by_phase(
    record: DrillRecord, *, few: bool, detailed: bool
) -> list[tuple[str, list[dict[str, str | int]]]]:
    """Group the rows of traffic by phase, and add up rows that show the same.

    ``owed`` is the part of ``lost`` that breaks a promise, ``twice`` that of ``doubled``.
    """

    def key(row: Tally) -> tuple[str, ...]:
        way = "within a side" if row.source == row.target else "between sides"
        if few:
            way = f"{row.source} → {row.target}"
        if row.parted:
            way += " (cut off)"
        if not detailed:
            return (way,)
        return way, f"QoS {row.qos}, {'persistent' if row.persistent else 'clean'} session"

    def added(rows: list[Tally]) -> dict[str, int]:
        counted = [
            asdict(row) | {"owed": row.lost * judged(row), "twice": row.doubled * (row.qos == 2)}
            for row in rows
        ]
        return {name: sum(row[name] for row in counted) for name in _COUNTS}

    judged = promised(record)
    found = []
    for phase in dict.fromkeys(phase.name for phase in record.phases):
        ordered = sorted((row for row in record.traffic if row.phase == phase), key=key)
        rows: list[dict[str, str | int]] = [
            {"way": kinds[0], "what": kinds[-1], **added(list(group))}
            for kinds, group in groupby(ordered, key=key)
        ]
        if rows:
            found.append((phase_name(record.plan, phase), rows))
    return found


def _settings(record: DrillRecord) -> dict[str, str]:
    plan = record.plan
    quarantined = "; ".join(f"{row.rows:,} rows in {row.file}" for row in record.quarantined)
    return {
        "Nodes": ", ".join(plan.nodes),
        "Sides": "; ".join(f"{side.name}: {names(side.nodes)}" for side in record.sides),
        "Back end": plan.backend,
        "Fault held for": f"{plan.seconds:g} s",
        "Load": f"{plan.load:g} messages a second, seed {plan.seed}",
        "Warm-up and end": f"{plan.warm_up:g} s and {plan.after:g} s",
        "Clients": f"{record.clients.publishers} publishers, {record.clients.subscribers} subscribers",
        **{key: str(value) for key, value in (DRILLS[plan.kind].configuration | plan.settings).items()},
        "Quarantined": quarantined or "nothing",
        **{f"Machine: {key}": f"{value:g}" if isinstance(value, float) else str(value)
           for key, value in record.machine.items()},
        "Record": f"version {record.version}",
    }  # fmt: skip


def _date(at: float) -> str:
    return f"{datetime.fromtimestamp(at, tz=UTC):%Y-%m-%d %H:%M} UTC"
