"""The jobs asked of DuckDB: in this process, of files on this machine, in a second or two if they are small.

Rules: 1. ``MACROS`` are what Spark calls by another name; beside them, two words are replaced in a text
(``taught``). Nothing else may differ, and a test holds both engines to the same answers.  2. What is kept is
a temporary table, spilled to the disc where memory ends.  3. A little recording is read once: to open its
many small files anew for each question takes longer than to answer it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import gossamer.audit.schema as schema
from gossamer.spark.engine.engine import Row
from gossamer.spark.engine.session import bytes_of, path_here
from gossamer.spark.errors import UnreadableError, missing_package

MACROS = {
    "array_join(list, mark)": "array_to_string(list, mark)",
    "collect_set(x)": "coalesce(list(DISTINCT x) FILTER (WHERE x IS NOT NULL), [])",
    "element_at(list, i)": "list[i]",
    "explode(list)": "unnest(list)",
    # Exact here; Spark's is right to one part in as many as the last argument says.
    "percentile_approx(x, part, precision)": "quantile_disc(x, part)",
    "pmod(a, b)": "((a % b) + b) % b",
    "sequence(a, b)": "generate_series(a, b)",
    "size(list)": "len(list)",
    "substring_index(text, mark, n)": "array_to_string(split(text, mark)[1:n], mark)",
    "timestamp_micros(x)": "make_timestamp(x)",
    "unix_micros(x)": "epoch_us(x)",
}

_LITTLE = 32 * 2**20
"""Bytes of files that are read once, with all of their columns."""

_SAID = re.compile(r"'(?:[^']|'')*'|--.*|\b(?P<name>\w+) -> |\b(?P<call>transform)\(")
"""Words that are replaced; texts and comments come first, in which nothing is."""


def taught(question: str) -> str:
    """A question as DuckDB reads it: Spark's functions of one argument, and their name for ``transform``."""

    def said(found: re.Match[str]) -> str:
        if found["name"]:
            return f"lambda {found['name']}: "
        return "list_transform(" if found["call"] else found[0]

    return _SAID.sub(said, question)


def has_duckdb() -> bool:
    return importlib.util.find_spec("duckdb") is not None


class DuckEngine:
    """See ``Engine``."""

    name = "duckdb"

    def __init__(self, *, memory: str | None = None, threads: int | None = None) -> None:
        """``memory``: what it may take, as ``2g``; default: DuckDB's own, four fifths of the machine's.

        Raises:
            UnavailableError: DuckDB is not installed.
        """
        if not has_duckdb():
            raise missing_package("duckdb", extra="audit")
        import duckdb

        self._errors: type[Exception] = duckdb.Error
        # Where memory ends, and not in whatever directory this is started.
        config: dict[str, str | bool | int | float | list[str]] = {
            "temp_directory": f"{tempfile.gettempdir()}/gossamer-audit-{os.getpid()}"
        }
        if threads:
            config["threads"] = threads
        if memory is not None:
            config["memory_limit"] = f"{bytes_of(memory)}B"
        self._connection = duckdb.connect(config=config)
        self._numbers = count(1)
        self._kept: list[str] = []
        self._read: dict[tuple[object, ...], str] = {}
        """Names of what was read once, by the question for it and when its files were written."""
        for head, body in MACROS.items():
            self._connection.execute(f"CREATE TEMP MACRO {head} AS {body}")

    def list_files(self, where: str) -> list[str]:
        found = sorted(self._path(where).rglob("*.parquet"))
        # Names with a dot or an underscore in front are under way, or other programs' marks.
        return [str(path) for path in found if path.is_file() and not path.name.startswith((".", "_"))]

    def metadata(self, path: str, names: Iterable[str]) -> dict[str, str]:
        try:
            rows = self._connection.execute(
                f"SELECT decode(key), decode(value) FROM parquet_kv_metadata({self.literal(path)})"
            ).fetchall()
        except self._errors as error:
            raise UnreadableError(path=path, why=str(error).splitlines()[0]) from error
        wanted = set(names)
        return {key: value for key, value in rows if key in wanted}

    def ends(self, path: str) -> tuple[int, bytes, bytes]:
        try:
            with Path(path).open("rb") as file:
                first = file.read(4)
                size = file.seek(0, 2)
                file.seek(max(0, size - 4))
                return size, first, file.read(4)
        except OSError as error:
            raise UnreadableError(path=path, why=error.strerror or str(error)) from error

    def events(self, paths: Sequence[str]) -> str:
        listed = ", ".join(map(self.literal, paths))
        files = f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
        there = {row[0] for row in self._connection.execute(f"DESCRIBE SELECT * FROM {files}").fetchall()}
        columns = [
            f'"{column.name}"'
            if column.name in there
            else f'CAST(NULL AS {_type(column.type)}) AS "{column.name}"'
            for column in schema.COLUMNS
        ]
        question = f"SELECT {', '.join(columns)} FROM {files}"
        found = [Path(path).stat() for path in paths]
        if sum(file.st_size for file in found) > _LITTLE:
            return question
        key = (question, *(file.st_mtime_ns for file in found))
        if key not in self._read:
            self._read[key] = self._named("TABLE", question)
        return f"SELECT * FROM {self._read[key]}"

    def literal(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    def structs(self, rows: Sequence[Mapping[str, int | str]]) -> str:
        def written(value: int | str) -> str:
            return self.literal(value) if isinstance(value, str) else f"CAST({value} AS BIGINT)"

        each = (
            "{" + ", ".join(f"'{key}': {written(value)}" for key, value in row.items()) + "}" for row in rows
        )
        return f"[{', '.join(each)}]"

    def view(self, question: str) -> str:
        return self._named("VIEW", question)

    def keep(self, question: str, *, large: bool = False) -> str:
        name = self._named("TABLE", question)
        self._kept.append(name)
        return name

    def table(self, columns: str, rows: Sequence[Sequence[object]]) -> str:
        name = f"audit_{next(self._numbers)}"
        self._connection.execute(f"CREATE TEMP TABLE {name} ({columns})")
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            self._connection.executemany(f"INSERT INTO {name} VALUES ({marks})", [list(row) for row in rows])
        return name

    def rows(self, question: str) -> list[Row]:
        answer = self._connection.execute(taught(question))
        names = [column[0] for column in answer.description or ()]
        return [
            {name: _known(value) for name, value in zip(names, row, strict=True)} for row in answer.fetchall()
        ]

    def save(self, question: str, path: str) -> str:
        target = self._path(path)
        if target.is_dir():
            shutil.rmtree(target)
        target.mkdir(parents=True)
        file = self.literal(str(target / "part-0.parquet"))
        self._connection.execute(f"COPY ({taught(question)}) TO {file} (FORMAT parquet, COMPRESSION zstd)")
        return self.view(f"SELECT * FROM read_parquet({file})")

    def write_text(self, path: str, text: str) -> None:
        target = self._path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def read_text(self, path: str) -> str | None:
        source = self._path(path)
        return source.read_text(encoding="utf-8") if source.exists() else None

    def fit(self, events: int) -> None:
        """Do nothing."""

    def clear(self) -> None:
        for name in self._kept:
            self._connection.execute(f"DROP TABLE IF EXISTS {name}")
        self._kept.clear()

    def close(self) -> None:
        self._connection.close()

    def _named(self, kind: str, question: str) -> str:
        name = f"audit_{next(self._numbers)}"
        self._connection.execute(f"CREATE TEMP {kind} {name} AS {taught(question)}")
        return name

    def _path(self, where: str) -> Path:
        path = path_here(where)
        if path is None:
            raise UnreadableError(
                path=where, why="DuckDB reads and writes files of this machine; use --engine spark"
            )
        return path


def _type(spark: str) -> str:
    return "VARCHAR[]" if spark == "array<string>" else spark


def _known(value: object) -> object:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
