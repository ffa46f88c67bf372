"""Commands that look inside a node: its supervision tree, and what one process does as it happens.

Rules: 1. The tree stands in the last column, so that the numbers stay in line however deep it is.  2. A
process is asked of the node that its pid names.  3. A trace ends by itself, or with Ctrl-C, which is not an
error.
"""

from __future__ import annotations

import json as json_format
import re
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.text import Text

from gossamer.cli.client import DEFAULT_API, ApiClient, NodeUnreachableError
from gossamer.cli.options import Api, Json, OnNode
from gossamer.cli.output import emit_json, note, print_tree, printable, size_text
from gossamer.errors import TransportError

__all__ = ["register"]

PATIENCE = 20.0
"""Seconds without a sign of life after which a node that is traced is given up."""

ARROWS = {"in": "<-", "out": "->", "": "  "}


class TracedElsewhereError(TransportError):
    """The node that a pid names cannot be asked from here."""

    def __init__(self, *, pid: str, node: str, reason: str) -> None:
        self.pid = pid
        self.node = node
        self.reason = reason
        super().__init__(
            f"{pid} is a process of {node}, whose API cannot be asked from here ({reason}); "
            "run the command on that machine, or name its API with --api"
        )


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    for command in (ps, trace):
        app.command()(command)


Pid = Annotated[
    str, typer.Argument(metavar="PID", help="node1@host.31, 31 of the node asked, or a registered name.")
]


def ps(
    root: Annotated[
        str | None, typer.Argument(metavar="[PID]", help="Only this process and those below it.")
    ] = None,
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    fold: Annotated[
        int, typer.Option("--fold", min=0, max=5000, help="List so many children of one kind.")
    ] = 20,
) -> None:
    """Draw a node's supervision tree: processes, their state, mailboxes, work done, restarts, memory."""
    with _of(api, node, root) as client:
        params: dict[str, str | int | bool] = {"fold": fold}
        if root is not None:
            params["root"] = root
        items = client.get("/api/v1/processes", params)
        name = client.get("/health")["name"]
    if json:
        emit_json({"node": name, "items": items})
        return
    rows = [row for item in items for row in _rows(item)]
    number = sum(row.get("number", 1) for row in rows)
    memory = size_text(sum(row["memory"] for row in rows))
    print_tree(
        f"{name}: {number} processes, {memory}",
        ["PID", "STATE", "MAILBOX", "REDUCTIONS", "RESTARTS", "MEMORY", "PROCESS"],
        ((_numbers(row), row["line"]) for row in rows),
    )


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


def _numbers(row: Mapping[str, Any]) -> list[str]:
    return [
        row["pid"].strip("<>").rpartition(".")[2],
        row["status"],
        *(str(row[key]) for key in ("mailbox", "reductions", "restarts")),
        size_text(row["memory"]),
    ]


def trace(
    pid: Pid,
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, max=3600, help="How long at most.")] = 300,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="How many lines at most.")] = 1000,
) -> None:
    """Show what a process takes in and sends out, as it happens, until it ends or Ctrl-C."""
    try:
        with _of(api, node, pid) as client:
            params: dict[str, str | float] = {"pid": pid, "seconds": seconds, "limit": limit}
            for line in client.stream("/api/v1/trace", params, patience=PATIENCE):
                sys.stdout.write(json_format.dumps(line, ensure_ascii=False) if json else _told(line))
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
    if node is None and found is None:
        return ApiClient(api)
    with ApiClient(api) as client:
        if node is not None:
            return client.node(node)
        named = str(found[1]) if found is not None else ""
        if client.get("/health")["name"] == named:
            return ApiClient(api)
        peer = client.node(named)
    try:
        peer.get("/health")
    except NodeUnreachableError as error:
        raise TracedElsewhereError(pid=str(pid), node=named, reason=error.reason) from error
    return peer
