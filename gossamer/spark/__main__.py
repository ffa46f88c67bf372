"""``python -m gossamer.spark run|stream``, and the program for ``spark-submit``.

Exit codes are those of the ``gossamer`` command, and 8: a promise named by ``--fail-on`` is broken.

Rule: a user's mistake, or something missing, is reported as one sentence that says what to do, never a trace.
Checks that do not need Spark come first, since it takes seconds to start.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
import traceback
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Annotated, NoReturn

import typer

from gossamer.errors import GossamerError, UsageError, WrongValueError
from gossamer.options import OptionGroup, duration
from gossamer.spark.analyses import VERDICTS, Terms
from gossamer.spark.engine import AUTO, engine_for, open_engine
from gossamer.spark.engine.session import check_files, is_little, open_session
from gossamer.spark.errors import SparkFailedError
from gossamer.spark.jobs import JOBS, PROMISES
from gossamer.spark.report.report import missing_in_words, render, verdict_in_words
from gossamer.spark.run import Outcome, broken_promises, run_jobs, step
from gossamer.spark.source.source import load
from gossamer.spark.stream import Auditor, Batch, start

BROKEN = 8
_USAGE, _UNAVAILABLE = 2, 6
REPORT = "report"
_AGO_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

app = typer.Typer(
    cls=OptionGroup,
    add_completion=False,
    help="Ask where every message went (DuckDB or Spark).",
    no_args_is_help=True,
)

_JOBS_HELP = f"Jobs to run ({', '.join(JOBS)}), or report: all of them and one HTML page."

Directory = Annotated[str, typer.Option("--dir", help="Where the recorders write; any path Spark reads.")]
Master = Annotated[
    str | None,
    typer.Option(
        help="Spark master, such as spark://host:7077, or local[2] for two cores; default: local[*]."
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(help="What DuckDB, or a local Spark, may take, such as 4g; default: by what is free."),
]
Settle = Annotated[
    float,
    typer.Option(help="Time around a change in which nothing is owed.", parser=duration, metavar="DURATION"),
]
LateAfter = Annotated[
    float,
    typer.Option(help="Time after which a delivery is late.", parser=duration, metavar="DURATION"),
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", help="A setting of Spark's, KEY=VALUE; may be given again.")
]
Trace = Annotated[bool, typer.Option("--trace", help="Show where in the code an error came up.")]


@app.command()
def run(
    jobs: Annotated[list[str], typer.Argument(help=_JOBS_HELP, metavar="JOB...")],
    directory: Directory = "audit",
    out: Annotated[str, typer.Option(help="Where tables, summaries and the report go.")] = "audit-report",
    begin: Annotated[
        str | None, typer.Option("--from", help="From when (UTC): 2026-01-31T07:00, 6h ago, yesterday.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="Until when, excluded; default: the end.")] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="duckdb, spark, or auto: DuckDB, where it is installed, for up to 256 MiB of files here."
        ),
    ] = AUTO,
    master: Master = None,
    memory: Memory = None,
    conf: Conf = None,
    fail_on: Annotated[str, typer.Option(help=f"Promises, by comma: {', '.join(PROMISES)}.")] = "",
    settle: Settle = 1.0,
    late_after: LateAfter = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not show progress.")] = False,
    trace: Trace = False,
) -> None:
    """Audit what the nodes recorded: every job, a table; report, one page of all."""
    promises = _names("--fail-on", fail_on, PROMISES)
    wanted = list(JOBS) if REPORT in jobs else jobs
    if unknown := [name for name in wanted if name not in JOBS]:
        raise WrongValueError(f"no job {unknown[0]!r}; expected {REPORT} or any of {', '.join(JOBS)}")
    low, high = span_of(begin, end, now=datetime.now(tz=UTC))
    settings = settings_of(conf or [])
    chosen = engine_for(engine, directory, writes=out, master=master, settings=settings)
    if chosen == "spark" and sys.stderr.isatty() and not quiet:
        # Spark's own bars, a line that it draws again.
        settings.setdefault("spark.ui.showConsoleProgress", "true")
    check_files(directory)
    with step(chosen, quiet=quiet):
        asked = open_engine(directory, engine=chosen, master=master, memory=memory, settings=settings)
    try:
        with step("recording", quiet=quiet):
            recording = load(asked, directory, begin=low, end=high)
        asked.fit(recording.size)
        terms = Terms.of_seconds(settle, late_after)
        outcome = run_jobs(recording, wanted, out=out, terms=terms, quiet=quiet)
        broken = broken_promises(outcome, promises)
        if REPORT in jobs:
            with step(REPORT, quiet=quiet):
                asked.write_text(f"{out.rstrip('/')}/report.html", render(outcome, broken))
    finally:
        asked.close()
    if as_json:
        typer.echo(json.dumps({**outcome.as_json(), "broken": broken}, indent=2, default=str))
    else:
        _say(outcome, broken)
        page = f"; the page is {out.rstrip('/')}/report.html" if REPORT in jobs else ""
        typer.echo(f"\nTables and summaries are in {out}{page}")
    if broken:
        raise typer.Exit(BROKEN)


@app.command()
def stream(
    directory: Directory = "audit",
    out: Annotated[str, typer.Option(help="Where verdicts and the numbers of batches go.")] = "audit-stream",
    checkpoint: Annotated[
        str | None, typer.Option(help="Where it remembers how far it is; default: checkpoint in --out.")
    ] = None,
    every: Annotated[
        float, typer.Option(help="Time between batches.", parser=duration, metavar="DURATION")
    ] = 30.0,
    once: Annotated[bool, typer.Option("--once", help="Judge what is there, and end.")] = False,
    patience: Annotated[
        float,
        typer.Option(help="How long a node without news is waited for.", parser=duration, metavar="DURATION"),
    ] = 600.0,
    api: Annotated[
        str | None, typer.Option(help="API of a node to raise alarms at, such as http://127.0.0.1:8091.")
    ] = None,
    alarm_on: Annotated[str, typer.Option(help="Verdicts to raise alarms for.")] = "lost,doubled,misrouted",
    master: Master = None,
    memory: Memory = None,
    conf: Conf = None,
    settle: Settle = 1.0,
    late_after: LateAfter = 5.0,
    trace: Trace = False,
) -> None:
    """Audit as it happens: judge what recorders finish, go on where it stopped, raise alarms."""
    kinds = _names("--alarm-on", alarm_on, VERDICTS)
    check_files(directory, yet=not once)
    # One that goes on for days becomes fast; one that looks once at little is done before.
    brief = once and is_little(directory)
    session = open_session(master=master, memory=memory, brief=brief, settings=settings_of(conf or []))
    auditor = Auditor(
        out=out.rstrip("/"),
        checkpoint=(checkpoint or f"{out.rstrip('/')}/checkpoint").rstrip("/"),
        terms=Terms.of_seconds(settle, late_after),
        patience=int(patience * 1e6),
        api=api,
        alarm_on=kinds,
        on_batch=_say_batch,
    )
    try:
        query = start(session, directory, auditor, every=None if once else every)
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            query.stop()
    finally:
        session.stop()


def _say_batch(batch: Batch) -> None:
    typer.echo(batch.in_words)
    for problem in batch.problems:
        typer.echo(f"{problem.kind}: {problem.path}: {problem.message}", err=True)
    for line in (*batch.holes, *batch.unsent):
        typer.echo(line, err=True)


def _names(option: str, text: str, known: Collection[str]) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise WrongValueError(f"{option}: got {name!r}; expected any of {', '.join(known)}")
    return names


def settings_of(given: list[str]) -> dict[str, str]:
    """Parse ``--conf``.

    Raises:
        WrongValueError: one has no value.
    """
    settings = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise WrongValueError(f"--conf: got {text!r}, expected KEY=VALUE as spark-submit takes it")
        settings[key.strip()] = value
    return settings


def moment_of(text: str, *, option: str, now: datetime) -> datetime:
    """The moment that ``text`` names.

    Raises:
        WrongValueError: it names none.
    """
    wanted = text.strip().lower()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    named = {"now": now, "today": midnight, "yesterday": midnight - timedelta(days=1)}
    if wanted in named:
        return named[wanted]
    ago = re.fullmatch(r"(\d+)\s*([smhdw])(\s+ago)?", wanted)
    if ago:
        return now - timedelta(**{_AGO_UNITS[ago.group(2)]: int(ago.group(1))})
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise WrongValueError(
            f"{option}: got {text!r}, expected a time such as 2026-01-31T07:00 or 2026-01-31 (UTC where no "
            "zone is given), how long ago, such as 90m, 6h or 2d, or one of now, today, yesterday"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def span_of(begin: str | None, end: str | None, *, now: datetime) -> tuple[datetime | None, datetime | None]:
    """[begin, end) of what ``--from`` and ``--to`` say; None where they say nothing.

    Raises:
        WrongValueError: one cannot be read, or the end is not after the beginning.
    """
    low = moment_of(begin, option="--from", now=now) if begin is not None else None
    high = moment_of(end, option="--to", now=now) if end is not None else None
    if low is not None and high is not None and low >= high:
        raise WrongValueError(
            f"--from {low:%Y-%m-%dT%H:%M:%S%z} is not before --to {high:%Y-%m-%dT%H:%M:%S%z}; turn them round"
        )
    return low, high


def _say(outcome: Outcome, broken: dict[str, int | float]) -> None:
    # A pipe gets a sentence a line; a terminal would break them in the middle of a word.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    for sentence in (*missing_in_words(outcome), verdict_in_words(outcome, broken)):
        typer.echo(textwrap.fill(sentence, width))
    for name, findings in outcome.findings.items():
        typer.echo(f"\n{name}")
        for sentence in findings.sentences:
            typer.echo(textwrap.fill(sentence, width, initial_indent="  ", subsequent_indent="    "))
    for problem in outcome.recording.problems:
        typer.echo(f"{problem.kind}: {problem.path}: {problem.message}", err=True)
    for hole in outcome.recording.holes:
        typer.echo(f"not judged: {hole.node}: {hole.in_words}", err=True)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run, and exit with a code; without a trace for a user's mistake."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        app(given, standalone_mode=True, prog_name="gossamer audit")
    except GossamerError as error:
        _end(error)
    except Exception as error:
        complaint = _of_spark(error)
        if complaint is None:
            raise
        if "--trace" in given:
            traceback.print_exc()
        _end(complaint)
    sys.exit(0)


def _end(error: GossamerError) -> NoReturn:
    typer.echo(f"error: {error}", err=True)
    sys.exit(_USAGE if isinstance(error, UsageError) else _UNAVAILABLE)


def _of_spark(error: Exception) -> SparkFailedError | None:
    """Return the complaint of Spark, or of Java below it, in one line; None: it is not theirs."""
    module = type(error).__module__
    if not module.startswith(("pyspark", "py4j")):
        return None
    cause: object = getattr(error, "java_exception", None)
    text = str(cause) if cause is not None else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    why = lines[0] if lines else type(error).__name__
    return SparkFailedError(why=why[:300].rstrip("."))


if __name__ == "__main__":
    main()
