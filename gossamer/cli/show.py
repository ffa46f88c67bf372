"""How a command that looks shows what it found: for people or for scripts, once or again and again.

A command gives a function that asks and returns a :class:`Report` (an answer of bounded size) or a
:class:`Listing` (as many rows as there are). Everything else is done here, for all of them alike.

Rules: 1. ``--json`` prints what the API told, whatever people are shown of it.  2. A listing goes from the
network to standard output row by row; what is held does not grow with it.  3. Who did not answer is named,
and ends the command with a code of its own.
"""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import typer
from rich.text import Text

from gossamer.cli.client import ApiClient, Gathered, Rows
from gossamer.cli.exits import ExitCode
from gossamer.cli.output import emit_json, json_text, note, print_lines
from gossamer.cli.table import Cell, Grid, write

__all__ = ["Ask", "Listing", "Part", "Report", "Shown", "ask", "given", "show"]

Row = dict[str, Any]
Part = Grid | Text | str


@dataclass(frozen=True, slots=True)
class Report:
    """An answer of bounded size; ``parts`` is called only where people look."""

    document: Mapping[str, Any]
    parts: Callable[[], Iterable[Part]]
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows, however many; ``wide`` says that all nodes were asked, and some may be missing."""

    items: Iterable[Row]
    columns: Sequence[str]
    cells: Callable[[Row], Sequence[Cell]]
    empty: str
    key: int = 1
    restless: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()

    @property
    def wide(self) -> bool:
        """Whether some nodes may be missing."""
        return isinstance(self.items, Rows | Missing)

    @property
    def missing(self) -> Mapping[str, str]:
        """Who did not answer, as far as is known; all of it once the items are through."""
        return self.items.missing if isinstance(self.items, Rows | Missing) else {}

    def grid(self) -> Grid:
        """What people see."""
        rows = (self.cells(item) for item in self.items)
        return Grid(self.columns, rows, self.empty, self.key, self.restless, numbers=self.numbers)


class Missing:
    """Items of several nodes at hand, and who did not answer."""

    def __init__(self, items: Sequence[Row], missing: Mapping[str, str]) -> None:
        self._items = items
        self.missing = missing

    @classmethod
    def of(cls, gathered: Gathered) -> Missing:
        """What was gathered."""
        return cls(gathered.items, gathered.missing)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._items)


Shown = Report | Listing
Ask = Callable[[int | None], Shown]
"""Asks for so many rows at most."""


def show(ask: Ask, *, json: bool, watch: float | None = None, limit: int | None = None) -> None:
    """Ask once and print, or with ``watch`` every so many seconds until somebody ends it.

    Raises:
        typer.Exit: some node did not answer.
    """
    if watch is not None:
        # The rest of the command starts sooner without it.
        from gossamer.cli.watch import watch_it

        watch_it(ask, seconds=watch, json=json, limit=limit)
        return
    shown = ask(limit)
    if json:
        _emit(shown)
    else:
        for part in parts_of(shown):
            show_part(part)
        for name, reason in shown.missing.items():
            note(f"incomplete: {name} did not answer: {reason}")
    if shown.missing:
        raise typer.Exit(ExitCode.UNAVAILABLE)


def parts_of(shown: Shown) -> Iterable[Part]:
    """What people are shown."""
    return [shown.grid()] if isinstance(shown, Listing) else shown.parts()


def show_part(part: Part) -> None:
    """Print a table, or lines."""
    if not isinstance(part, Grid):
        print_lines(part)
    elif not write(part) and part.empty:
        note(part.empty)


def whole(shown: Shown) -> dict[str, Any]:
    """All of it in memory, as ``--json`` prints it."""
    if isinstance(shown, Report):
        return dict(shown.document)
    items = list(shown.items)
    return {"items": items, "missing": dict(shown.missing)} if shown.wide else {"items": items}


def _emit(shown: Shown) -> None:
    if isinstance(shown, Report):
        emit_json(shown.document)
        return
    out = sys.stdout
    items = iter(shown.items)
    # Whoever is not there, or refuses, says so before the first character is written.
    first = list(islice(items, 1))
    out.write('{\n  "items": [')
    between = "\n    "
    for item in chain(first, items):
        out.write(between + json_text(item))
        between = ",\n    "
    out.write("]" if between == "\n    " else "\n  ]")
    if shown.wide:
        out.write(',\n  "missing": ' + jsonlib.dumps(dict(shown.missing)))
    out.write("\n}\n")


def ask(api: str, node: str | None = None, *, timeout: float = 10.0) -> ApiClient:
    """The API of ``node``, or that at ``api``."""
    return ApiClient(api, node=node, timeout=timeout)


def given(**params: str | bool | None) -> dict[str, str | int | bool]:
    """The parameters that have a value."""
    return {name: value for name, value in params.items() if value is not None}
