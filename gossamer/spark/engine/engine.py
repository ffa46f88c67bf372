"""The engines that the jobs ask: Spark, on one machine or many, or DuckDB, in this process.

Rules: 1. There is one text of each question: SQL as Spark speaks it, of which DuckDB learns by macros what it
calls by another name (``onduck``). What the two do not share (how a file is read and written, a value from
Python in a text) is an engine's.  2. Questions are built of questions: a function of a job gives a
``SELECT``, or the name of a view. An engine is asked where the answer is needed.  3. Names of topics and
nodes are data: what comes into a text goes through ``literal``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

Row = dict[str, Any]


class Engine(Protocol):
    """Operations that a job needs; paths are what the engine's own file systems take."""

    name: str

    def list_files(self, where: str) -> list[str]:
        """Every file below ``where`` that a recorder may have finished, in the order of names."""

    def metadata(self, path: str, names: Iterable[str]) -> dict[str, str]:
        """Return the ``names`` in the footer of a Parquet file, with their values.

        Raises:
            UnreadableError: it cannot be read.
        """

    def ends(self, path: str) -> tuple[int, bytes, bytes]:
        """Return the length of a file, and its first and last four bytes.

        Raises:
            UnreadableError: it cannot be read.
        """

    def events(self, paths: Sequence[str]) -> str:
        """The rows of recorders' files, as a question; columns that one lacks are null."""

    def literal(self, text: str) -> str:
        """``text`` as it is written in a question."""

    def structs(self, rows: Sequence[Mapping[str, int | str]]) -> str:
        """An array of structs, as it is written in a question; ``rows`` are one or more."""

    def view(self, question: str) -> str:
        """A name for a question, which is asked where the name is used."""

    def keep(self, question: str, *, large: bool = False) -> str:
        """A name for the answer, which is found once; ``large``: not in memory."""

    def table(self, columns: str, rows: Sequence[Sequence[object]]) -> str:
        """A name for rows that are given; ``columns`` with their types, as in CREATE TABLE."""

    def rows(self, question: str) -> list[Row]:
        """The answer; times are UTC, and know it."""

    def save(self, question: str, path: str) -> str:
        """Write the answer as Parquet below ``path``, in place of what is there; a name for it."""

    def write_text(self, path: str, text: str) -> None:
        """Write a small file."""

    def read_text(self, path: str) -> str | None:
        """Read it again; None where there is none."""

    def fit(self, events: int) -> None:
        """Suit what is going to be asked of so many events."""

    def clear(self) -> None:
        """Forget what was kept."""

    def close(self) -> None:
        """Be asked no more."""


def one_of(*kinds: str) -> str:
    """A condition: the event is one of ``kinds``, which are those of the schema."""
    named = ", ".join(f"'{kind}'" for kind in kinds)
    return f"event IN ({named})"
