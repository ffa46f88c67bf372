"""Commands that look inside a node: its supervision tree, and what one process does as it happens.

Rules: 1. The tree stands in the last column, so that the numbers stay in line however deep it is.  2. A
process is asked of the node that its pid names, through the one at hand.  3. A trace ends by itself, or with
Ctrl-C, which is not an error.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.text import Text

from gossamer.cli import names
from gossamer.cli.api.client import DEFAULT_API, ApiClient
from gossamer.cli.options import Api, Json, OnNode, Watch
from gossamer.cli.render.output import json_text, note, size_text
from gossamer.cli.render.show import Report, show
from gossamer.cli.render.table import Cell, Grid, printable

__all__ = ["ps", "trace"]

PATIENCE = 20.0
"""Seconds without a sign of life after which a node that is traced is given up."""

ARROWS = {"in": "<-", "out": "->", "": "  "}


Pid = Annotated[
    str,
    typer.Argument(
        metavar="PID",
        help="node1@host.31, 31 of the node asked, or a registered name.",
        autocompletion=names.processes,
    ),
]


def ps(
    root: Annotated[
        str | None,
        typer.Argument(
            metavar="PID",
            help="Only this process and those below it.",
            autocompletion=names.processes,
        ),
    ] = None,
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    fold: Annotated[
        int, typer.Option("--fold", min=0, max=5000, help="List so many children of one kind.")
    ] = 20,
    watch: Watch = None,
) -> None:
    """Draw a node's supervision tree: processes, state, mailboxes, work done, restarts, memory."""
    with _of(api, node, root) as client:
        params: dict[str, str | int | bool] = {"fold": fold}
        if root is not None:
            params["root"] = root
        show(lambda _: _tree(client, params), json=json, watch=watch)


def _tree(client: ApiClient, params: Mapping[str, str | int | bool]) -> Report:
    items = client.rows("/api/v1/processes", params)
    name = client.asked or client.document("/health")["name"]

    def parts() -> list[Grid]:
        rows = [row for item in items for row in _rows(item)]
        number = sum(row.get("number", 1) for row in rows)
        memory = size_text(sum(row["memory"] for row in rows))
        grid = Grid(
            ["PID", "STATE", "MAILBOX", "REDUCTIONS", "RESTARTS", "MEMORY", "PROCESS"],
            [_cells(row) for row in rows],
            title=f"{name}: {number} processes, {memory}",
            numbers=frozenset({"PID", "MAILBOX", "REDUCTIONS", "RESTARTS", "MEMORY"}),
            tree=True,
        )
        return [grid]

    return Report({"node": name, "items": items}, parts)


def _rows(item: Mapping[str, Any], lead: str = "", under: str = "") -> Iterator[dict[str, Any]]:
    """A process and those below it, each with its line of the tree."""
    line = Text(lead, style="dim")
    named = item["name"] or item["label"]
    line.append(printable(named), style="not dim bold" if item["type"] == "supervisor" else "not dim")
    if item["label"] not in (item["name"], named):
        line.append(f" {printable(item['label'])}")
    if item["note"]:
        line.append(f" {printable(item['note'])}", style="not dim italic")
    if item["dropped"]:
        line.append(f" dropped {item['dropped']} messages", style="not dim bold red")
    yield {**item, "line": line}
    below = [*item["children"], *item["folded"]]
    for child in below:
        last = child is below[-1]
        branch, further = under + ("└── " if last else "├── "), under + ("    " if last else "│   ")
        if "pid" in child:
            yield from _rows(child, branch, further)
        else:
            more = Text(f"{branch}… {child['number']} more {printable(child['label'])}", style="dim")
            yield {**child, "pid": "", "status": "", "line": more}


def _cells(row: Mapping[str, Any]) -> list[Cell]:
    return [
        row["pid"].strip("<>").rpartition(".")[2],
        row["status"],
        *(str(row[key]) for key in ("mailbox", "reductions", "restarts")),
        size_text(row["memory"]),
        row["line"],
    ]


def trace(
    pid: Pid,
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, max=3600, help="How long at most.")] = 300,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="How many lines at most.")] = 1000,
) -> None:
    """Print a process's incoming and outgoing messages live, until it ends or Ctrl-C."""
    try:
        with _of(api, node, pid) as client:
            params: dict[str, str | float] = {"pid": pid, "seconds": seconds, "limit": limit}
            for line in client.stream("/api/v1/trace", params, patience=PATIENCE):
                sys.stdout.write(json_text(line) if json else _told(line))
                sys.stdout.write("\n")
                sys.stdout.flush()
    except KeyboardInterrupt:
        note("stopped; the process lives on")


def _told(line: Mapping[str, Any]) -> str:
    at = line["at"]
    clock = time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1_000_000):06d}"
    peer = f"{line['peer']}  " if line["peer"] else ""
    return printable(f"{clock} {ARROWS[line['way']]} {line['event']:<9} {peer}{line['text']}")


def _of(api: str, node: str | None, pid: str | None) -> ApiClient:
    """The API of ``node``, or of the node that ``pid`` names, or the one at ``api``."""
    found = re.fullmatch(r"<?(.+@.+)\.\d+>?", pid or "")
    return ApiClient(api, node=node or (str(found[1]) if found is not None else None))
