"""Run jobs over a recording: tables as Parquet, a summary as JSON, and a line of progress a job.

::

    OUT/completeness/verdicts/*.parquet
    OUT/completeness/summary.json
    OUT/report.html

Rules: 1. A job's output replaces that of its last run.  2. Paths are the engine's, for input and output.
3. A summary has what could not be judged, and why, beside the findings.  4. Progress goes to standard
error, so that standard output is the answer alone.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from gossamer.spark.analyses import Terms
from gossamer.spark.findings import Findings
from gossamer.spark.jobs import JOBS
from gossamer.spark.source.source import Recording


@dataclass(frozen=True, slots=True)
class Outcome:
    """Findings of all jobs of a run."""

    recording: Recording
    findings: Mapping[str, Findings]

    @property
    def begin(self) -> datetime:
        """Start of the judged span."""
        return _moment(self.recording.begin)

    @property
    def end(self) -> datetime:
        """End of the judged span, excluded."""
        return _moment(self.recording.end)

    def as_json(self) -> dict[str, Any]:
        """Return the form for summaries."""
        recording = self.recording
        return {
            "from": self.begin.isoformat(),
            "to": self.end.isoformat(),
            "engine": recording.engine.name,
            "share": recording.share,
            "files": recording.files,
            "nodes": list(recording.nodes),
            "missing": {node: list(seers) for node, seers in recording.missing.items()},
            "holes": [
                {
                    "node": hole.node,
                    "from": _moment(hole.begin).isoformat(),
                    "to": _moment(hole.end).isoformat(),
                    "why": hole.why,
                }
                for hole in recording.holes
            ],
            "problems": msgspec.to_builtins(recording.problems),
            "jobs": {
                name: {
                    "numbers": dict(findings.numbers),
                    "says": list(findings.sentences),
                    "tables": {sheet.title: list(sheet.rows) for sheet in findings.sheets},
                }
                for name, findings in self.findings.items()
            },
        }


@contextmanager
def step(name: str, *, quiet: bool) -> Iterator[None]:
    """Print that a step begins, and how long it took."""
    began = time.monotonic()
    if not quiet:
        print(f"{name}: started", file=sys.stderr, flush=True)  # noqa: T201
    yield
    if not quiet:
        took = time.monotonic() - began
        print(f"{name}: done in {took:.1f} s", file=sys.stderr, flush=True)  # noqa: T201


def run_jobs(
    recording: Recording,
    names: Sequence[str],
    *,
    out: str,
    terms: Terms = Terms(),  # noqa: B008 - a frozen value
    quiet: bool = True,
) -> Outcome:
    """Run ``names`` and the jobs they need, each once, in an order that serves them."""
    engine = recording.engine
    order: list[str] = []
    for name in names:
        order += [job for job in (*JOBS[name].needs, name) if job not in order]
    written: dict[str, str] = {}
    findings: dict[str, Findings] = {}
    for name in order:
        job = JOBS[name]
        with step(name, quiet=quiet):
            tables = {}
            for table, question in job.make(recording, terms, written).items():
                path = f"{out.rstrip('/')}/{name}/{table}"
                tables[table] = written[f"{name}/{table}"] = engine.save(question, path)
            findings[name] = job.summarize(engine, tables)
        engine.clear()
    outcome = Outcome(recording, findings)
    summary = outcome.as_json()
    for name in order:
        own = {**summary, "jobs": {name: summary["jobs"][name]}}
        engine.write_text(f"{out.rstrip('/')}/{name}/summary.json", json.dumps(own, indent=2, default=str))
    return outcome


def broken_promises(outcome: Outcome, fail_on: Sequence[str]) -> dict[str, int | float]:
    """Return the promises of ``fail_on`` that were not kept, with their numbers."""
    found: dict[str, int | float] = {}
    for findings in outcome.findings.values():
        for name in fail_on:
            if findings.numbers.get(name):
                found[name] = findings.numbers[name]
    return found


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1_000_000, tz=UTC)
