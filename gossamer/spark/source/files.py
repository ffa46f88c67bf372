"""Files of a recording: finds by their footers alone those that are whole, ours, and not duplicates.

Each file's footer says its schema version, who wrote it, and which events it holds, so what is broken,
foreign, doubled or missing is known before a row is read, and Spark never meets a file that would stop a job.

Rules: 1. One bad file costs its own events and is named; it never ends a job.  2. Files are listed and
opened by the engine, so that ``hdfs://`` and ``s3a://`` work like a local path, where it is Spark.
3. What two files hold both is read once: a copy is left out, of a file that overlaps another only the rest
is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

import msgspec

import gossamer.audit.schema as schema
from gossamer.spark.engine.engine import Engine
from gossamer.spark.errors import UnreadableError

_MAGIC = b"PAR1"
"""Both ends of a Parquet file."""
_PREFIX = "gossamer.audit."
_FIELDS = ("creation", "first", "last", "begin", "end", "offset", "node", "closed")
_NAMES = (schema.METADATA_KEY.decode(), *(f"{_PREFIX}{name}" for name in (*_FIELDS, "gaps")))


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A file that was not read, or not trusted, and why."""

    path: str
    kind: str
    """truncated, empty, junk, unreadable, foreign, version, duplicate, overlap, clock"""
    message: str

    @property
    def is_loss(self) -> bool:
        """Events are missing because of it."""
        return self.kind in ("truncated", "empty", "junk", "unreadable", "version")


@dataclass(frozen=True, slots=True)
class Footer:
    """A file's own account of itself."""

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
    only: tuple[tuple[int, int], ...] = ()
    """Spans of numbers to read of it, both ends included, where others hold the rest; empty: all."""


def judge_file(engine: Engine, path: str) -> Footer | FileProblem:
    """Return the footer of the file at ``path``, or why it cannot be used."""
    try:
        metadata = engine.metadata(path, _NAMES)
    except UnreadableError as error:
        try:
            kind, why = kind_of(*engine.ends(path))
        except UnreadableError as worse:
            return FileProblem(path, "unreadable", f"{_without(path, worse.why)}; its events are missing")
        return FileProblem(path, kind, f"{why or _without(path, error.why)}; its events are missing")
    return footer_of_metadata(path, metadata)


def kind_of(size: int, first: bytes, last: bytes) -> tuple[str, str]:
    """Return what is wrong with a file that is not whole, by its first and last bytes: kind and message."""
    if not size:
        return "empty", "there is nothing in it"
    if first != _MAGIC[: len(first)]:
        return "junk", f"not a Parquet file: it begins with {first!r}, expected {_MAGIC!r}"
    if last != _MAGIC or size < 3 * len(_MAGIC):
        return "truncated", f"cut off after {size:,} bytes: it begins as a Parquet file and has no end"
    return "unreadable", ""


def _without(path: str, why: str) -> str:
    """Shorten an error, without the path, which is printed before it."""
    for name in (path, path.removeprefix("file:")):
        why = why.replace(name, "it")
    return why[:200].strip(" .:")


def footer_of_metadata(path: str, metadata: dict[str, str]) -> Footer | FileProblem:
    """Read the key-value metadata of a footer."""
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
        fields = {name: metadata[f"{_PREFIX}{name}"] for name in _FIELDS}
        gaps = json.loads(metadata[f"{_PREFIX}gaps"])
        return msgspec.convert({**fields, "path": path, "gaps": gaps}, Footer, strict=False)
    except (KeyError, ValueError, msgspec.ValidationError) as error:
        return FileProblem(path, "foreign", f"its footer lacks or garbles {error}; left alone")


def without_duplicates(footers: Iterable[Footer]) -> tuple[list[Footer], list[FileProblem]]:
    """Files of which together every event is read once, and what was left out."""
    kept: list[Footer] = []
    problems = []
    by_life: dict[tuple[str, int], list[Footer]] = {}
    # The longest first, so that a copy of a part goes and not the whole.
    for footer in sorted(footers, key=lambda file: (file.first - file.last, file.path)):
        life = by_life.setdefault((footer.node, footer.creation), [])
        twins = [f for f in life if f.first <= footer.last and footer.first <= f.last]
        rest = _rest(footer, twins)
        if twins:
            kind, what = ("overlap", "some events") if rest else ("duplicate", "events")
            message = f"holds {what} that {twins[0].path} holds too; read once"
            problems.append(FileProblem(footer.path, kind, message))
        if rest or not twins:
            kept.append(replace(footer, only=rest) if twins else footer)
            life.append(footer)
    return kept, problems


def _rest(footer: Footer, twins: Iterable[Footer]) -> tuple[tuple[int, int], ...]:
    """The spans of numbers that only ``footer`` has."""
    spans = [(footer.first, footer.last)]
    for twin in twins:
        parts = []
        for first, last in spans:
            parts += [(first, min(last, twin.first - 1)), (max(first, twin.last + 1), last)]
        spans = [(first, last) for first, last in parts if first <= last]
    return tuple(sorted(set(spans)))


def partition_of(path: str) -> tuple[datetime, str] | None:
    """The hour and the node that the directories of a file name."""
    found = re.search(r"day=(\d{4}-\d\d-\d\d)/hour=(\d\d)/node=([^/]+)/", path)
    if found is None:
        return None
    try:
        hour = datetime.strptime(f"{found.group(1)} {found.group(2)} +0000", "%Y-%m-%d %H %z")
    except ValueError:
        return None
    return hour, unquote(found.group(3))


def micros_of(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def text_of(micros: int) -> str:
    """A moment for people, UTC."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return moment.isoformat(sep=" ", timespec="seconds")
