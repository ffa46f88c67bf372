"""Run jobs over a recording: tables as Parquet, a summary as JSON, progress while it lasts.

::

    OUT/completeness/verdicts/*.parquet
    OUT/completeness/summary.json
    OUT/report.html

Rules: 1. What a job writes replaces what it wrote before.  2. Paths are Hadoop's, for input and output.  3.
A summary says what could not be judged and why, beside what was found.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gossamer.spark.completeness import Terms
from gossamer.spark.files import FileProblem
from gossamer.spark.holes import Hole
from gossamer.spark.jobs import JOBS, Told
from gossamer.spark.progress import Progress
from gossamer.spark.source import Recording

__all__ = ["Outcome", "broken_promises", "read_text", "run_jobs", "write_text"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What all jobs of a run found."""

    begin: datetime
    end: datetime
    files: int
    nodes: tuple[str, ...]
    holes: tuple[Hole, ...]
    problems: tuple[FileProblem, ...]
    told: Mapping[str, Told]
    share: float = 1.0
    """Of all messages, those that were recorded."""

    def as_json(self) -> dict[str, Any]:
        return {
            "from": self.begin.isoformat(),
            "to": self.end.isoformat(),
            "share": self.share,
            "files": self.files,
            "nodes": list(self.nodes),
            "holes": [
                {
                    "node": h.node,
                    "from": _moment(h.begin).isoformat(),
                    "to": _moment(h.end).isoformat(),
                    "why": h.why,
                }
                for h in self.holes
            ],
            "problems": [{"path": p.path, "kind": p.kind, "message": p.message} for p in self.problems],
            "jobs": {
                name: {"numbers": dict(told.numbers), "says": list(told.sentences)}
                for name, told in self.told.items()
            },
        }


def run_jobs(
    session: Any,
    recording: Recording,
    names: Sequence[str],
    *,
    out: str,
    terms: Terms = Terms(),  # noqa: B008 - a frozen value
    progress: Progress | None = None,
) -> Outcome:
    """Run ``names`` and the jobs they need, each once, in an order that serves them."""
    order: list[str] = []
    for name in names:
        order += [job for job in (*JOBS[name].needs, name) if job not in order]
    written: dict[str, Any] = {}
    told: dict[str, Told] = {}
    for name in order:
        job = JOBS[name]
        with progress.of(name) if progress else nullcontext():
            tables = {}
            for table, frame in job.make(recording, terms, written).items():
                path = f"{out.rstrip('/')}/{name}/{table}"
                frame.write.mode("overwrite").parquet(path)
                tables[table] = written[f"{name}/{table}"] = session.read.parquet(path)
            told[name] = job.tell(tables)
        session.catalog.clearCache()
    outcome = Outcome(
        begin=_moment(recording.begin),
        end=_moment(recording.end),
        files=recording.files,
        nodes=recording.nodes,
        holes=recording.holes,
        problems=recording.problems,
        told=told,
        share=recording.share,
    )
    summary = outcome.as_json()
    for name in order:
        own = {**summary, "jobs": {name: summary["jobs"][name]}}
        write_text(session, f"{out.rstrip('/')}/{name}/summary.json", json.dumps(own, indent=2))
    return outcome


def broken_promises(outcome: Outcome, fail_on: Sequence[str]) -> dict[str, int | float]:
    """Those of ``fail_on`` that were not kept, with their numbers."""
    found: dict[str, int | float] = {}
    for told in outcome.told.values():
        for name in fail_on:
            if told.numbers.get(name):
                found[name] = told.numbers[name]
    return found


def write_text(session: Any, path: str, text: str) -> None:
    """A small file, wherever Hadoop reaches."""
    jvm, conf = session._jvm, session._jsc.hadoopConfiguration()
    target = jvm.org.apache.hadoop.fs.Path(path)
    stream = target.getFileSystem(conf).create(target, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def read_text(session: Any, path: str) -> str | None:
    """What ``write_text`` wrote; None where there is nothing."""
    jvm, conf = session._jvm, session._jsc.hadoopConfiguration()
    source = jvm.org.apache.hadoop.fs.Path(path)
    system = source.getFileSystem(conf)
    if not system.exists(source):
        return None
    stream = system.open(source)
    try:
        # As a string: bytes would come over the bridge as signed numbers.
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1_000_000, tz=UTC)
