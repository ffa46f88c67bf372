"""Printing of answers: as text or for scripts, once or repeatedly.

A command passes a function that asks and returns a :class:`Report` (an answer of bounded size) or a
:class:`Listing` (any number of rows); the rest is done here.

Rules: 1. ``--json`` prints what the API answered, whatever people are shown of it.  2. A listing goes from
the network to standard output row by row, so memory does not grow with it.  3. Nodes that did not answer are
named, and end the command with a code of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice

import typer
from rich.text import Text

from gossamer.cli.client import Gathered, Row
from gossamer.cli.errors import ExitCode
from gossamer.cli.render.output import Cell, Grid, emit_json, json_text, make_console, note, printable, write


class Note(str):
    """A remark for people, on standard error."""

    __slots__ = ()


Part = Grid | str
Columns = Mapping[str, str | Callable[[Row], Cell]]
"""Per title: the key of the value in a row, or a function of the row."""


def table(rows: Iterable[Row], columns: Columns, empty: str = "", key: int = 1) -> Grid:
    """The grid of ``rows``, which are read as it is printed."""
    cells = [
        (lambda row, key=column: row[key]) if isinstance(column, str) else column
        for column in columns.values()
    ]
    return Grid(list(columns), ([cell(row) for cell in cells] for row in rows), empty, key)


@dataclass(frozen=True, slots=True)
class Report:
    """An answer of bounded size; ``parts`` is called only to print for people."""

    document: Mapping[str, object]
    parts: Callable[[], Iterable[Part]]
    missing: Mapping[str, str] = field(default_factory=dict)
    code: ExitCode = ExitCode.DONE


@dataclass(frozen=True, slots=True)
class Listing:
    """Any number of rows; for several nodes also those that did not answer."""

    items: Iterable[Row]
    columns: Columns
    empty: str
    key: int = 1
    remark: str = ""
    """Said to people below the table."""
    code: ExitCode = ExitCode.DONE

    @property
    def missing(self) -> Mapping[str, str]:
        """The nodes that did not answer, with the reason; complete once the items are read."""
        return self.items.missing if isinstance(self.items, Gathered) else {}

    def parts(self) -> Iterable[Part]:
        """The table for people."""
        yield table(self.items, self.columns, self.empty, self.key)
        if self.remark:
            yield Note(self.remark)


Rendered = Report | Listing
Ask = Callable[[int | None], Rendered]
"""Asks for that many rows at most."""


def show(ask: Ask, *, json: bool, watch: float | None = None, limit: int | None = None) -> None:
    """Ask once and print, or with ``watch`` every that many seconds until the user ends it.

    Raises:
        typer.Exit: some node did not answer, or the answer has a code of its own.
    """
    if watch is not None:
        # The rest of the command starts sooner without it.
        from gossamer.cli.render.watch import watch_it

        watch_it(ask, seconds=watch, json=json, limit=limit)
        return
    rendered = ask(limit)
    if json:
        _emit(rendered)
    else:
        for part in rendered.parts():
            show_part(part)
        for name, reason in rendered.missing.items():
            note(f"incomplete: {name} did not answer: {reason}")
    if code := ExitCode.UNAVAILABLE if rendered.missing else rendered.code:
        raise typer.Exit(code)


def show_part(part: Part) -> None:
    """Print a table, or lines."""
    if isinstance(part, Note):
        note(part)
    elif isinstance(part, str):
        make_console().print(Text(printable(part)), soft_wrap=True)
    elif not write(part) and part.empty:
        note(part.empty)


def document_of(rendered: Rendered) -> dict[str, object]:
    """Return the whole document in memory, as ``--json`` prints it."""
    if isinstance(rendered, Report):
        return dict(rendered.document)
    items = list(rendered.items)
    missing = {"missing": dict(rendered.missing)} if isinstance(rendered.items, Gathered) else {}
    return {"items": items, **missing}


def _emit(rendered: Rendered) -> None:
    if isinstance(rendered, Report):
        emit_json(rendered.document)
        return
    out = sys.stdout
    items = iter(rendered.items)
    # An error of the first request is raised before anything is written.
    first = list(islice(items, 1))
    out.write('{\n  "items": [')
    between = "\n    "
    for item in chain(first, items):
        out.write(between + json_text(item))
        between = ",\n    "
    out.write("]" if between == "\n    " else "\n  ]")
    if isinstance(rendered.items, Gathered):
        out.write(',\n  "missing": ' + json_text(dict(rendered.missing)))
    out.write("\n}\n")
