"""Audits over HTTP: run the jobs over what this node recorded, and show what they found, here or elsewhere.

A run is a program beside the node (``gossamer audit run``), with a bounded heap and half of the processors.
Directories that others put beside it, of a stream or of ``spark-submit``, are listed too.

::

    ID/out                    what `gossamer audit run … --json` printed: the numbers of all its jobs
    ID/JOB/summary.json       the same for each job; all that there is of a run made elsewhere
    ID/batches/7.json         of `gossamer audit stream`: one for each batch, whose numbers add up
    ID/err                    how far a run is: "completeness: started", "completeness: done in 3.1 s"

Rules: 1. What is not as expected counts as not there; it may be of another version, or half copied.  2. Jobs
live in ``gossamer.spark``, which this house does not import; their names stand here, and a test holds the two
lists together.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field, ValidationError

from gossamer.api.http.access import needs, principal_of
from gossamer.api.http.tokens import Role
from gossamer.api.jobs.processes import Program
from gossamer.api.jobs.runs import Run
from gossamer.api.model.base import Value
from gossamer.api.model.forms import MOMENT, Job, Promise
from gossamer.api.model.node import RecordingInfo, RecordingSettings
from gossamer.api.resources.runs import RunInfo, add_run_routes
from gossamer.api.view import NodeView
from gossamer.errors import UnavailableError, WrongValueError, how_to_install, mismatch

HEAP = "1g"
"""Of Spark, beside a node that has other work; more of it: ``gossamer audit run --memory``."""

LARGEST = 4 * 1024 * 1024
"""Bytes of a file that is read."""
BATCHES = 500
"""Batches of a stream that are added up, the latest."""
_STEP = re.compile(r"^([a-z]+): (started|done in ([\d.]+) s)$", re.MULTILINE)

Moment = Annotated[str, Field(pattern=MOMENT, max_length=40)]
"""A time such as 2026-01-31T07:00 (UTC where it names no zone), 6h, 2d ago, yesterday, now."""


class AuditRequest(Value):
    """A job to run over what this node recorded."""

    job: Job = "report"
    """report: all of them, and one page."""
    begin: Moment | None = Field(default=None, alias="from")
    """Unless given, the first that was recorded."""
    end: Moment | None = Field(default=None, alias="to")
    """Excluded; unless given, the last."""
    fail_on: Annotated[tuple[Promise, ...], Field(max_length=9)] = ()
    """Promises; with one broken, the run counts as broken."""


class JobFindings(Value):
    """The findings of one job."""

    model_config = ConfigDict(extra="ignore")

    numbers: Mapping[str, int | float] = {}
    says: tuple[str, ...] = ()


class JobStep(Value):
    """A job of a run that was begun."""

    job: str
    seconds: float | None
    """null: it goes on."""


class AuditInfo(RunInfo):
    """One run, or one report that was put there."""

    begin: str = Field(default="", alias="from")
    """The span that was judged, ISO 8601."""
    end: str = Field(default="", alias="to")
    nodes: tuple[str, ...] = ()
    """Nodes with recordings."""
    files: int = 0
    share: float = 1.0
    """Of all messages, those that were recorded."""
    holes: int = 0
    """Spans in which a recorder was not looking."""
    problems: int = 0
    """Files that were not read as they are."""
    broken: Mapping[str, int | float] = {}
    jobs: Mapping[str, JobFindings] = {}
    steps: tuple[JobStep, ...] = ()


class AuditsInfo(Value):
    """The audits that can be run here, and those that were."""

    dir: str
    """The directory that is audited: where this node's recorder writes."""
    lacks: str
    """The requirement that this machine lacks to run jobs; empty: none."""
    running: str
    """ID of the one that runs, empty without."""
    items: tuple[AuditInfo, ...]
    """The newest first."""


def audits_router(view: NodeView) -> APIRouter:
    """``/audit``: the flow recorder, and what was judged of its files."""
    router = APIRouter(prefix="/audit", tags=["audit"])

    async def info(run: Run) -> AuditInfo:
        directory = view.audits.directory(run.id)
        return await asyncio.to_thread(_info, run, directory, view.name)

    @router.get("")
    async def status() -> RecordingInfo:
        """Return the state of the flow recorder of this node: events, drops, files."""
        return await view.recording.status()

    @router.post("", dependencies=[needs(Role.ADMIN)])
    async def configure(settings: RecordingSettings) -> RecordingInfo:
        """Switch the flow recorder of this node on or off, or set it, until the node is restarted."""
        return await view.recording.configure(settings)

    @router.get("/reports")
    async def listed() -> AuditsInfo:
        """The audits that were run here, and reports that were put beside them."""
        runs = await view.audits.all()
        missing = view.audits.lacks()
        return AuditsInfo(
            dir=(await view.recording.status()).dir,
            lacks="" if missing is None else str(missing),
            running=view.audits.running,
            items=tuple([await info(run) for run in runs]),
        )

    @router.post("/runs", status_code=201)
    async def start(order: AuditRequest, request: Request) -> AuditInfo:
        """Run a job over what this node recorded; one at a time."""
        check_span(order)
        where = os.path.abspath((await view.recording.status()).dir)  # noqa: ASYNC240, PTH100 - no disc is asked
        told = order.model_dump(mode="json", by_alias=True, exclude_none=True)
        by = principal_of(request).name
        return await info(await view.audits.start(told, by=by, program=_program(order, where)))

    add_run_routes(router, "/reports", view.audits, info, AuditInfo)
    return router


def spark_lacks() -> UnavailableError | None:
    """Return what this machine lacks to run jobs, by a fast check; the job itself checks more."""
    if importlib.util.find_spec("duckdb") is not None:
        return None
    home = os.environ.get("JAVA_HOME")
    if importlib.util.find_spec("pyspark") is None:
        lacks, remedy = "duckdb", how_to_install("audit")
    elif not (Path(home, "bin", "java").exists() if home else shutil.which("java")):
        lacks, remedy = "Java 17 or newer", "install it (Debian: apt install openjdk-17-jre-headless)"
    else:
        return None
    return UnavailableError(f"audit jobs need {lacks}, which this node's machine has not; {remedy}")


def check_span(order: AuditRequest) -> None:
    """See that days and hours exist, as far as they are written out.

    Raises:
        WrongValueError: they do not, or the end is not after the beginning.
    """
    moments = []
    for key, text in (("from", order.begin), ("to", order.end)):
        if text is None or re.match(r"\d{4}-", text) is None:
            continue
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise mismatch(WrongValueError, key, repr(text), f"a time that exists: {error}") from None
        moments.append(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    if len(moments) == 2 and moments[0] >= moments[1]:
        raise mismatch(WrongValueError, "to", repr(order.end), f"a time after {order.begin}")


def _program(order: AuditRequest, where: str) -> Program:
    cores = max(1, (os.cpu_count() or 1) // 2)
    arguments = ["-m", "gossamer.spark", "run", order.job, "--dir", where, "--out", "{dir}", "--json"]
    arguments += ["--memory", HEAP, "--master", f"local[{cores}]"]
    for option, text in (("--from", order.begin), ("--to", order.end)):
        if text is not None:
            arguments += [option, text]
    if order.fail_on:
        arguments += ["--fail-on", ",".join(order.fail_on)]
    return Program(arguments=tuple(arguments))


def is_audit(directory: Path) -> float:
    """Return when the audit in ``directory`` ended, by its files; 0 if there is none."""
    found = [
        directory / "report.html",
        *sorted(directory.glob("*/summary.json"))[:1],
        *_batches(directory)[-1:],
    ]
    return max((_changed(file) for file in found), default=0.0)


def _findings_in(directory: Path) -> Mapping[str, Any]:
    """``from``, ``to``, ``files``, ``nodes``, ``share``, ``holes``, ``problems``, ``jobs``, ``broken``."""
    told = _read(directory / "out")
    if "jobs" in told:
        return told
    merged: dict[str, object] = {}
    for file in sorted(directory.glob("*/summary.json")):
        one = _read(file)
        jobs = {**_mapping(merged.get("jobs")), **_mapping(one.get("jobs"))}
        merged = {**one, **merged, "jobs": jobs}
    return merged or _of_stream(directory)


def _steps_in(directory: Path) -> list[tuple[str, float | None]]:
    """The jobs that were begun, with the seconds that each took; None: it goes on."""
    try:
        text = (directory / "err").read_text(errors="replace")[-65536:]
    except OSError:
        return []
    found = {name: float(seconds) if seconds else None for name, _, seconds in _STEP.findall(text)}
    return list(found.items())


def _of_stream(directory: Path) -> dict[str, object]:
    batches = [_read(file) for file in _batches(directory)[-BATCHES:]]
    if not batches:
        return {}
    sums: Counter[str] = Counter()
    for batch in batches:
        sums.update({name: n for name, n in _mapping(batch.get("numbers")).items() if isinstance(n, int)})
    holes = sum(len(batch.get("holes", ())) for batch in batches)
    says = [f"A stream: {len(batches)} batches of it."]
    if holes:
        says.append(f"{holes} times a recorder was not looking.")
    return {
        "from": batches[0].get("from", ""),
        "to": batches[-1].get("to", ""),
        "jobs": {"stream": {"numbers": dict(sums), "says": says}},
    }


def _batches(directory: Path) -> list[Path]:
    found = (file for file in directory.glob("batches/*.json") if file.stem.isdecimal())
    return sorted(found, key=lambda file: int(file.stem))


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _read(file: Path) -> Mapping[str, Any]:
    try:
        if file.stat().st_size > LARGEST:
            return {}
        return msgspec.json.decode(file.read_bytes(), type=dict[str, object])
    except (OSError, ValueError, RecursionError):
        return {}


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _info(run: Run, directory: Path, node: str) -> AuditInfo:
    found = _findings_in(directory)
    own: dict[str, object] = {
        **dict(run),
        "node": node,
        "steps": tuple(JobStep(job=job, seconds=seconds) for job, seconds in _steps_in(directory)),
        "report": (directory / "report.html").is_file(),
    }
    taken = ("from", "to", "nodes", "files", "share", "broken", "jobs")
    told = {key: found[key] for key in taken if key in found}
    try:
        counts = {key: len(found.get(key, ())) for key in ("holes", "problems")}
        return AuditInfo.model_validate({**own, **told, **counts})
    except (ValidationError, TypeError):
        return AuditInfo.model_validate(own)
