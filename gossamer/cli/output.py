"""What the command prints: tables for people, JSON for scripts, errors on standard error.

Rules: 1. Standard output carries the answer and nothing else.  2. Piped, a table keeps every character of
every cell: nothing is cut to a width nobody has.  3. With ``--json`` errors are JSON as well.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = [
    "ago",
    "emit_json",
    "note",
    "ports_text",
    "print_error",
    "print_lines",
    "print_table",
    "print_tree",
    "printable",
    "size_text",
    "until",
]

_UNLIMITED = 10_000


def _console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else _UNLIMITED)


def emit_json(data: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Columns without a frame, which also cut and awk read well; ``empty`` stands for no rows."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=not sys.stdout.isatty(), overflow="fold")
    for row in rows:
        # Names and topics come from clients: Text keeps what looks like markup as it is.
        table.add_row(*(Text(printable(cell)) for cell in row))
    if table.row_count == 0:
        note(empty)
        return
    _console().print(table)


def print_tree(title: str, columns: Sequence[str], rows: Iterable[tuple[Sequence[str], Text]]) -> None:
    """Cells in line, numbers to the right, and behind them a line of a tree, as long as it is."""
    table = list(rows)
    cells = [[*columns[:-1]], *(list(row) for row, _ in table)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(columns) - 1)]
    numbers = [at for at in range(len(widths)) if all(_is_number(row[at]) for row in cells[1:])]
    console = _console()
    console.print(Text(title, style="bold"))
    for at, row in enumerate(cells):
        padded = (
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        line = Text("  ".join(padded) + "  ", style="" if at else "bold")
        line.append_text(table[at - 1][1] if at else Text(columns[-1]))
        console.print(line, soft_wrap=True)


def _is_number(cell: str) -> bool:
    return not cell or cell[0].isdecimal()


def size_text(size: int) -> str:
    """``3.6 KiB``."""
    for unit, step in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= step:
            return f"{size / step:.1f} {unit}"
    return f"{size} B"


def print_lines(renderable: object) -> None:
    """Anything rich can draw."""
    _console().print(renderable)


def note(text: str) -> None:
    """A remark for people, on standard error."""
    _console(stderr=True).print(Text(printable(text)), style="dim")


def print_error(text: str, *, as_json: bool) -> None:
    """The last word of a command that failed."""
    if as_json:
        sys.stderr.write(json.dumps({"error": text}, ensure_ascii=False) + "\n")
        return
    message = Text("error: ", style="bold red")
    message.append(printable(text), style="default not bold")
    _console(stderr=True).print(message, soft_wrap=True)


def printable(cell: object) -> str:
    """``cell`` as text that does nothing to a terminal."""
    # A topic may hold terminal escapes; they are shown, not obeyed.
    return "".join(
        character if character.isprintable() or character == "\n" else repr(character)[1:-1]
        for character in str(cell)
    )


def ago(moment: float) -> str:
    """How long ago a time since 1970 was, coarse."""
    if moment <= 0:
        return ""
    seconds = max(0, int(time.time() - moment))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def until(moment: float) -> str:
    """In what time something since 1970 comes, coarse; 0 is never."""
    if not moment:
        return "never expires"
    seconds = max(0, int(moment - time.time()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"in {seconds // size}{unit}"
    return f"in {seconds}s"


def ports_text(ports: dict[str, int]) -> str:
    """``mqtt=1883 api=8091``."""
    return " ".join(f"{name}={port}" for name, port in ports.items())
