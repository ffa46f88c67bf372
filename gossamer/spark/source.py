"""From a directory of recordings to one table of events, and a list of what could not be used.

A recording is partitioned by day, hour and node (``audit.schema``). Each file's footer says its schema
version, who wrote it, and which events it holds, so what is broken, foreign, doubled or missing is known
before a row is read, and Spark never meets a file that would stop a job.

Rules: 1. One bad file costs its own events and is named; it never ends a job.  2. Files are listed and
opened through Hadoop's file systems, so that ``hdfs://`` and ``s3a://`` work like a local path.  3. A file
that holds what another one holds is read once.  4. What is missing between two files of one recorder is a
hole: a span of time at one node in which nothing can be judged.  5. ``t`` is a row's time for all jobs: the
wall clock less the offset that the node knew of, in microseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import gossamer.audit.schema as schema
from gossamer.spark.errors import NoDataError

__all__ = ["FileProblem", "Hole", "Recording", "footer_of_metadata", "holes_between", "load"]

_SLACK = timedelta(hours=26)
"""How far from the asked span a partition may lie and still hold its events: a clock may be off by a day."""
TAIL = 5_000_000
"""Microseconds after the last event of a recorder that did not close in which it may have lived on."""
MAX_OFFSET = 1_000_000
"""Microseconds a node's clock may be off before it is reported."""


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A file that was not read, or not trusted, and why."""

    path: str
    kind: str
    """truncated, foreign, version, duplicate, clock"""
    message: str

    @property
    def is_loss(self) -> bool:
        """Events are missing because of it."""
        return self.kind in ("truncated", "version")


@dataclass(frozen=True, slots=True)
class Hole:
    """A span at one node of which the recording knows nothing; microseconds since 1970."""

    node: str
    begin: int
    end: int
    why: str


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself."""

    path: str
    node: str
    creation: int
    first: int
    last: int
    begin: int
    end: int
    offset: int = 0
    closed: bool = False
    gaps: tuple[tuple[int, int, int], ...] = ()
    """(begin, end, events) of what the recorder had to drop in between."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What a job works on."""

    events: Any
    """DataFrame: the columns of ``audit.schema`` and ``t``."""
    begin: int
    end: int
    """The span that is judged, microseconds since 1970, end excluded."""
    last: int
    """When the recording ends."""
    holes: tuple[Hole, ...] = ()
    problems: tuple[FileProblem, ...] = ()
    files: int = 0
    nodes: tuple[str, ...] = field(default=())


def load(
    session: Any,
    where: str,
    *,
    begin: datetime | None = None,
    end: datetime | None = None,
) -> Recording:
    """The events recorded in ``where`` that a job over [begin, end) needs, and what is wrong with the rest.

    Raises:
        NoDataError: there is nothing to read.
    """
    files = [path for path in _list(session, where) if _near(path, end)]
    # One after another: the bridge to the JVM mixes up answers to several threads.
    judged = [_judge(session, path) for path in files]
    problems = [item for item in judged if isinstance(item, FileProblem)]
    footers, doubled = _without_duplicates([item for item in judged if isinstance(item, Footer)])
    problems += doubled
    problems += [
        FileProblem(f.path, "clock", f"the clock of {f.node} was {f.offset / 1e6:+.1f} s off the cluster's")
        for f in footers
        if abs(f.offset) > MAX_OFFSET
    ]
    if not footers:
        found = f"{len(files)} files, none of them usable ({problems[0].message})" if problems else "no files"
        raise NoDataError(where=where, span=_span(begin, end), found=found)
    low = _micros(begin) if begin else min(f.begin for f in footers)
    high = _micros(end) if end else max(f.end for f in footers) + 1
    if not any(f.begin < high and f.end >= low for f in footers):
        first, last = min(f.begin for f in footers), max(f.end for f in footers)
        found = f"{len(footers)} files with events from {_text(first)} to {_text(last)}"
        raise NoDataError(where=where, span=_span(begin, end), found=found)
    holes = holes_between(footers, low, high)
    holes += _holes_of(problems, footers)
    return Recording(
        events=read(session, [f.path for f in footers]),
        begin=low,
        end=high,
        last=max(f.end for f in footers),
        holes=tuple(holes),
        problems=tuple(problems),
        files=len(footers),
        nodes=tuple(sorted({f.node for f in footers})),
    )


def read(session: Any, paths: Sequence[str]) -> Any:
    """The rows of files that are known to be good, with ``t``."""
    from pyspark.sql import functions as f

    # Columns that a file of an older minor version lacks come as null.
    frame = session.read.schema(schema.spark_schema()).parquet(*paths)
    return frame.withColumn("t", f.unix_micros("at") - f.coalesce(f.col("offset_us"), f.lit(0)))


def holes_between(footers: Iterable[Footer], low: int, high: int) -> list[Hole]:
    """What is missing of each recorder before, between and after its files, where it meets [low, high)."""
    lives: dict[str, dict[int, list[Footer]]] = {}
    for footer in footers:
        lives.setdefault(footer.node, {}).setdefault(footer.creation, []).append(footer)
    holes = []
    for node, creations in lives.items():
        before: int | None = None
        for creation in sorted(creations):
            files = sorted(creations[creation], key=lambda file: file.first)
            expected, at = 1, before if before is not None else files[0].begin - TAIL
            for file in files:
                holes += [
                    Hole(node, begin, end, f"the recorder dropped {count} events")
                    for begin, end, count in file.gaps
                ]
                if file.first > expected:
                    holes.append(
                        Hole(node, at, file.begin, f"events {expected} to {file.first - 1} are missing")
                    )
                expected, at = max(expected, file.last + 1), max(at, file.end)
            if not files[-1].closed:
                holes.append(Hole(node, at, at + TAIL, "the recorder did not close"))
            before = at
    return [hole for hole in holes if hole.begin < high and hole.end > low]


def footer_of_metadata(path: str, metadata: dict[str, str]) -> Footer | FileProblem:
    """What the key-value metadata of a footer says."""
    version = metadata.get(schema.METADATA_KEY.decode())
    if version is None:
        return FileProblem(path, "foreign", "a Parquet file that no recorder wrote; left alone")
    try:
        major, _ = schema.version_of(version)
        if major != schema.MAJOR:
            return FileProblem(
                path,
                "version",
                f"schema version {version}, these jobs read {schema.MAJOR}.x; use the gossamer that wrote it",
            )
        number = {
            key: int(metadata[f"gossamer.audit.{key}"])
            for key in ("creation", "first", "last", "begin", "end", "offset")
        }
        return Footer(
            path=path,
            node=metadata["gossamer.audit.node"],
            closed=metadata["gossamer.audit.closed"] == "true",
            gaps=tuple(map(tuple, json.loads(metadata["gossamer.audit.gaps"]))),
            **number,
        )
    except (KeyError, ValueError) as error:
        return FileProblem(path, "foreign", f"its footer lacks or garbles {error}; left alone")


def _without_duplicates(footers: Iterable[Footer]) -> tuple[list[Footer], list[FileProblem]]:
    kept: list[Footer] = []
    problems = []
    by_life: dict[tuple[str, int], list[Footer]] = {}
    # The longest first, so that a copy of a part goes and not the whole.
    for footer in sorted(footers, key=lambda file: (file.first - file.last, file.path)):
        life = by_life.setdefault((footer.node, footer.creation), [])
        twin = next((f for f in life if f.first <= footer.last and footer.first <= f.last), None)
        if twin is None:
            life.append(footer)
            kept.append(footer)
        else:
            problems.append(
                FileProblem(footer.path, "duplicate", f"holds events that {twin.path} holds too; read once")
            )
    return kept, problems


def _holes_of(problems: Iterable[FileProblem], footers: Sequence[Footer]) -> list[Hole]:
    """Where a recorder's last file cannot be read, no later one tells by its numbers what is missing."""
    holes = []
    for problem in problems:
        place = _partition(problem.path)
        if not problem.is_loss or place is None:
            continue
        hour, node = place
        begin, end = _micros(hour), _micros(hour + timedelta(hours=1))
        own = [footer for footer in footers if footer.node == node]
        name = re.search(r"/(\d+)-(\d+)\.parquet$", problem.path)
        if name is not None:
            creation, first = int(name.group(1)), int(name.group(2))
            life = [footer for footer in own if footer.creation == creation]
            if any(footer.first > first for footer in life):
                continue
            begin = max([begin, *(footer.end for footer in life)])
        holes.append(Hole(node, min(begin, end), end, f"{problem.path}: {problem.kind}"))
    return holes


def _partition(path: str) -> tuple[datetime, str] | None:
    found = re.search(r"day=(\d{4}-\d\d-\d\d)/hour=(\d\d)/node=([^/]+)/", path)
    if found is None:
        return None
    try:
        hour = datetime.strptime(f"{found.group(1)} {found.group(2)} +0000", "%Y-%m-%d %H %z")
    except ValueError:
        return None
    return hour, unquote(found.group(3))


def _near(path: str, end: datetime | None) -> bool:
    """Whether a file may matter: what is after the span does not, what is before may hold subscriptions."""
    place = _partition(path)
    return place is None or end is None or place[0] < end + _SLACK


def _list(session: Any, where: str) -> list[str]:
    jvm, conf = session._jvm, session._jsc.hadoopConfiguration()
    path = jvm.org.apache.hadoop.fs.Path(where)
    system = path.getFileSystem(conf)
    if not system.exists(path):
        return []
    found = system.listFiles(path, True)
    files = []
    while found.hasNext():
        file = found.next().getPath()
        # Names with a dot or an underscore in front are under way, or other programs' marks.
        if not file.getName().startswith((".", "_")) and file.getName().endswith(".parquet"):
            files.append(file.toString())
    return sorted(files)


def _judge(session: Any, path: str) -> Footer | FileProblem:
    from py4j.protocol import Py4JJavaError

    jvm, conf = session._jvm, session._jsc.hadoopConfiguration()
    try:
        file = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(
            jvm.org.apache.hadoop.fs.Path(path), conf
        )
        reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(file)
        try:
            metadata = dict(reader.getFileMetaData().getKeyValueMetaData())
        finally:
            reader.close()
    except Py4JJavaError as error:
        why = str(error.java_exception.getMessage() or error.java_exception).splitlines()[0][:200]
        return FileProblem(path, "truncated", f"not a whole Parquet file: {why}")
    return footer_of_metadata(path, metadata)


def _micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _text(micros: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return moment.isoformat(sep=" ", timespec="seconds")


def _span(begin: datetime | None, end: datetime | None) -> str:
    return f"from {begin.isoformat() if begin else 'the beginning'} to {end.isoformat() if end else 'now'}"
