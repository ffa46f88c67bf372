"""Self-contained report page: a verdict in words, numbers, charts, and missing data.

Nothing is loaded from anywhere, so that it can be mailed and kept.

Tables keep what was recorded: ``…_us`` are microseconds, ``…_at`` microseconds since 1970, UTC. In a report
delays are milliseconds, lateness is seconds, and every number has its unit in its header.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gossamer.spark.analyses import VERDICTS
from gossamer.spark.findings import Sheet
from gossamer.spark.jobs import JOBS
from gossamer.spark.report.charts import NAMES, WIDTH, Chart
from gossamer.spark.run import Outcome

_SHOWN = 200
"""Files and holes that are listed; the summary has all."""
UNITS = {
    **dict.fromkeys((*VERDICTS, "missed", "deliveries"), "deliveries"),
    **dict.fromkeys(("messages", "dropped", "overflows"), "messages"),
    **dict.fromkeys(("p50_us", "p95_us", "p99_us", "worst_us"), "ms"),
    **dict.fromkeys(("begin", "end", "first", "last", "hour", "window_start"), "UTC"),
    "late_by_us": "s",
    "negative": "delays",
    "minutes": "min",
    "split": "number",
    "clients": "clients",
    "connects": "times",
    "worst_hour": "connects in an hour",
    "takeovers": "times",
    "nodes": "nodes",
    "per_message": "deliveries for a message",
    "widest": "deliveries of one message",
    "usual": "messages a minute",
    "deviations": "times its usual spread",
    **dict.fromkeys(("jobs", "done", "dead", "discarded", "unsettled", "waiting"), "jobs"),
    **dict.fromkeys(("redelivered", "given"), "times"),
    **dict.fromkeys(("queue_offset", "attempts"), "number"),
    "appended": "UTC",
}
"""Format of every numeric or time column of a sheet."""
_TITLES = {"late_by_us": "latest by", "per_message": "mean fan-out", "widest": "widest fan-out"}
_SCALE = {"ms": 1000, "s": 1_000_000}


def missing_in_words(outcome: Outcome) -> list[str]:
    """Name the nodes whose recordings are not here, which comes before any verdict."""
    return [
        f"Missing: no recording of {node} is here, though {' and '.join(seers[:3])} saw it. What only it "
        "knows cannot be judged: bring its files too."
        for node, seers in outcome.recording.missing.items()
    ]


def verdict_in_words(outcome: Outcome, broken: Mapping[str, int | float]) -> str:
    """Return the verdict as one sentence."""
    words = _of_deliveries(outcome, broken)
    found = outcome.findings.get("queues")
    lost, doubled = (found.numbers[f"{name}_jobs"] if found else 0 for name in ("lost", "doubled"))
    return (
        f"{words} Of jobs in queues {lost:,} were lost, {doubled:,} done twice." if lost or doubled else words
    )


def _of_deliveries(outcome: Outcome, broken: Mapping[str, int | float]) -> str:
    blind = sum(findings.numbers.get("undecidable", 0) for findings in outcome.findings.values())
    doubt = f"; {blind:,} deliveries could not be judged" if blind else ""
    if not doubt and outcome.recording.holes:
        doubt = f"; what {_names(outcome)} did not record could not be judged"
    if broken:
        what = ", ".join(f"{number:,} {name}" for name, number in broken.items())
        return f"Promises were broken: {what}{doubt}."
    if "completeness" in outcome.findings:
        numbers = outcome.findings["completeness"].numbers
        owed, lost = numbers["owed"], numbers["lost"]
        if not owed:
            return f"Nothing was owed to anybody{doubt}."
        if not lost:
            return f"Nothing was lost of {owed:,} deliveries that were owed{doubt}."
        return f"{lost:,} of {owed:,} deliveries that were owed were lost{doubt}."
    return f"No promise that was asked for was broken{doubt}."


def _names(outcome: Outcome) -> str:
    return ", ".join(sorted({hole.node for hole in outcome.recording.holes}))


def render(outcome: Outcome, broken: Mapping[str, int | float]) -> str:
    """The page."""
    # Here, so that a summary needs no templates.
    from gossamer.pages import environment

    page = environment("gossamer.spark.report").get_template("audit.html.j2")
    cards = _cards(outcome)
    lost = any(name == "lost" and number for name, number, _ in cards)
    queues = outcome.findings.get("queues")
    lost = lost or bool(queues and (queues.numbers["lost_jobs"] or queues.numbers["doubled_jobs"]))
    return page.render(
        begin=f"{outcome.begin:%Y-%m-%d %H:%M:%S}",
        end=f"{outcome.end:%Y-%m-%d %H:%M:%S} UTC",
        missing=missing_in_words(outcome),
        words=verdict_in_words(outcome, broken),
        mood="bad" if broken or lost else "doubt" if outcome.recording.holes else "good",
        cards=cards,
        recording=outcome.recording,
        most=_SHOWN,
        questions={name: job.question for name, job in JOBS.items()},
        jobs=[
            (name, findings, [chart for chart in findings.charts if _worth_it(chart)])
            for name, findings in outcome.findings.items()
        ],
        width=WIDTH,
        names=NAMES,
        moment=lambda micros: f"{datetime.fromtimestamp(micros / 1e6, tz=UTC):%Y-%m-%d %H:%M:%S}",
        heading=heading,
        shown=shown,
        counted=_counted,
    )


def _counted(sheet: Sheet, column: str) -> bool:
    """Return whether a column has numbers, which are right-aligned."""
    values = [row[column] for row in sheet.rows if row[column] is not None]
    return bool(values) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _worth_it(chart: Chart) -> bool:
    """Return whether a chart is useful: a line through one point is not, nor are bars that are all zero."""
    return len(chart.labels) > 1 if chart.kind == "lines" else any(map(any, chart.series.values()))


def _cards(outcome: Outcome) -> list[tuple[str, int | float, str]]:
    if "completeness" not in outcome.findings:
        return []
    numbers = outcome.findings["completeness"].numbers
    moods = {"lost": "bad", "doubled": "bad", "misrouted": "bad", "late": "doubt", "undecidable": "doubt"}
    return [(name, number, moods.get(name, "") if number else "") for name, number in numbers.items()]


def heading(column: str) -> tuple[str, str]:
    """Return a column's title, and its unit; blank where it is text."""
    return _TITLES.get(column, column.removesuffix("_us").replace("_", " ")), UNITS.get(column, "")


def shown(value: Any, column: str = "") -> str:
    """A value as it is written, in the unit of its column."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column.endswith("_us"):
        value = value / _SCALE[UNITS[column]]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1 else f"{value:,.1f}"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)
