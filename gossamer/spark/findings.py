"""Findings of a job, in words and numbers, and what they are made with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gossamer.spark.analyses import Terms
from gossamer.spark.engine.engine import Engine, Row
from gossamer.spark.report.charts import Chart
from gossamer.spark.source.source import Recording

Tables = Mapping[str, str]
"""Questions, or views of what was written, by the table's name."""

WORST = 20
"""Rows of a sheet of the worst clients or nodes."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """The most important rows of a table, for people; units are those of ``units``."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings of a job."""

    numbers: Mapping[str, int | float]
    sentences: tuple[str, ...]
    charts: tuple[Chart, ...] = ()
    sheets: tuple[Sheet, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    question: str
    make: Callable[[Recording, Terms, Tables], Mapping[str, str]]
    """Recording, terms and the tables of ``needs`` to questions for this job's tables."""
    summarize: Callable[[Engine, Tables], Findings]
    needs: tuple[str, ...] = field(default=())
    """Jobs whose tables it reads, as ``job/table``."""


def rows_of(engine: Engine, question: str, limit: int = WORST) -> tuple[Row, ...]:
    return tuple(engine.rows(f"{question} LIMIT {limit}"))


def counts_of(engine: Engine, table: str, column: str, what: str = "count(*)") -> dict[str, int]:
    found = engine.rows(
        f"SELECT {column} AS name, CAST({what} AS BIGINT) AS n FROM {table} GROUP BY {column}"
    )
    return {row["name"]: row["n"] for row in found}


def sheets_of(title: str, rows: tuple[Row, ...]) -> tuple[Sheet, ...]:
    """Return one sheet of these rows; none without rows."""
    return (Sheet(title, rows),) if rows else ()
