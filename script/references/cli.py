"""The page of the command line: every command and option, from the parser, and the exit codes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer

from gossamer.cli import ExitCode, app
from script.references.markdown import cell, code, flow, prose, table

_HEAD = """
# Command line

`gossamer` runs nodes and talks to them. Every command has `--help`; `gossamer completion --install` makes
the shell complete them. Where a command talks to a node, `--api` says to which (or the environment,
`GOSSAMER_API`), and a token comes from `GOSSAMER_TOKEN`.
"""

Entry = tuple[str, Any, Any]
"""What is typed, the command, and the context that it is described in."""


def cli_page() -> str:
    """Exit codes, then every command by name."""
    parts = [flow(_HEAD), "## Exit codes\n\nScripts may rely on them.\n", _exit_codes()]
    group = ""
    for typed, command, context in commands():
        words = typed.split()
        if len(words) > 2 and words[1] != group:
            parts.append(f"## gossamer {words[1]}\n\n{prose(context.parent.command.help)}\n")
        group = words[1]
        parts.append(_described(typed, command, context))
    return "\n".join(parts)


def commands() -> Iterator[Entry]:
    """Every command that is not hidden: those of ``gossamer`` itself first, then group after group."""
    root: Any = typer.main.get_command(app)
    yield from sorted(_below(root, None, "gossamer"), key=lambda entry: (len(entry[0].split()) > 2, entry[0]))


def _below(command: Any, parent: Any, typed: str) -> Iterator[Entry]:
    context = typer.Context(command, info_name=typed.rpartition(" ")[2], parent=parent)
    # The root knows its commands by name, and imports them when they are asked for.
    inner = command.whole() if parent is None else getattr(command, "commands", None)
    if inner is None:
        yield typed, command, context
        return
    for name, below in inner.items():
        if not below.hidden:
            yield from _below(below, context, f"{typed} {name}")


def _described(typed: str, command: Any, context: Any) -> str:
    level = "###" if len(typed.split()) > 2 else "##"
    usage, rows = [typed], []
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is None or "--help" in record[0]:
            continue
        if parameter.param_type_name == "argument":
            name = record[0].split()[0].strip("[]")
            usage.append(name if parameter.required else f"[{name}]")
        rows.append((code(record[0]), cell(record[1])))
    if any(row[0].startswith("`-") for row in rows):
        usage.append("[OPTIONS]")
    text = f"{level} {typed}\n\n```text\n{' '.join(usage)}\n```\n\n{prose(command.help)}\n"
    lines = "\n".join(command.examples)
    text += f"\n```text\n{lines}\n```\n"
    return text + (f"\n{table(('argument or option', 'means'), rows)}" if rows else "")


def _exit_codes() -> str:
    """The table in the docstring of the codes."""
    said = dict(re.findall(r"^(\d+)  +(.+)$", inspect.getdoc(ExitCode) or "", re.MULTILINE))
    return table(
        ("code", "name", "means"),
        ((code(item.value), item.name, cell(said[str(item.value)])) for item in ExitCode),
    )
