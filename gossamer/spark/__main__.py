"""``python -m gossamer.spark``, and the program that ``spark-submit`` is given.

Exit codes are those of the ``gossamer`` command, and 8: a promise named by ``--fail-on`` is broken.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated, NoReturn

import typer

from gossamer.errors import GossamerError, UsageError
from gossamer.spark.completeness import Terms
from gossamer.spark.jobs import JOBS, PROMISES
from gossamer.spark.report import render, verdict_in_words
from gossamer.spark.run import broken_promises, run_jobs, write_text
from gossamer.spark.session import open_session
from gossamer.spark.source import load

__all__ = ["main"]

BROKEN = 8
_REFUSED, _UNAVAILABLE = 5, 6

_JOBS_HELP = f"Jobs to run ({', '.join(JOBS)}), or report: all of them and one HTML page."


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    ago = {"m": "minutes", "h": "hours", "d": "days"}.get(text[-1:])
    if ago and text[:-1].isdigit():
        return datetime.now(tz=UTC) - timedelta(**{ago: int(text[:-1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"got {text!r}; expected a time such as 2026-01-31T07:00, or how long ago: 90m, 6h, 2d"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _show(name: str, done: int, known: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{name}: {done} of {known} tasks\x1b[K")
        sys.stderr.flush()


def run(
    jobs: Annotated[list[str], typer.Argument(help=_JOBS_HELP, metavar="JOB...")],
    directory: Annotated[
        str, typer.Option("--dir", help="Where the recorders write; any path Spark reads.")
    ] = "audit",
    out: Annotated[str, typer.Option(help="Where tables, summaries and the report go.")] = "audit-report",
    begin: Annotated[str | None, typer.Option("--from", help="From when (UTC), or how long ago: 6h.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Until when, excluded.")] = None,
    master: Annotated[str | None, typer.Option(help="Spark master; default: local[*].")] = None,
    memory: Annotated[str, typer.Option(help="Heap of a local Spark.")] = "2g",
    fail_on: Annotated[str, typer.Option(help=f"Promises, by comma: {', '.join(PROMISES)}.")] = "",
    settle: Annotated[float, typer.Option(help="Seconds around a change in which nothing is owed.")] = 1.0,
    late_after: Annotated[float, typer.Option(help="Seconds after which a delivery is late.")] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Audit what the nodes recorded."""
    promises = [name for name in fail_on.split(",") if name]
    for name in promises:
        if name not in PROMISES:
            raise typer.BadParameter(f"--fail-on: got {name!r}; expected any of {', '.join(PROMISES)}")
    wanted = list(JOBS) if "report" in jobs else jobs
    for name in wanted:
        if name not in JOBS:
            raise typer.BadParameter(f"no job {name!r}; expected report or any of {', '.join(JOBS)}")
    low, high = _moment(begin), _moment(end)
    session = open_session(master=master, memory=memory)
    try:
        recording = load(session, directory, begin=low, end=high)
        terms = Terms(settle=int(settle * 1e6), late_after=int(late_after * 1e6))
        outcome = run_jobs(session, recording, wanted, out=out, terms=terms, progress=_show)
        broken = broken_promises(outcome, promises)
        if "report" in jobs:
            write_text(session, f"{out.rstrip('/')}/report.html", render(outcome, broken))
    finally:
        session.stop()
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if as_json:
        typer.echo(json.dumps({**outcome.as_json(), "broken": broken}, indent=2))
    else:
        typer.echo(verdict_in_words(outcome, broken))
        for name, told in outcome.told.items():
            typer.echo(f"\n{name}")
            for sentence in told.sentences:
                typer.echo(f"  {sentence}")
        for problem in outcome.problems:
            typer.echo(f"\n{problem.kind}: {problem.path}: {problem.message}", err=True)
        typer.echo(
            f"\nTables and summaries are in {out}" + (", the page is report.html" * ("report" in jobs))
        )
    if broken:
        raise typer.Exit(BROKEN)


def main() -> NoReturn:
    """Run, and end with an exit code; no trace for what is somebody's mistake."""
    try:
        typer.run(run)
    except GossamerError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(_REFUSED if isinstance(error, UsageError) else _UNAVAILABLE)
    sys.exit(0)


if __name__ == "__main__":
    main()
