"""Findings of the job ``queues``: what became of jobs, by queue and consumer group, and which went wrong."""

from __future__ import annotations

from gossamer.spark.analyses import DOUBLED, LOST, UNDECIDABLE
from gossamer.spark.analyses.queues import DEAD, DISCARDED, DONE, UNSETTLED, VERDICTS_ON_JOBS, WAITING
from gossamer.spark.engine.engine import Engine
from gossamer.spark.findings import Findings, Sheet, Tables, counts_of, rows_of, sheets_of

_WRONG = {LOST: "lost_jobs", DOUBLED: "doubled_jobs", UNDECIDABLE: "undecidable_jobs"}
_WORDS = {
    DEAD: "{:,} became dead letters.",
    DISCARDED: "{:,} left their queue unsettled: by a limit, their age, or because somebody said so.",
    UNSETTLED: "{:,} were given, and nobody has said what became of them.",
    WAITING: "{:,} waited when the recording ended.",
    DOUBLED: "{:,} were done twice, or given again after they were done.",
    LOST: "{:,} were lost: those behind them were given.",
    UNDECIDABLE: "{:,} cannot be judged: a recorder was not looking, or no quorum has answered.",
}


def summarize_queues(engine: Engine, tables: Tables) -> Findings:
    """Return what became of jobs; a job is a message for one consumer group."""
    table = tables["jobs"]
    found = counts_of(engine, table, "verdict")
    (sums,) = engine.rows(
        f"SELECT CAST(coalesce(sum({_AGAIN}), 0) AS BIGINT) AS redelivered, "
        f"CAST(coalesce(sum(too_late), 0) AS BIGINT) AS too_late FROM {table}"
    )
    numbers = {_WRONG.get(name, name): found.get(name, 0) for name in VERDICTS_ON_JOBS}
    numbers = {"jobs": sum(numbers.values()), **numbers, **sums}
    if not numbers["jobs"]:
        return Findings(numbers, ("No queue was used.",))
    said = [f"{numbers['jobs']:,} jobs; {numbers[DONE]:,} were done once."]
    if not (numbers["lost_jobs"] or numbers["doubled_jobs"]):
        said.append("None was lost, and none was done twice.")
    said += [words.format(found[name]) for name, words in _WORDS.items() if found.get(name)]
    if numbers["redelivered"]:
        said.append(f"{numbers['redelivered']:,} times one was given again.")
    if numbers["too_late"]:
        said.append(f"{numbers['too_late']:,} times a consumer settled one that was another's by then.")
    return Findings(numbers, tuple(said), sheets=(*_by_group(engine, table), *_wrong(engine, table)))


_AGAIN = "CASE WHEN attempts > 1 THEN attempts - 1 ELSE 0 END"


def _by_group(engine: Engine, table: str) -> tuple[Sheet, ...]:
    kinds = ", ".join(
        f"count(CASE WHEN verdict = '{kind}' THEN 1 END) AS {kind}" for kind in VERDICTS_ON_JOBS
    )
    rows = rows_of(
        engine,
        f"SELECT queue, consumer_group, count(*) AS jobs, {kinds}, "
        f"CAST(sum({_AGAIN}) AS BIGINT) AS redelivered "
        f"FROM {table} GROUP BY queue, consumer_group "
        "ORDER BY lost DESC, doubled DESC, jobs DESC, queue, consumer_group",
    )
    return sheets_of("Jobs by queue and consumer group", rows)


def _wrong(engine: Engine, table: str) -> tuple[Sheet, ...]:
    rows = rows_of(
        engine,
        "SELECT queue, consumer_group, queue_offset, verdict, publisher, client, node, given, attempts, "
        f"timestamp_micros(appended_at) AS appended FROM {table} "
        f"WHERE verdict IN ('{LOST}', '{DOUBLED}') "
        "ORDER BY queue, consumer_group, queue_offset",
    )
    return sheets_of("Jobs that were lost or done twice", rows)
