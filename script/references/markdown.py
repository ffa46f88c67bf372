"""Markdown that every page needs: tables, code, and docstrings as paragraphs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc):`(?:~[\w.]*\.)?([\w.]+)`")


def code(text: object) -> str:
    """``text`` as it is typed."""
    plain = str(text)
    return f"`` {plain} ``" if "`" in plain else f"`{plain}`"


def cell(text: str) -> str:
    """``text`` in one cell of a table."""
    return re.sub(r"\s+", " ", prose(text)).strip().replace("|", "\\|")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown, without line breaks of their own."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def flow(text: str) -> str:
    """Paragraphs that are wrapped in the source, each in one line."""
    return re.sub(r"(?<=\S)\n(?=\S)", " ", text.strip()) + "\n"


def prose(docstring: str | None) -> str:
    """A docstring for readers of Markdown: its code, its references, and what it raises as a list."""
    text = inspect.cleandoc(docstring or "")
    text = _ROLE.sub(r"`\1`", text)
    text = re.sub(r"``(.+?)``", r"`\1`", text, flags=re.DOTALL)
    text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
    return re.sub(r"^Raises:\n((?:    .*\n?)+)", _raises, text, flags=re.MULTILINE)


def _raises(found: re.Match[str]) -> str:
    # What goes on in another line is deeper in; each error begins at the same depth.
    entries = re.split(r"\n(?=    \S)", found[1].rstrip())
    lines = (re.sub(r"\s+", " ", entry).strip() for entry in entries)
    return "Raises:\n\n" + "".join(f"- {line}\n" for line in lines)
