"""The audit as it happens: Structured Streaming over the recorder's directory, judged by the jobs' own code.

What streams is the *list* of files: Spark finds those that are new, keeps in its checkpoint which have been
taken, and hands them over in batches. A batch is judged like a run over that span, by ``verdicts``, so that
there is no second logic to be wrong; what is carried from one to the next is which files there are and how
far was judged (``watch``), and the subscriptions and connections that stood (``histories.standing``).

::

    OUT/verdicts/batch=7/*.parquet       what was judged in it
    OUT/batches/7.json                   its numbers
    CHECKPOINT/known/7.json, sessions/5  what the next one needs

Rules: 1. A batch reads only what the one before left, and replaces what it wrote before itself: one that is
done again after a crash writes the same once more, and nothing twice.  2. A message is judged once, when the
watermark has passed the time until which it may arrive.  3. Alarms are raised by the findings of a batch, and
cleared by the next one without any. Judging goes on while the cluster takes no alarms: those that could not
be sent are reported to the caller, and sent again after the next batch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gossamer.spark.analyses import VERDICTS, Terms
from gossamer.spark.analyses.completeness import verdicts
from gossamer.spark.analyses.histories import of_sessions, standing
from gossamer.spark.engine.on_spark import SparkEngine
from gossamer.spark.errors import NoDataError
from gossamer.spark.source.files import FileProblem, Footer, judge_file, text_of
from gossamer.spark.source.holes import Hole
from gossamer.spark.source.source import MARGIN, read, recording_of, spoken_of
from gossamer.spark.watch import Known

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_FILES = "path string, modificationTime timestamp, length bigint, content binary"
_KEPT = 3
"""Batches whose state is kept: Spark may do the last one again."""
_ALARM_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Batch:
    """Findings of one batch."""

    number: int
    begin: int
    end: int
    numbers: dict[str, int]
    late: int = 0
    """Events that came after their time had been judged."""
    problems: tuple[FileProblem, ...] = ()
    holes: tuple[str, ...] = ()
    unsent: tuple[str, ...] = ()
    """Alarms that could not be sent to the cluster, and why."""

    @property
    def in_words(self) -> str:
        if self.begin == self.end:
            return f"batch {self.number}: nothing to judge yet"
        found = ", ".join(f"{number:,} {verdict}" for verdict, number in self.numbers.items() if number)
        span = f"{text_of(self.begin)} to {text_of(self.end)}"
        late = f"; {self.late:,} events came too late to be judged" if self.late else ""
        return f"batch {self.number}: {span}: {found or 'nothing was owed'}{late}"


@dataclass(slots=True)
class Auditor:
    """Judges batches of files; ``on_batch`` is called with each."""

    out: str
    checkpoint: str
    terms: Terms = field(default_factory=Terms)
    patience: int = 600_000_000
    """Microseconds to wait for a node without new files."""
    api: str | None = None
    alarm_on: Sequence[str] = ("lost", "doubled", "misrouted")
    on_batch: Callable[[Batch], None] | None = None

    def take(self, files: DataFrame, number: int) -> None:
        """For ``foreachBatch``."""
        engine = SparkEngine(files.sparkSession)
        known = self._known(engine, number - 1)
        seen = {footer.path for footer in known.footers if footer.path}
        paths = [row.path for row in files.select("path").distinct().collect()]
        judged = [judge_file(engine, path) for path in sorted(paths) if path not in seen]
        fresh = [item for item in judged if isinstance(item, Footer)]
        problems = tuple(item for item in judged if isinstance(item, FileProblem))
        late = self._late(engine, fresh, known.judged_until)
        known = known.with_files(fresh, problems)
        if fresh:
            named = spoken_of(engine, read(engine, fresh))
            known = replace(known, named=tuple(sorted({*known.named, *named})))
        reported_until, silent = known.watermark(patience=self.patience)
        end = reported_until - self.terms.late_after - self.terms.settle
        begin = known.judged_until or min((footer.begin for footer in known.footers), default=0)
        if end <= begin or not any(footer.path for footer in known.footers):
            batch = Batch(number, begin, begin, {}, late, problems)
        else:
            batch, known = self._judge(engine, number, known, begin, end, reported_until, silent)
            batch = replace(batch, late=late, problems=(*problems, *batch.problems))
        known, unsent = self._alarms(known, batch)
        self._keep(engine, number, known)
        batch = replace(batch, unsent=unsent)
        engine.write_text(f"{self.out}/batches/{number}.json", _as_json(batch))
        engine.forget()
        if self.on_batch is not None:
            self.on_batch(batch)

    def _judge(
        self,
        engine: SparkEngine,
        number: int,
        known: Known,
        begin: int,
        end: int,
        reported_until: int,
        silent: Sequence[Hole],
    ) -> tuple[Batch, Known]:
        sessions = None
        if known.compacted_until:
            kept = engine.saved(f"{self.checkpoint}/sessions/{known.sessions_at}")
            sessions = (kept, known.compacted_until)
        try:
            recording = recording_of(
                engine,
                [*known.footers, *known.problems],
                where="the stream",
                begin=begin,
                end=end,
                sessions=sessions,
            )
        except NoDataError:
            # A span in which no node wrote a file: nothing was published.
            return Batch(number, begin, end, {}), replace(known, judged_until=end)
        engine.fit(recording.size)
        holes = (*recording.holes, *(hole for hole in silent if hole.end > begin))
        # The recording ends where the slowest node has reported to, however far the others have.
        recording = replace(recording, holes=holes, last=reported_until)
        table = engine.save(verdicts(recording, self.terms), f"{self.out}/verdicts/batch={number}")
        rows = engine.rows(f"SELECT verdict, count(*) AS n FROM {table} GROUP BY verdict")
        counted = {row["verdict"]: row["n"] for row in rows}
        until = begin - MARGIN
        if until > known.compacted_until:
            few = of_sessions(recording, until=until)
            engine.save(standing(few), f"{self.checkpoint}/sessions/{number}")
            known = replace(known.folded(until), compacted_until=until, sessions_at=number)
        batch = Batch(
            number,
            begin,
            end,
            {verdict: counted.get(verdict, 0) for verdict in VERDICTS},
            problems=tuple(p for p in recording.problems if not p.is_loss),
            holes=tuple(f"{hole.node}: {hole.in_words}" for hole in holes),
        )
        return batch, replace(known, judged_until=end)

    def _late(self, engine: SparkEngine, fresh: Sequence[Footer], judged_until: int) -> int:
        files = [footer for footer in fresh if footer.begin < judged_until]
        if not files:
            return 0
        events = read(engine, files)
        return int(engine.rows(f"SELECT count(*) AS n FROM {events} WHERE t < {judged_until}")[0]["n"])

    def _alarms(self, known: Known, batch: Batch) -> tuple[Known, tuple[str, ...]]:
        """Raise alarms for the batch's findings and clear others; those not sent stay as they were. Return
        the new state, and why alarms were not sent."""
        if self.api is None or batch.begin == batch.end:
            return known, ()
        raised, unsent = set(known.alarms), []
        wanted = {verdict: batch.numbers.get(verdict, 0) for verdict in self.alarm_on}
        for verdict, count in wanted.items():
            name = f"audit_{verdict}"
            if count:
                text = f"the audit found {count:,} deliveries {verdict} from {text_of(batch.begin)} on"
                why = post_alarm(self.api, name, active=True, text=text)
                raised.add(name)
            elif name in raised:
                why = post_alarm(self.api, name, active=False)
                if why is None:
                    raised.discard(name)
            else:
                continue
            if why is not None:
                unsent.append(why)
        return replace(known, alarms=tuple(sorted(raised))), tuple(unsent)

    def _known(self, engine: SparkEngine, number: int) -> Known:
        text = engine.read_text(f"{self.checkpoint}/known/{number}.json") if number >= 0 else None
        return msgspec.json.decode(text, type=Known) if text is not None else Known()

    def _keep(self, engine: SparkEngine, number: int, known: Known) -> None:
        engine.write_text(f"{self.checkpoint}/known/{number}.json", msgspec.json.encode(known).decode())
        past = number - _KEPT
        # The batch before may have to be done again, and reads what it read.
        needed = {known.sessions_at, *(self._known(engine, n).sessions_at for n in range(past + 1, number))}
        names = [f"known/{past}.json"]
        sessions_at = self._known(engine, past).sessions_at
        if sessions_at >= 0 and sessions_at not in needed:
            names.append(f"sessions/{sessions_at}")
        for name in names:
            engine.remove(f"{self.checkpoint}/{name}")


def start(
    session: SparkSession, where: str, auditor: Auditor, *, every: float | None, at_once: int = 500
) -> StreamingQuery:
    """Return a query that judges the recording in ``where``, every so many seconds; None: once."""
    files = (
        session.readStream.format("binaryFile")
        .schema(_FILES)
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", "*.parquet")
        .option("maxFilesPerTrigger", at_once)
        .load(where)
        .select("path")
    )
    trigger = {"availableNow": True} if every is None else {"processingTime": f"{every} seconds"}
    return (
        files.writeStream.foreachBatch(auditor.take)
        .option("checkpointLocation", f"{auditor.checkpoint}/spark")
        .trigger(**trigger)
        .start()
    )


def _as_json(batch: Batch) -> str:
    return json.dumps(
        {
            "batch": batch.number,
            "from": text_of(batch.begin),
            "to": text_of(batch.end),
            "numbers": batch.numbers,
            "late_events": batch.late,
            "problems": msgspec.to_builtins(batch.problems),
            "holes": list(batch.holes),
            "unsent_alarms": list(batch.unsent),
        },
        indent=2,
    )


def post_alarm(api: str, name: str, *, active: bool, text: str = "") -> str | None:
    """Raise or clear an alarm at the node whose API is at ``api``; None, or why it did not work.

    The token, where the cluster wants one, is that of the ``gossamer`` command: ``GOSSAMER_TOKEN``, or a file
    that ``GOSSAMER_TOKEN_FILE`` names.
    """
    # Here, so that a job that raises no alarm does not load it.
    import httpx

    body = {"name": name, "active": active, "text": text[:2000]}
    try:
        answer = httpx.post(
            f"{api.rstrip('/')}/api/v1/alarms", json=body, headers=_token(), timeout=_ALARM_TIMEOUT
        )
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return f"the alarm {name} could not be sent to {api}: {error}"
    if answer.is_success:
        return None
    return f"{api} refused the alarm {name}: {answer.status_code} {answer.text[:300]}"


def _token() -> dict[str, str]:
    token = os.environ.get("GOSSAMER_TOKEN", "").strip()
    path = os.environ.get("GOSSAMER_TOKEN_FILE", "")
    if not token and path:
        token = Path(path).read_text(encoding="ascii").strip()
    return {"authorization": f"Bearer {token}"} if token else {}
