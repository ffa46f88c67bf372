"""From rows to Parquet by way of a journal, so that a process may die at any moment.

The recorder hands over batches; the writer appends each to a journal as it came, and now and then turns a
journal into one Parquet file. A journal that is found at the start is one whose writer died: it is turned
into a file like any other, as far as it is whole.

A batch in a journal, and on the way to it, is a length, a checksum (CRC-32) and MessagePack: a list of rows.
The first batch of a journal is preceded by a header that says whose rows they are.

Rules: 1. Nothing here knows of time or processes; ``writer`` does.  2. A journal's last batch may be cut off:
it is left out, and what is missing shows in the numbers.  3. A journal goes only when its file has its name.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

import gossamer.audit.schema as schema
from gossamer.audit.files import EventFile

__all__ = ["Journal", "frame", "frames_of", "to_parquet"]

_HEAD = struct.Struct("<II")
MAX_BATCH = 64 * 2**20
"""Bytes of one batch: more is not a batch but damage."""

_COMMON = ("seq", "event", "hlc", "at")
_NAMES = tuple(event.name for event in schema.EVENTS)
_FIELDS = tuple((*_COMMON, *event.columns) for event in schema.EVENTS)
_CHUNK = 65_536
"""Rows turned into columns at once: bounds memory."""


class _Header(msgspec.Struct, frozen=True):
    node: str
    creation: int


def frame(value: Any) -> bytes:
    """``value`` as it is sent and journalled."""
    data = msgspec.msgpack.encode(value)
    return _HEAD.pack(len(data), zlib.crc32(data)) + data


def frames_of(stream: BinaryIO) -> Iterator[bytes]:
    """The batches of a stream, each with its head, up to its end or the first that is not whole."""
    while True:
        head = stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return
        length, checksum = _HEAD.unpack(head)
        if length > MAX_BATCH:
            return
        data = stream.read(length)
        if len(data) < length or zlib.crc32(data) != checksum:
            return
        yield head + data


class Journal:
    """A journal under way. Blocks on the disc."""

    def __init__(self, path: Path, *, node: str, creation: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.size = 0
        self._file = path.open("xb", buffering=0)
        self.append(frame(_Header(node, creation)))

    def append(self, data: bytes) -> None:
        """Append a framed batch."""
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        self.size += len(data)

    def close(self) -> None:
        os.fsync(self._file.fileno())
        self._file.close()


def to_parquet(journal: Path, root: Path) -> Path | None:
    """Turn a journal into a file below ``root`` and remove it; None where it held no row."""
    made = None
    with journal.open("rb") as stream:
        frames = frames_of(stream)
        head = next(frames, None)
        if head is not None:
            header = msgspec.msgpack.decode(head[_HEAD.size :], type=_Header)
            made = _write(header, _batches(frames), root)
    journal.unlink()
    return made


def _batches(frames: Iterable[bytes]) -> Iterator[list[Any]]:
    rows: list[Any] = []
    for data in frames:
        rows += msgspec.msgpack.decode(data[_HEAD.size :])
        if len(rows) >= _CHUNK:
            yield rows
            rows = []
    if rows:
        yield rows


def _write(header: _Header, batches: Iterable[list[Any]], root: Path) -> Path | None:
    file: EventFile | None = None
    closed = False
    for rows in batches:
        if file is None:
            file = EventFile(
                root, node=header.node, creation=header.creation, first=_first(rows[0]), wall=rows[0][3] / 1e6
            )
        file.add(columns_of(rows, node=header.node, creation=header.creation))
        closed = _NAMES[rows[-1][1]] == schema.CLOSED
    return file.finish(closed=closed) if file is not None else None


def _first(row: Sequence[Any]) -> int:
    # What a gap stands for comes before its own number.
    return row[0] - row[4] if _NAMES[row[1]] == schema.GAP else row[0]  # type: ignore[no-any-return]


def columns_of(rows: Sequence[Sequence[Any]], *, node: str, creation: int) -> dict[str, list[Any]]:
    """Rows of ``tape`` as the columns of the schema."""
    count = len(rows)
    columns: dict[str, list[Any]] = {
        "recorder": [node] * count,
        "creation": [creation] * count,
        "count": [1] * count,
    }
    for index, row in enumerate(rows):
        kind = row[1]
        for name, value in zip(_FIELDS[kind], row, strict=False):
            if value is None:
                continue
            column = columns.get(name)
            if column is None:
                column = columns[name] = [None] * count
            column[index] = _NAMES[kind] if name == "event" else value
    return columns
