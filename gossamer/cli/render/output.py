"""Output of the command: answers on standard output, remarks and errors on standard error; tables.

Rules: 1. With ``--json`` errors are JSON as well.  2. Piped, every character of every cell is there and each
row is one line, which cut and awk read well.  3. However long a table, only the rows that decide its widths
are held; a later cell that is longer pushes the rest of its row aside.  4. The content of a cell is shown,
never obeyed, neither by rich nor by the terminal.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

Cell = object
"""Text, or whatever has some."""
UNLIMITED = 10_000
SAMPLE = 1000
"""Rows that decide how wide columns are."""
CHANGED = "bold yellow"
NEW = "green"
RESTLESS = frozenset({"AGO", "BEGAN", "FOR", "UP"})
"""Columns that always change, which is not worth a mark."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Columns and rows; ``empty`` is printed if there are no rows."""

    columns: Sequence[str]
    rows: Iterable[Sequence[Cell]]
    empty: str = ""
    key: int = 1
    """Number of first columns that identify a row for ``--watch``."""
    title: str = ""
    numbers: frozenset[str] = frozenset()
    """Columns to stand at the right."""


def make_console(*, stderr: bool = False) -> Console:
    """Make the console for standard output or error; without a width limit if that is no terminal."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else UNLIMITED)


def printable(cell: object) -> str:
    """``cell`` as text that does nothing to a terminal."""
    # A topic may hold terminal escapes; they are shown, not obeyed.
    text = str(cell)
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\n" else repr(character)[1:-1]
        for character in text
    )


def write(grid: Grid) -> bool:
    """Print ``grid`` on standard output; False if there was nothing to print."""
    rows = iter(grid.rows)
    first = list(islice(rows, SAMPLE))
    if not first:
        return False
    widths = _widths(grid, first)
    if not sys.stdout.isatty():
        for line in _plain_lines(grid, chain(first, rows), widths):
            sys.stdout.write(line + "\n")
        return True
    console = make_console()
    if grid.title:
        console.print(Text(printable(grid.title), style="bold"))
    console.print(draw(grid, first))
    while more := list(islice(rows, SAMPLE)):
        console.print(draw(grid, more, header=False, widths=widths))
    return True


def _plain_lines(grid: Grid, rows: Iterable[Sequence[Cell]], widths: Sequence[int]) -> Iterator[str]:
    """Lines without colour, columns two spaces apart."""
    if grid.title:
        yield printable(grid.title)
    right = [column in grid.numbers for column in grid.columns]
    for row in chain([grid.columns], rows):
        cells = []
        for cell, width, at_right in zip(row, widths, right, strict=True):
            text = _one_line(cell)
            pad = " " * (width - cell_len(text))
            cells.append(pad + text if at_right else text + pad)
        yield "  ".join(cells).rstrip()


def draw(
    grid: Grid,
    rows: Iterable[Sequence[Cell]],
    *,
    header: bool = True,
    widths: Sequence[int] | None = None,
    marks: Mapping[tuple[int, int], str] | None = None,
) -> Table:
    """A table for a terminal; ``marks`` are styles by row and column."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False, show_header=header)
    last = len(grid.columns) - 1
    for at, column in enumerate(grid.columns):
        table.add_column(
            column,
            overflow="fold",
            justify="right" if column in grid.numbers else "left",
            min_width=None if widths is None or at == last else min(widths[at], 40),
        )
    for at, row in enumerate(rows):
        cells = [_text(cell) for cell in row]
        for place, cell in enumerate(cells):
            if style := (marks or {}).get((at, place)):
                cell.stylize(style)
        table.add_row(*cells)
    return table


def marked(
    grid: Grid, before: Sequence[Sequence[Cell]], rows: Sequence[Sequence[Cell]]
) -> dict[tuple[int, int], str]:
    """Which cells of ``rows`` are not as they were, and how they are to look."""

    def name(row: Sequence[Cell]) -> tuple[str, ...]:
        return tuple(str(cell) for cell in row[: grid.key])

    then = {name(row): row for row in before}
    marks: dict[tuple[int, int], str] = {}
    for at, row in enumerate(rows):
        old = then.get(name(row))
        if old is None:
            marks |= {(at, column): NEW for column in range(len(row))}
            continue
        for column, (was, cell) in enumerate(zip(old, row, strict=True)):
            if str(was) != str(cell) and grid.columns[column] not in RESTLESS:
                marks[at, column] = CHANGED
    return marks


def _widths(grid: Grid, rows: Sequence[Sequence[Cell]]) -> list[int]:
    return [
        max(cell_len(column), max((cell_len(_one_line(row[at])) for row in rows), default=0))
        for at, column in enumerate(grid.columns)
    ]


def _one_line(cell: Cell) -> str:
    text = str(cell)
    if isinstance(cell, Text) and not speaks_utf8():
        # What draws trees, in characters that standard output can hold.
        text = text.translate(_PLAIN)
    return text if text.isprintable() else printable(text).replace("\n", "\\n")


def _text(cell: Cell) -> Text:
    # Names and topics come from clients: Text keeps what looks like markup as it is, and escapes, too.
    return cell.copy() if isinstance(cell, Text) and cell.plain.isprintable() else Text(printable(cell))


_PLAIN = str.maketrans({"├": "|", "│": "|", "└": "`", "─": "-", "…": "~"})


def speaks_utf8() -> bool:
    """Return whether standard output can hold any character."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def json_text(data: object) -> str:
    """JSON in one line, in characters that standard output can hold."""
    return json.dumps(data, ensure_ascii=not speaks_utf8())


def emit_json(data: object) -> None:
    """Print one JSON document on standard output."""
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=not speaks_utf8()) + "\n")


def print_line(text: str) -> None:
    """Print one line on standard output, and flush it."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """A remark for people, on standard error."""
    make_console(stderr=True).print(Text(printable(text)), style="dim")


def print_error(text: str, *, as_json: bool) -> None:
    """The last word of a command that failed."""
    if as_json:
        sys.stderr.write(json.dumps({"error": text}, ensure_ascii=False) + "\n")
        return
    message = Text("error: ", style="bold red")
    message.append(printable(text), style="default not bold")
    make_console(stderr=True).print(message, soft_wrap=True)


def size_text(size: int) -> str:
    """``3.6 KiB``."""
    for unit, step in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= step:
            return f"{size / step:.1f} {unit}"
    return f"{size} B"


def age_text(seconds: float) -> str:
    """A time in its largest unit: ``3d``, ``12s``."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def ago(moment: float) -> str:
    """Return the age of a time since 1970, coarse; empty for never."""
    return age_text(time.time() - moment) if moment > 0 else ""


def until(moment: float) -> str:
    """In what time something since 1970 comes, coarse; 0 is never."""
    return f"in {age_text(moment - time.time())}" if moment else "never expires"


def clock(moment: float) -> str:
    """A time since 1970 by this machine's calendar and clock; 0 is never, and empty."""
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""


def ports_text(ports: Mapping[str, int]) -> str:
    """``mqtt=1883 api=8091``."""
    return " ".join(f"{name}={port}" for name, port in ports.items())
