"""Parquet files of events: how they are named, written and finished.

Rules: 1. A file under its own name is whole: it is written under a name that begins with a dot, synced, and
renamed.  2. Its footer says what a reader must know without reading rows: schema version, node, creation,
first and last event, first and last time, how far the clock was off at most, when events were lost, and
whether the recorder closed after it.  3. Its name tells creation and first event, so that a broken file still
says what is missing.

pyarrow is an extra (``gossamer[spark]``) and is imported where a file is written, which is a process of its
own: it takes 60 MB and half a second.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gossamer.audit import schema

__all__ = ["EventFile", "arrow_schema", "partition_of"]

_ARROW = {
    "bigint": "int64",
    "int": "int32",
    "tinyint": "int8",
    "string": "string",
    "boolean": "bool_",
}

_CLUSTERED = ("event", "recorder", "origin", "topic", "client", "peer", "filter", "share", "role", "reason")
"""Columns that repeat themselves."""


def arrow_schema() -> Any:
    """The columns of ``audit.schema`` as Arrow has them."""
    import pyarrow as pa

    def kind(column: schema.Column) -> Any:
        if column.type == "timestamp":
            return pa.timestamp("us", tz="UTC")
        if column.type.startswith("array<"):
            return pa.list_(pa.string())
        return getattr(pa, _ARROW[column.type])()

    return pa.schema([pa.field(c.name, kind(c), nullable=not c.required) for c in schema.COLUMNS])


def partition_of(root: Path, *, wall: float, node: str) -> Path:
    """The directory for events of ``node`` at ``wall``, seconds since 1970."""
    moment = datetime.fromtimestamp(wall, tz=UTC)
    return root / f"day={moment:%Y-%m-%d}" / f"hour={moment:%H}" / f"node={quote(node, safe='')}"


class EventFile:
    """One file under way. ``add`` columns, then ``finish``; blocks on the disc."""

    def __init__(self, root: Path, *, node: str, creation: int, first: int, wall: float) -> None:
        import pyarrow.parquet as pq

        directory = partition_of(root, wall=wall, node=node)
        directory.mkdir(parents=True, exist_ok=True)
        name = f"{creation}-{first:016d}.parquet"
        self.path = directory / name
        self._hidden = directory / f".{name}.part"
        self._schema = arrow_schema()
        self._node = node
        self._creation = creation
        self._first = first
        self._last = first - 1
        self._begin: int | None = None
        self._end = 0
        self._offset = 0
        self._at = 0
        self._gaps: list[tuple[int, int, int]] = []
        self._writer = pq.ParquetWriter(
            self._hidden,
            self._schema,
            compression="zstd",
            compression_level=3,
            use_dictionary=list(_CLUSTERED),
            # Numbers that count up, and clocks, are small differences.
            column_encoding=dict.fromkeys(("seq", "hlc", "at", "message", "creation"), "DELTA_BINARY_PACKED"),
            write_statistics=["seq", "event", "hlc", "at"],
            version="2.6",
        )

    @property
    def size(self) -> int:
        """Bytes on disc so far."""
        return self._hidden.stat().st_size

    @property
    def events(self) -> int:
        return self._last - self._first + 1

    def add(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Append rows, given as columns of one length; a column that is left out is null."""
        import pyarrow as pa

        count = len(columns["seq"])
        if not count:
            return
        arrays = [
            pa.array(columns[field.name], type=field.type)
            if field.name in columns
            else pa.nulls(count, field.type)
            for field in self._schema
        ]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        # A gap stands for as many numbers as it lost; it takes them before its own.
        self._last = max(self._last, max(columns["seq"]))
        offsets = [offset for offset in columns.get("offset_us", ()) if offset is not None]
        for offset in offsets:
            if abs(offset) > abs(self._offset):
                self._offset = offset
        times = [
            at - (offset or 0)
            for at, offset in zip(columns["at"], columns.get("offset_us") or [0] * count, strict=True)
        ]
        for kind, count, at in zip(columns["event"], columns["count"], times, strict=True):
            if kind == schema.GAP:
                self._gaps.append((self._at or at, at, count))
            self._at = at
        self._begin = min(times) if self._begin is None else min(self._begin, *times)
        self._end = max(self._end, *times)

    def finish(self, *, closed: bool = False) -> Path | None:
        """Give the file its name; None, and no file, where nothing was added. ``closed``: nothing follows."""
        if self._begin is not None:
            self._writer.add_key_value_metadata(
                {
                    schema.METADATA_KEY: schema.VERSION,
                    "gossamer.audit.node": self._node,
                    "gossamer.audit.creation": str(self._creation),
                    "gossamer.audit.first": str(self._first),
                    "gossamer.audit.last": str(self._last),
                    "gossamer.audit.begin": str(self._begin),
                    "gossamer.audit.end": str(self._end),
                    "gossamer.audit.offset": str(self._offset),
                    "gossamer.audit.gaps": json.dumps(self._gaps),
                    "gossamer.audit.closed": "true" if closed else "false",
                }
            )
        self._writer.close()
        if self._begin is None:
            self._hidden.unlink()
            return None
        with self._hidden.open("rb") as file:
            os.fsync(file.fileno())
        self._hidden.rename(self.path)
        return self.path
