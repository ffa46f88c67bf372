"""Choice of an engine, if the user makes none: DuckDB for what one machine holds easily, else Spark."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from gossamer.errors import UsageError
from gossamer.spark.engine.engine import Engine
from gossamer.spark.engine.on_duckdb import DuckEngine, has_duckdb
from gossamer.spark.engine.on_spark import SparkEngine
from gossamer.spark.engine.session import (
    check_files,
    cores_of,
    is_little,
    open_session,
    path_here,
    size_of,
    submitted,
)

AUTO = "auto"
ENGINES = (AUTO, "duckdb", "spark")
_FOR_DUCKDB = 256 * 2**20
"""Bytes of files, ten million events and more, up to which DuckDB is the default engine."""


def engine_for(
    asked: str,
    reads: str,
    *,
    writes: str = "",
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> str:
    """The name of the engine for what is ``asked``; what only Spark knows what to do with decides for it.

    Raises:
        UsageError: there is none of that name.
    """
    if asked not in ENGINES:
        raise UsageError(f"--engine: got {asked!r}; expected any of {', '.join(ENGINES)}")
    if asked != AUTO:
        return asked
    size = size_of(reads, most=_FOR_DUCKDB)
    local = (master or "local").startswith("local")
    if size is None or path_here(writes) is None or settings or not local or submitted():
        return "spark"
    if importlib.util.find_spec("pyspark") is None:
        return "duckdb"
    return "duckdb" if size <= _FOR_DUCKDB and has_duckdb() else "spark"


def open_engine(
    reads: str,
    *,
    engine: str = AUTO,
    master: str | None = None,
    memory: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Engine:
    """Something to ask of what recorders wrote at ``reads``; ``close`` it.

    ``master``, ``memory`` and ``settings`` are those of ``open_session``; DuckDB takes as many threads as a
    local master has.

    Raises:
        NoDataError: ``reads`` is a place on this machine where there is nothing to read.
        UsageError: an argument is none.
        UnavailableError: what the engine needs is not installed, or not free.
    """
    check_files(reads)
    if engine_for(engine, reads, master=master, settings=settings) == "duckdb":
        return DuckEngine(memory=memory, threads=cores_of(master) if master else None)
    brief = is_little(reads)
    return SparkEngine(open_session(master=master, memory=memory, brief=brief, settings=settings))
