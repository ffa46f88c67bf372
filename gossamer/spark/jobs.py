"""The jobs by name: the tables that each makes, and its findings in words and numbers.

Rules: 1. A job's tables are written first, and its findings are computed from the written ones: the summary
and the tables cannot disagree.  2. A promise is a number that should be zero;
``--fail-on`` names those that must be.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from gossamer.spark.analyses import VERDICTS, cluster, traffic
from gossamer.spark.analyses.completeness import verdicts
from gossamer.spark.analyses.queues import jobs
from gossamer.spark.engine.engine import Engine, Row
from gossamer.spark.findings import WORST, Findings, Job, Tables, counts_of, rows_of, sheets_of
from gossamer.spark.queue_findings import summarize_queues
from gossamer.spark.report.charts import Chart

PROMISES = (
    *("lost", "doubled", "late", "misrouted", "undecidable", "missing", "stale", "unneeded", "flapping"),
    *("lost_jobs", "doubled_jobs", "undecidable_jobs"),
)
"""Numbers that ``--fail-on`` may name."""


def _bars(title: str, unit: str, values: Mapping[str, int]) -> Chart:
    return Chart("bars", title, unit, tuple(values), {unit: tuple(map(float, values.values()))})


def _many(number: int, what: str) -> str:
    if number == 1:
        return f"1 {what}"
    return f"{number:,} {what[:-1] + 'ies' if what.endswith('y') else what + 's'}"


def _summarize_completeness(engine: Engine, tables: Tables) -> Findings:
    table = tables["verdicts"]
    counted = counts_of(engine, table, "verdict")
    numbers = {verdict: counted.get(verdict, 0) for verdict in VERDICTS}
    owed = sum(numbers[v] for v in ("delivered", "late", "doubled", "lost", "queued"))
    lost = rows_of(
        engine,
        f"SELECT hop, count(*) AS lost FROM {table} WHERE verdict = 'lost' GROUP BY hop "
        "ORDER BY lost DESC, hop",
    )
    said = [f"{owed:,} deliveries were owed; {numbers['delivered']:,} came once and in time."]
    if numbers["lost"]:
        where = "; ".join(f"{row['lost']:,} at {row['hop']}" for row in lost[:5])
        said.append(f"{numbers['lost']:,} were lost: {where}.")
    else:
        said.append("None was lost.")
    late = ""
    if numbers["late"]:
        (by,) = engine.rows(
            f"SELECT percentile_approx(late_by_us, 0.5, {traffic.PRECISION}) AS half, "
            f"max(late_by_us) AS most FROM {table} WHERE verdict = 'late'"
        )
        late = f", by {_span(by['half'])} in the median and {_span(by['most'])} at worst"
    for verdict, words in (
        ("doubled", "{:,} came more than once."),
        ("late", f"{{:,}} came late{late}, counted from when they could be delivered."),
        ("queued", "{:,} wait for clients that have not been back."),
        ("misrouted", "{:,} went to a client that had not subscribed."),
        ("undecidable", "{:,} cannot be judged: a recorder was not looking at the time."),
    ):
        if numbers[verdict]:
            said.append(words.format(numbers[verdict]))
    sheets = sheets_of("Lost: where", lost)
    for subject in ("receiver", "topic", "node"):
        if rows := _worst(engine, table, subject):
            sheets += sheets_of(f"Lost, doubled or late: by {subject}, the {WORST} worst", rows)
            names = ", ".join(str(row[subject]) for row in rows[:3])
            said.append(f"Worst {subject}{'s' if len(rows) > 1 else ''}: {names}.")
    wrong = [verdict for verdict in VERDICTS if verdict != "delivered"]
    kinds = _bars("Deliveries that were not simply made", "deliveries", {v: numbers[v] for v in wrong})
    return Findings({"owed": owed, **numbers}, tuple(said), (kinds, *_over_time(engine, table)), sheets)


def _worst(engine: Engine, table: str, subject: str) -> tuple[Row, ...]:
    """Return the worst-hit subjects, the most lost first; lateness counts from when delivery was possible."""
    kinds = ", ".join(
        f"count(CASE WHEN verdict = '{kind}' THEN 1 END) AS {kind}" for kind in ("lost", "doubled", "late")
    )
    return rows_of(
        engine,
        f"SELECT {subject}, {kinds}, max(CASE WHEN verdict = 'late' THEN late_by_us END) AS late_by_us "
        f"FROM {table} WHERE verdict IN ('lost', 'doubled', 'late') AND {subject} IS NOT NULL "
        f"GROUP BY {subject} ORDER BY lost DESC, doubled DESC, late DESC, {subject}",
    )


_STEPS = (1, 10, 60, 600, 3600, 6 * 3600, 86_400)
"""Seconds that a chart over time may take together."""


def _over_time(engine: Engine, table: str) -> tuple[Chart, ...]:
    """Chart what went wrong when; nothing, where nothing did."""
    bad = f"{table} WHERE verdict IN ('lost', 'doubled', 'late') AND published_at IS NOT NULL"
    (span,) = engine.rows(f"SELECT min(published_at) AS first, max(published_at) AS last FROM {bad}")
    first, last = span["first"], span["last"]
    if first is None:
        return ()
    seconds = (last - first) // 1_000_000
    step = next((s for s in _STEPS if seconds // s < 200), _STEPS[-1])
    slot = f"CAST(floor(published_at / {step * 1_000_000}) AS BIGINT)"
    rows = engine.rows(f"SELECT {slot} AS slot, verdict, count(*) AS n FROM {bad} GROUP BY 1, 2")
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


def _summarize_latency(engine: Engine, tables: Tables) -> Findings:
    table = tables["percentiles"]
    # A mean of percentiles is no percentile: over hours the worst hour speaks.
    hops = rows_of(
        engine,
        "SELECT hop, CAST(sum(messages) AS BIGINT) AS messages, max(p50_us) AS p50_us, "
        f"max(p99_us) AS p99_us, CAST(sum(negative) AS BIGINT) AS negative FROM {table} "
        "GROUP BY hop ORDER BY hop",
    )
    said = [
        f"{row['hop']}: {row['messages']:,} messages; in the worst hour and pair "
        f"p50 {row['p50_us'] / 1000:,.1f} ms, p99 {row['p99_us'] / 1000:,.1f} ms."
        for row in hops
    ]
    negative = sum(row["negative"] for row in hops)
    if negative:
        said.append(f"{negative:,} delays are below zero: the nodes' clocks disagree.")
    hours = rows_of(
        engine,
        f"SELECT hour, max(p50_us) AS p50, max(p99_us) AS p99 FROM {table} WHERE hop = 'deliver' "
        "GROUP BY hour ORDER BY hour",
        limit=500,
    )
    chart = Chart(
        "lines",
        "From publish to delivery, worst prefix and pair of each hour",
        "ms",
        tuple(f"{row['hour']:%d %H:00}" for row in hours),
        {key: tuple(row[key] / 1000 for row in hours) for key in ("p50", "p99")},
    )
    worst = rows_of(
        engine, f"SELECT * FROM {table} ORDER BY p99_us DESC, hop, prefix, from_node, to_node, hour"
    )
    sheets = sheets_of("The slowest hops, by p99", worst)
    return Findings({"negative": negative}, tuple(said or ["No message was timed."]), (chart,), sheets)


def _summarize_routes(engine: Engine, tables: Tables) -> Findings:
    table = tables["faults"]
    counted = counts_of(engine, table, "fault", "sum(messages)")
    numbers = {fault: counted.get(fault, 0) for fault in ("missing", "unneeded", "stale")}
    words = {
        "missing": "{:,} messages were not forwarded to a node that had a subscriber.",
        "unneeded": "{:,} were forwarded to a node that had none.",
        "stale": "{:,} were forwarded by a route that was no longer true.",
    }
    said = [words[k].format(n) for k, n in numbers.items() if n] or ["Every forward was right."]
    if counted.get("undecidable"):
        said.append(f"{counted['undecidable']:,} seem wrong, but a recorder was not looking at the time.")
    rows = rows_of(engine, f"SELECT * FROM {table} ORDER BY messages DESC, topic, fault, node, peer")
    return Findings(numbers, tuple(said), sheets=sheets_of("Wrong forwards", rows))


def _summarize_partitions(engine: Engine, tables: Tables) -> Findings:
    rows = rows_of(engine, f"SELECT * FROM {tables['costs']} ORDER BY split, side", limit=100)
    if not rows:
        return Findings({"splits": 0}, ("No split.",))
    # Each side of a split has a row about it.
    splits = {row["split"]: row for row in rows}
    lost = sum(row["lost"] for row in rows)
    said = []
    for number, row in list(splits.items())[:10]:
        end = "" if row["met"] else ", and have not met again"
        end = end or ("" if row["healed"] else "; it was not healed")
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
    sheets = sheets_of("Each side of each split", rows[:WORST])
    return Findings({"splits": len(splits), "lost_in_splits": lost}, tuple(said), sheets=sheets)


def _summarize_hotspots(engine: Engine, tables: Tables) -> Findings:
    said, charts = [], []
    for name in ("topics", "publishers", "subscribers", "filters", "pairs"):
        top = rows_of(engine, f"SELECT * FROM {tables[name]} ORDER BY messages DESC, subject", limit=10)
        if top:
            said.append(
                f"{name}: {top[0]['subject']} leads {top[0]['subjects']:,} with {top[0]['share']:.1%} "
                f"of all, {top[0]['skew']:,.1f} times the average."
            )
            bars = {str(row["subject"]): row["messages"] for row in top}
            charts.append(_bars(f"Most messages: {name}", "messages", bars))
    wide = rows_of(engine, f"SELECT * FROM {tables['fanout']} ORDER BY deliveries DESC, topic")
    sheets = sheets_of("How many deliveries a message became, by topic", wide)
    return Findings({}, tuple(said or ["Nothing was published."]), tuple(charts), sheets)


def _summarize_sessions(engine: Engine, tables: Tables) -> Findings:
    table = tables["clients"]
    (sums,) = engine.rows(
        "SELECT count(CASE WHEN flapping THEN 1 END) AS flapping, sum(takeovers) AS takeovers, "
        "sum(dropped) AS dropped, sum(overflows) AS overflows, "
        f"count(CASE WHEN overflows > 0 THEN 1 END) AS overflown FROM {table}"
    )
    numbers = {key: int(sums[key] or 0) for key in ("flapping", "takeovers", "dropped", "overflows")}
    others = numbers["dropped"] - numbers["overflows"]
    said = (
        f"{numbers['flapping']:,} clients flap; sessions moved {numbers['takeovers']:,} times.",
        (
            f"{numbers['overflows']:,} messages were dropped for full queues of "
            f"{sums['overflown'] or 0:,} clients, {others:,} for other reasons."
        ),
    )
    rows = rows_of(engine, f"SELECT * FROM {table} ORDER BY worst_hour DESC, dropped DESC, client")
    return Findings(numbers, said, sheets=sheets_of("Clients that flap, move or lose", rows))


def _summarize_anomalies(engine: Engine, tables: Tables) -> Findings:
    table = tables["windows"]
    rows = rows_of(
        engine, f"SELECT * FROM {table} ORDER BY abs(deviations) DESC, subject, kind, window_start"
    )
    count = engine.rows(f"SELECT count(*) AS n FROM {table}")[0]["n"]
    said = [f"{count:,} windows in which a topic or publisher left its usual rate."] if count else []
    said += [
        f"{row['kind']} {row['subject']}: {row['messages']:,} messages at "
        f"{row['window_start']:%Y-%m-%d %H:%M}, usually {row['usual']:,.0f}."
        for row in rows[:5]
    ]
    sheets = sheets_of("Windows of a minute that left the usual rate", rows)
    return Findings({"anomalies": count}, tuple(said or ["Nothing left its usual rate."]), sheets=sheets)


JOBS = {
    job.name: job
    for job in (
        Job(
            "completeness",
            "Was every message delivered to everyone it was for, once and in time?",
            lambda recording, terms, _: {"verdicts": verdicts(recording, terms)},
            _summarize_completeness,
        ),
        Job(
            "latency",
            "How long do messages take, and on which hop?",
            lambda recording, _terms, _: {"percentiles": traffic.latency(recording)},
            _summarize_latency,
        ),
        Job(
            "routes",
            "Were messages forwarded to the nodes that had subscribers, and to no others?",
            lambda recording, terms, _: {"faults": cluster.routes(recording, terms)},
            _summarize_routes,
        ),
        Job(
            "partitions",
            "What did each split cost?",
            lambda recording, _terms, tables: {
                "costs": cluster.partitions(recording, tables["completeness/verdicts"])
            },
            _summarize_partitions,
            needs=("completeness",),
        ),
        Job(
            "hotspots",
            "Who and what makes the most traffic?",
            lambda recording, _terms, _: traffic.hotspots(recording),
            _summarize_hotspots,
        ),
        Job(
            "sessions",
            "Which clients move, flap or lose what was queued for them?",
            lambda recording, _terms, _: {"clients": cluster.sessions(recording)},
            _summarize_sessions,
        ),
        Job(
            "queues",
            "Was every job of a queue done, and none twice without being given again?",
            lambda recording, terms, _: {"jobs": jobs(recording, terms)},
            summarize_queues,
        ),
        Job(
            "anomalies",
            "Which topics and publishers left their usual rate, and when?",
            lambda recording, _terms, _: {"windows": traffic.anomalies(recording)},
            _summarize_anomalies,
        ),
    )
}


def _span(micros: float) -> str:
    return f"{micros / 1e6:,.1f} s" if micros >= 1e6 else f"{micros / 1e3:,.1f} ms"
