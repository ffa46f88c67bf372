"""Parquet files of events: how they are named, written and finished.

Rules: 1. A file under its own name is whole: it is written under a name that begins with a dot, synced, and
renamed.  2. Its footer says what a reader must know without reading rows: schema version, node, creation,
first and last event, first and last time, how far the clock was off at most, when events were lost, and
whether the recorder closed after it.  3. Its name tells creation and first event, so that a broken file still
says what is missing.  4. Rows of one kind stand together: they fill the same columns, which takes a third of
the room, and readers order by ``seq`` or ``hlc`` if they must.

pyarrow is an extra (``gossamer[audit]``) and is imported where a file is written, which is a process of its
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

_ARROW = {
    "bigint": "int64",
    "int": "int32",
    "tinyint": "int8",
    "string": "string",
    "boolean": "bool_",
}

_CLUSTERED = (
    *("event", "recorder", "creation", "origin", "origin_creation", "topic", "client", "peer", "filter"),
    *("share", "role", "reason", "qos", "count", "size", "offset_us", "filters.list.element"),
    *("nodes.list.element", "queue", "consumer_group", "attempt"),
)
"""Columns that repeat themselves."""
_COUNTED = ("seq", "hlc", "at", "message", "queue_offset", "entry")
"""Numbers that count up, and clocks: small differences."""
_GROUP = 262_144
"""Rows of a row group."""


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


def table_of(columns: Mapping[str, Sequence[object]]) -> object:
    """Rows, given as columns of one length, as an Arrow table; a column that is left out is null."""
    import pyarrow as pa

    count = len(columns["seq"])
    fields = arrow_schema()
    arrays = [
        pa.array(columns[field.name], type=field.type)
        if field.name in columns
        else pa.nulls(count, field.type)
        for field in fields
    ]
    return pa.Table.from_arrays(arrays, schema=fields)


def partition_of(root: Path, *, wall: float, node: str) -> Path:
    """The directory for events of ``node`` at ``wall``, seconds since 1970."""
    moment = datetime.fromtimestamp(wall, tz=UTC)
    return root / f"day={moment:%Y-%m-%d}" / f"hour={moment:%H}" / f"node={quote(node, safe='')}"


class EventFile:
    """One file under way. ``add`` columns or ``add_table``, then ``finish``; blocks on the disc."""

    def __init__(self, root: Path, *, node: str, creation: int, first: int, wall: float) -> None:
        import pyarrow.parquet as pq

        directory = partition_of(root, wall=wall, node=node)
        directory.mkdir(parents=True, exist_ok=True)
        name = f"{creation}-{first:016d}.parquet"
        self.path = directory / name
        self._hidden = directory / f".{name}.part"
        self._node = node
        self._creation = creation
        self._first = first
        self._last = first - 1
        self._begin: int | None = None
        self._end = 0
        self._offset = 0
        self._at = 0
        self._gaps: list[tuple[int, int, int]] = []
        self._tables: list[object] = []
        self._waiting = 0
        self._writer = pq.ParquetWriter(
            self._hidden,
            arrow_schema(),
            compression="zstd",
            compression_level=3,
            use_dictionary=list(_CLUSTERED),
            column_encoding=dict.fromkeys(_COUNTED, "DELTA_BINARY_PACKED"),
            write_statistics=["seq", "event", "hlc", "at"],
            version="2.6",
        )

    def add(self, columns: Mapping[str, Sequence[object]]) -> None:
        """Append rows, given as columns of one length; a column that is left out is null."""
        if columns["seq"]:
            self.add_table(table_of(columns))

    def add_table(self, table: Any) -> None:
        """Append rows that come after those that are there already, in any order among themselves."""
        import pyarrow as pa
        import pyarrow.compute as pc

        # A gap stands for as many numbers as it lost; it takes them before its own.
        self._last = max(self._last, pc.max(table["seq"]).as_py())
        offsets = pc.fill_null(table["offset_us"], 0)
        least = pc.min_max(offsets).as_py()
        self._offset = max(self._offset, least["min"], least["max"], key=abs)
        times = pc.subtract(table["at"].cast(pa.int64()), offsets)
        found = pc.min_max(times).as_py()
        self._begin = found["min"] if self._begin is None else min(self._begin, found["min"])
        gaps = table.append_column("t", times).filter(pc.equal(table["event"], schema.GAP))
        for gap in gaps.select(["seq", "count", "t"]).sort_by("seq").to_pylist():
            before = pc.max(times.filter(pc.less(table["seq"], gap["seq"]))).as_py()
            self._gaps.append((before or self._at or gap["t"], gap["t"], gap["count"]))
        self._at = found["max"]
        self._end = max(self._end, found["max"])
        self._tables.append(table)
        self._waiting += len(table)
        if self._waiting >= _GROUP:
            self._flush()

    def finish(self, *, closed: bool = False) -> Path | None:
        """Give the file its name; None, and no file, where nothing was added. ``closed``: nothing follows."""
        self._flush()
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

    def abandon(self) -> None:
        """Leave nothing behind: the disc does not take it."""
        try:
            self._writer.close()
        except OSError:
            # The footer does not fit either.
            pass
        self._hidden.unlink(missing_ok=True)

    def _flush(self) -> None:
        import pyarrow as pa

        if self._tables:
            tables, self._tables, self._waiting = self._tables, [], 0
            ordered = pa.concat_tables(tables).sort_by([("event", "ascending"), ("seq", "ascending")])
            self._writer.write_table(ordered, row_group_size=_GROUP)
