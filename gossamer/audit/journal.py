"""From rows to Parquet by way of a journal, so that a process may die at any moment.

The recorder hands over batches; the writer appends each to a journal as it came, and now and then turns a
journal into one Parquet file. A journal that is found at the start is one whose writer died: it is turned
into a file like any other, as far as it is whole.

A batch in a journal, and on the way to it, is a length, a checksum (CRC-32) and MessagePack: how far the
node's clock was off, and a list of rows. A header before the first batch says whose rows they are.

Rules: 1. Nothing here knows of time or processes; ``writer`` does.  2. A journal's last batch may be cut off:
it is left out, and what is missing shows in the numbers.  3. A journal goes only when its file has its name.
4. Rows become columns a kind at a time, by Arrow and not by loops of Python: 300,000 a second.
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
from gossamer.audit.files import EventFile, table_of

_HEAD = struct.Struct("<II")
MAX_BATCH = 64 * 2**20
"""Bytes of one batch: more is not a batch but damage."""

_COMMON = ("seq", "event", "hlc", "at")
_NAMES = tuple(event.name for event in schema.EVENTS)
_FIELDS = tuple((*_COMMON, *event.columns) for event in schema.EVENTS)
_CLIENT = tuple(fields.index("client") if "client" in fields else -1 for fields in _FIELDS)
_CHUNK = 65_536
"""Rows turned into columns at once: bounds memory."""

Row = Sequence[Any]


class _Header(msgspec.Struct, frozen=True):
    node: str
    creation: int


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """Rows that are handed over at once."""

    offset_us: int | None
    rows: list[Any]


_encode = msgspec.msgpack.Encoder().encode
_batch = msgspec.msgpack.Decoder(Batch).decode


def frame(value: object) -> bytes:
    """``value`` as it is sent and journalled."""
    data = _encode(value)
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
        """Append a framed batch; what a full disc took of it goes again.

        Raises:
            OSError: the disc does not take it.
        """
        view = memoryview(data)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError:
            # A batch that is cut off would hide those behind it.
            self._file.truncate(self.size)
            self._file.seek(self.size)
            raise
        self.size += len(data)

    def close(self) -> None:
        os.fsync(self._file.fileno())
        self._file.close()


def to_parquet(journal: Path, root: Path) -> Path | None:
    """Turn a journal into a file below ``root`` and remove it; None where it held no row.

    Raises:
        OSError: the disc does not take the file; the journal stays.
    """
    made = None
    with journal.open("rb") as stream:
        frames = frames_of(stream)
        head = next(frames, None)
        if head is not None:
            header = msgspec.msgpack.decode(head[_HEAD.size :], type=_Header)
            made = _write(header, _chunks(frames), root)
    journal.unlink()
    return made


def _chunks(frames: Iterable[bytes]) -> Iterator[list[Batch]]:
    chunk: list[Batch] = []
    count = 0
    for data in frames:
        chunk.append(_batch(data[_HEAD.size :]))
        count += len(chunk[-1].rows)
        if count >= _CHUNK:
            yield chunk
            chunk, count = [], 0
    if count:
        yield chunk


def _write(header: _Header, chunks: Iterable[list[Batch]], root: Path) -> Path | None:
    file: EventFile | None = None
    closed = False
    try:
        for chunk in chunks:
            first = next(batch.rows[0] for batch in chunk if batch.rows)
            if file is None:
                file = EventFile(
                    root, node=header.node, creation=header.creation, first=_first(first), wall=first[3] / 1e6
                )
            for table in tables_of(chunk, node=header.node, creation=header.creation):
                file.add_table(table)
            last = next(batch.rows[-1] for batch in reversed(chunk) if batch.rows)
            closed = _NAMES[last[1]] == schema.CLOSED
        return file.finish(closed=closed) if file is not None else None
    except OSError:
        if file is not None:
            file.abandon()
        raise


def _first(row: Row) -> int:
    """The number with which a row begins: a gap and a row of many clients end with theirs."""
    if _NAMES[row[1]] == schema.GAP:
        return row[0] - row[4]  # type: ignore[no-any-return]
    place = _CLIENT[row[1]]
    if 0 <= place < len(row) and isinstance(row[place], list):
        return row[0] - len(row[place]) + 1  # type: ignore[no-any-return]
    return row[0]  # type: ignore[no-any-return]


def tables_of(chunk: Iterable[Batch], *, node: str, creation: int) -> Iterator[object]:
    """Rows of ``buffer`` as one Arrow table with the columns of the schema."""
    import pyarrow as pa

    by_kind: dict[tuple[int, int | None], list[Row]] = {}
    for batch in chunk:
        offset = batch.offset_us
        for row in batch.rows:
            found = by_kind.get((row[1], offset))
            if found is None:
                found = by_kind[row[1], offset] = []
            found.append(row)
    tables = []
    for (kind, offset), rows in by_kind.items():
        place = _CLIENT[kind]
        if place >= 0:
            rows = _spread(rows, place)
        count = len(rows)
        columns: dict[str, Any] = {
            "count": [1] * count,
            **dict(zip(_FIELDS[kind], map(list, zip(*rows, strict=True)), strict=False)),
            "event": [_NAMES[kind]] * count,
            "recorder": [node] * count,
            "creation": [creation] * count,
            "offset_us": [offset] * count,
        }
        tables.append(table_of(columns))
    if tables:
        yield pa.concat_tables(tables)


def _spread(rows: list[Row], place: int) -> list[Row]:
    """One row a client, where a row has several; they are numbered up to its own."""
    if not any(isinstance(row[place], list) for row in rows):
        return rows
    spread: list[Row] = []
    for row in rows:
        names = row[place]
        if not isinstance(names, list):
            spread.append(row)
            continue
        head, tail = list(row[1:place]), list(row[place + 1 :])
        first = row[0] - len(names) + 1
        spread += [[first + index, *head, name, *tail] for index, name in enumerate(names)]
    return spread
