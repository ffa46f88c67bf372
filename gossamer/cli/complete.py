"""Answers a shell that asks what may stand at the cursor; the scripts that ask are in ``shells``.

A shell runs ``gossamer`` with ``_GOSSAMER_COMPLETE`` set to its name. The first line of the answer is
``values``, ``files`` or ``directories``; values follow, one a line, as that shell wants them.

Rules: 1. Nothing is ever written to the terminal, and nothing ends with an error: at worst there is nothing
to offer.  2. Nothing runs: no command, no check of values.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from gossamer.cli.bashline import BREAKS, parse

__all__ = ["VARIABLE", "answer", "answer_shell"]

VARIABLE = "_GOSSAMER_COMPLETE"
_SAYS = 60
"""Characters of what is said of a value."""

Candidate = tuple[str, str]
"""A value, and what is said of it."""


def answer_shell(command: Any) -> None:
    """Print what the shell that runs this process wants to know."""
    text = ""
    # What a library has to say goes nowhere.
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, sys.stderr.fileno())
    _take_values_as_they_are()
    try:
        text = answer(command, os.environ[VARIABLE], sys.argv[1:], os.environ)
    except (Exception, SystemExit, KeyboardInterrupt):  # noqa: BLE001 - see rule 1
        text = "values\n"
    sys.stdout.write(text)
    sys.stdout.flush()


def _take_values_as_they_are() -> None:
    """What checks values takes as long to load as all the rest, and nothing runs in this process."""
    from typer.core import TyperArgument, TyperOption

    for kind in (TyperArgument, TyperOption):
        kind.process_value = lambda _self, _ctx, value: value  # type: ignore[method-assign, assignment]


def answer(command: Any, shell: str, words: Sequence[str], environ: Any) -> str:
    """What to print for ``shell``: ``words`` are those up to the cursor, in bash the line is."""
    if shell == "bash":
        line = parse(words[0] if words else "", environ.get("_GOSSAMER_BREAKS") or BREAKS)
        kind, found = candidates(command, list(line.words[1:]), line.current)
        lines = [put for value, _ in found if (put := line.put(value)) is not None]
    else:
        *before, current = words or [""]
        kind, found = candidates(command, before, current)
        if shell == "zsh":
            lines = [f"{_for_zsh(value)}:{says}" if says else _for_zsh(value) for value, says in found]
        else:
            lines = [f"{value}\t{says}" if says else value for value, says in found]
    return "\n".join([kind, *lines]) + "\n"


def candidates(command: Any, before: list[str], current: str) -> tuple[str, list[Candidate]]:
    """What may stand where ``current`` begins: ``values``, or names of files or directories."""
    click, head = _click(), ""
    if current.startswith("-") and "=" in current and "--" not in before:
        # ``--node=val`` is one word of the shell's: what is offered must begin as it does.
        option, _, current = current.partition("=")
        before, head = [*before, option], f"{option}="
    context = click._resolve_context(command, {}, "gossamer", list(before))
    wanted, current = click._resolve_incomplete(context, list(before), current)
    items = wanted.shell_complete(context, current)
    if any(item.type == "dir" for item in items):
        return "directories", []
    if any(item.type == "file" for item in items) or (not items and _is_path(wanted)):
        return ("directories" if _is_directory(wanted) else "files"), []
    return "values", list(_distinct((head + str(item.value), _short(item.help)) for item in items))


def _click() -> Any:
    try:
        return import_module("typer._click.shell_completion")
    except ImportError:  # pragma: no cover - an older typer has click beside it, not inside
        return import_module("click.shell_completion")


def _is_path(parameter: Any) -> bool:
    described = getattr(parameter, "type_descriptor", None)
    return bool(described is not None and (described.is_path or described.is_file))


def _is_directory(parameter: Any) -> bool:
    described = getattr(parameter, "type_descriptor", None)
    return bool(described is not None and getattr(described, "path_type", "") == "dir")


def _distinct(found: Iterable[Candidate]) -> Iterable[Candidate]:
    return dict(found).items()


def _short(says: str | None) -> str:
    """The first sentence, in one line."""
    first = " ".join((says or "").split()).partition(". ")[0].rstrip(".,")
    printable = "".join(one for one in first if one.isprintable())
    return printable if len(printable) <= _SAYS else printable[: _SAYS - 1].rstrip() + "…"


def _for_zsh(value: str) -> str:
    return value.replace("\\", "\\\\").replace(":", "\\:")
