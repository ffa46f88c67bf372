"""The jobs by name: which tables each makes, and what it says about them in words and numbers.

Rules: 1. A job's tables are written before anything is said about them, and what is said is computed from
what was written: the summary and the tables cannot disagree.  2. A promise is a number that should be zero;
``--fail-on`` names those that must be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gossamer.spark import cluster, traffic
from gossamer.spark.charts import Chart
from gossamer.spark.completeness import VERDICTS, Terms, verdicts
from gossamer.spark.source import Recording

__all__ = ["JOBS", "PROMISES", "Job", "Told"]

Tables = Mapping[str, Any]

PROMISES = ("lost", "doubled", "late", "misrouted", "undecidable", "missing", "stale", "unneeded", "flapping")
"""Numbers that ``--fail-on`` may name."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a job found."""

    numbers: Mapping[str, int | float]
    sentences: tuple[str, ...]
    charts: tuple[Chart, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = ()
    """The most telling rows, for a table in the report."""


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    question: str
    make: Callable[[Recording, Terms, Tables], dict[str, Any]]
    """Recording, terms and the tables of ``needs`` to this job's tables."""
    tell: Callable[[Tables], Told]
    needs: tuple[str, ...] = field(default=())
    """Jobs whose tables it reads, as ``job/table``."""


def _rows(frame: Any, limit: int = 20) -> tuple[dict[str, Any], ...]:
    return tuple(row.asDict() for row in frame.limit(limit).collect())


def _many(number: int, what: str) -> str:
    if number == 1:
        return f"1 {what}"
    return f"{number:,} {what[:-1] + 'ies' if what.endswith('y') else what + 's'}"


def _tell_completeness(tables: Tables) -> Told:
    from pyspark.sql import functions as f

    table = tables["verdicts"]
    counted = {
        row["verdict"]: row["n"] for row in table.groupBy("verdict").agg(f.count("*").alias("n")).collect()
    }
    numbers = {verdict: counted.get(verdict, 0) for verdict in VERDICTS}
    owed = sum(numbers[v] for v in ("delivered", "late", "doubled", "lost", "queued"))
    hops = table.where(f.col("verdict") == "lost").groupBy("hop").agg(f.count("*").alias("messages"))
    lost = _rows(hops.orderBy(f.desc("messages"), "hop"))
    said = [f"{owed:,} deliveries were owed; {numbers['delivered']:,} came once and in time."]
    if numbers["lost"]:
        where = "; ".join(f"{row['messages']:,} at {row['hop']}" for row in lost[:5])
        said.append(f"{numbers['lost']:,} were lost: {where}.")
    else:
        said.append("None was lost.")
    for verdict, words in (
        ("doubled", "{:,} came more than once."),
        ("late", "{:,} came late."),
        ("queued", "{:,} wait for clients that have not been back."),
        ("misrouted", "{:,} went to somebody who had not subscribed."),
        ("undecidable", "{:,} cannot be judged: a recorder was not looking at the time."),
    ):
        if numbers[verdict]:
            said.append(words.format(numbers[verdict]))
    wrong = [verdict for verdict in VERDICTS if verdict != "delivered"]
    kinds = Chart(
        "bars",
        "Deliveries that were not simply made",
        "deliveries",
        tuple(wrong),
        {"deliveries": tuple(float(numbers[v]) for v in wrong)},
    )
    return Told({"owed": owed, **numbers}, tuple(said), (kinds, *_over_time(table)), lost)


_STEPS = (1, 10, 60, 600, 3600, 6 * 3600, 86_400)
"""Seconds that a chart over time may take together."""


def _over_time(table: Any) -> tuple[Chart, ...]:
    """What went wrong when; nothing, where nothing did."""
    from pyspark.sql import functions as f

    bad = table.where(f.col("verdict").isin("lost", "doubled", "late") & f.col("published_at").isNotNull())
    first, last = bad.agg(f.min("published_at"), f.max("published_at")).collect()[0]
    if first is None:
        return ()
    seconds = (last - first) // 1_000_000
    step = next((s for s in _STEPS if seconds // s < 200), _STEPS[-1])
    slot = f.floor(f.col("published_at") / (step * 1_000_000))
    rows = bad.groupBy(slot.alias("slot"), "verdict").agg(f.count("*").alias("n")).collect()
    found = {(row["slot"], row["verdict"]): row["n"] for row in rows}
    slots = range(min(slot for slot, _ in found), max(slot for slot, _ in found) + 1)
    if len(slots) < 2:
        return ()
    shape = "%H:%M:%S" if step < 60 else "%d %H:%M" if step < 86_400 else "%m-%d"
    return (
        Chart(
            "lines",
            "What went wrong, by when it was published",
            f"deliveries in {_in_words(step)}",
            tuple(f"{datetime.fromtimestamp(slot * step, tz=UTC):{shape}}" for slot in slots),
            {
                verdict: tuple(float(found.get((slot, verdict), 0)) for slot in slots)
                for verdict in ("lost", "doubled", "late")
                if any(kind == verdict for _, kind in found)
            },
        ),
    )


def _in_words(seconds: int) -> str:
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds % size == 0:
            return f"{seconds // size} {name}"
    return f"{seconds} s"


def _tell_latency(tables: Tables) -> Told:
    from pyspark.sql import functions as f

    table = tables["percentiles"]
    # A mean of percentiles is no percentile: over hours the worst hour speaks.
    hops = _rows(
        table.groupBy("hop")
        .agg(
            f.sum("messages").alias("messages"),
            f.max("p50").alias("p50"),
            f.max("p99").alias("p99"),
            f.max("worst").alias("worst"),
            f.sum("negative").alias("negative"),
        )
        .orderBy("hop")
    )
    said = [
        f"{row['hop']}: {row['messages']:,} messages; in the worst hour and pair "
        f"p50 {row['p50'] / 1000:,.1f} ms, p99 {row['p99'] / 1000:,.1f} ms."
        for row in hops
    ]
    negative = sum(row["negative"] for row in hops)
    if negative:
        said.append(f"{negative:,} delays are below zero: the nodes' clocks disagree.")
    hours = _rows(
        table.where(f.col("hop") == "deliver")
        .groupBy("hour")
        .agg(f.max("p50").alias("p50"), f.max("p99").alias("p99"))
        .orderBy("hour"),
        limit=500,
    )
    chart = Chart(
        "lines",
        "From publish to delivery, worst prefix and pair of each hour",
        "ms",
        tuple(f"{row['hour']:%d %H:00}" for row in hours),
        {key: tuple(row[key] / 1000 for row in hours) for key in ("p50", "p99")},
    )
    worst = _rows(table.orderBy(f.desc("p99"), "hop", "prefix"))
    return Told({"negative": negative}, tuple(said or ["No message was timed."]), (chart,), worst)


def _tell_routes(tables: Tables) -> Told:
    from pyspark.sql import functions as f

    table = tables["faults"]
    counted = {
        row["fault"]: row["n"] for row in table.groupBy("fault").agg(f.sum("messages").alias("n")).collect()
    }
    numbers = {fault: counted.get(fault, 0) for fault in ("missing", "unneeded", "stale")}
    words = {
        "missing": "{:,} messages were not forwarded to a node that had a subscriber.",
        "unneeded": "{:,} were forwarded to a node that had none.",
        "stale": "{:,} were forwarded by a route that was no longer true.",
    }
    said = [words[k].format(n) for k, n in numbers.items() if n] or ["Every forward was right."]
    if counted.get("undecidable"):
        said.append(f"{counted['undecidable']:,} seem wrong, but a recorder was not looking at the time.")
    return Told(numbers, tuple(said), rows=_rows(table.orderBy(f.desc("messages"), "topic")))


def _tell_partitions(tables: Tables) -> Told:
    rows = _rows(tables["costs"].orderBy("split", "side"), limit=100)
    if not rows:
        return Told({"splits": 0}, ("No split.",))
    # What is said of a split is said by each of its sides.
    splits = {row["split"]: row for row in rows}
    lost = sum(row["lost"] for row in rows)
    said = []
    for number, row in list(splits.items())[:10]:
        end = "" if row["met"] else ", and have not met again"
        end = end or ("" if row["healed"] else "; nobody healed it")
        sides = [side for side in rows if side["split"] == number]
        said.append(
            f"{row['sides'].replace(' | ', ' and ')} lost each other for {row['minutes']:.1f} minutes from "
            f"{row['begin']:%Y-%m-%d %H:%M:%S}{end}: "
            + "; ".join(
                f"{side['side']} had {_many(side['clients'], 'client')} and published "
                f"{_many(side['messages'], 'message')}, of which {_many(side['lost'], 'delivery')} "
                f"{'was' if side['lost'] == 1 else 'were'} lost"
                for side in sides
            )
            + "."
        )
    said.append(
        f"Of what was published meanwhile, {_many(lost, 'delivery')} {'was' if lost == 1 else 'were'} lost."
    )
    return Told({"splits": len(splits), "lost_in_splits": lost}, tuple(said), rows=rows[:20])


def _tell_hotspots(tables: Tables) -> Told:
    from pyspark.sql import functions as f

    said, charts = [], []
    for name in ("topics", "publishers", "subscribers", "filters", "pairs"):
        top = _rows(tables[name].orderBy(f.desc("messages"), "subject"), limit=10)
        if top:
            said.append(
                f"{name}: {top[0]['subject']} leads {top[0]['subjects']:,} with {top[0]['share']:.1%} "
                f"of all, {top[0]['skew']:,.1f} times the average."
            )
            charts.append(
                Chart(
                    "bars",
                    f"Most messages: {name}",
                    "messages",
                    tuple(str(row["subject"]) for row in top),
                    {"messages": tuple(float(row["messages"]) for row in top)},
                )
            )
    return Told(
        {}, tuple(said or ["Nothing was published."]), tuple(charts), _rows(tables["fanout"], limit=10)
    )


def _tell_sessions(tables: Tables) -> Told:
    from pyspark.sql import functions as f

    table = tables["clients"]
    sums = table.agg(
        f.count(f.when(f.col("flapping"), 1)).alias("flapping"),
        f.sum("takeovers").alias("takeovers"),
        f.sum("dropped").alias("dropped"),
        f.sum("overflows").alias("overflows"),
        f.count(f.when(f.col("overflows") > 0, 1)).alias("overflown"),
    ).collect()[0]
    numbers = {key: int(sums[key] or 0) for key in ("flapping", "takeovers", "dropped", "overflows")}
    others = numbers["dropped"] - numbers["overflows"]
    said = (
        f"{numbers['flapping']:,} clients flap; sessions moved {numbers['takeovers']:,} times.",
        (
            f"{numbers['overflows']:,} messages were dropped for full queues of "
            f"{sums['overflown'] or 0:,} clients, {others:,} for other reasons."
        ),
    )
    return Told(numbers, said, rows=_rows(table.orderBy(f.desc("worst_hour"), f.desc("dropped"), "client")))


def _tell_anomalies(tables: Tables) -> Told:
    from pyspark.sql import functions as f

    table = tables["windows"]
    rows = _rows(table.orderBy(f.desc(f.abs("deviations")), "subject", "window"))
    count = table.count()
    said = [f"{count:,} windows in which a topic or publisher left its usual rate."] if count else []
    said += [
        f"{row['kind']} {row['subject']}: {row['messages']:,} messages at {row['window']:%Y-%m-%d %H:%M}, "
        f"usually {row['usual']:,.0f}."
        for row in rows[:5]
    ]
    return Told({"anomalies": count}, tuple(said or ["Nothing left its usual rate."]), rows=rows)


JOBS = {
    job.name: job
    for job in (
        Job(
            "completeness",
            "Was every message delivered to everyone it was for, once and in time?",
            lambda recording, terms, _: {"verdicts": verdicts(recording, terms)},
            _tell_completeness,
        ),
        Job(
            "latency",
            "How long do messages take, and on which hop?",
            lambda recording, _terms, _: {"percentiles": traffic.latency(recording)},
            _tell_latency,
        ),
        Job(
            "routes",
            "Were messages forwarded to the nodes that had subscribers, and to no others?",
            lambda recording, terms, _: {"faults": cluster.routes(recording, terms)},
            _tell_routes,
        ),
        Job(
            "partitions",
            "What did each split cost?",
            lambda recording, _terms, tables: {
                "costs": cluster.partitions(recording, tables["completeness/verdicts"])
            },
            _tell_partitions,
            needs=("completeness",),
        ),
        Job(
            "hotspots",
            "Who and what makes the most traffic?",
            lambda recording, _terms, _: traffic.hotspots(recording),
            _tell_hotspots,
        ),
        Job(
            "sessions",
            "Which clients move, flap or lose what was queued for them?",
            lambda recording, _terms, _: {"clients": cluster.sessions(recording)},
            _tell_sessions,
        ),
        Job(
            "anomalies",
            "Which topics and publishers left their usual rate, and when?",
            lambda recording, _terms, _: {"windows": traffic.anomalies(recording)},
            _tell_anomalies,
        ),
    )
}
