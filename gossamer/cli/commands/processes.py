"""Commands that look inside a node: its supervision tree, what one process does, its log level; a backup;
the ranges of keys that nodes have together.

Rules: 1. The tree stands in the last column, so that the numbers stay in line however deep it is.  2. A
process is asked of the node that its pid names, through the one at hand.  3. A trace ends by itself, or with
Ctrl-C, which is not an error.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext

from rich.text import Text

from gossamer.cli import completion, values
from gossamer.cli.client import DEFAULT_API, ApiClient, Gathered, Params, Row
from gossamer.cli.command import AllNodes, Api, Json, OnNode, argument, asks, option
from gossamer.cli.errors import OptionError
from gossamer.cli.render.output import Cell, Grid, json_text, note, print_line, printable, size_text
from gossamer.cli.render.show import Listing, Note, Part, Report
from gossamer.cli.root import example, noun

SILENCE = 20.0
"""Seconds without a sign of life after which a node that is traced is given up."""

ARROWS = {"in": "<-", "out": "->", "": "  "}


@asks("--node node2@10.0.0.2", "mqtt --fold 5", watch=True)
def ps(
    client: ApiClient,
    root: str | None = argument(None, "PID", "Only this process and those below it.", completion.processes),
    node: OnNode = None,
    fold: int = option(20, "--fold", "List so many children of one kind.", min=0, max=5000),
) -> Report:
    """Draw a node's supervision tree.

    Of each process its state, mailbox, work done, restarts and memory.
    """
    at = _node_of(node, root)
    with nullcontext(client) if at is None else client.node(at) as asked:
        items = asked.rows("processes", {"fold": fold, "root": root})
        name = at or asked.document("/health")["name"]

    def parts() -> Iterable[Part]:
        rows = [row for item in items for row in _rows(item)]
        number = sum(row.get("number", 1) for row in rows)
        memory = size_text(sum(row["memory"] for row in rows))
        yield Grid(
            ["PID", "STATE", "MAILBOX", "REDUCTIONS", "RESTARTS", "MEMORY", "PROCESS"],
            [_cells(row) for row in rows],
            title=f"{name}: {number} processes, {memory}",
            numbers=frozenset({"PID", "MAILBOX", "REDUCTIONS", "RESTARTS", "MEMORY"}),
        )

    return Report({"node": name, "items": items}, parts)


def _rows(item: Row, lead: str = "", under: str = "") -> Iterator[Row]:
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


def _cells(row: Row) -> list[Cell]:
    return [
        row["pid"].strip("<>").rpartition(".")[2],
        row["status"],
        *(str(row[key]) for key in ("mailbox", "reductions", "restarts")),
        size_text(row["memory"]),
        row["line"],
    ]


@example("node1@10.0.0.1.31 --seconds 30")
def trace(
    pid: str = argument(
        ..., "PID", "node1@host.31, 31 of the node asked, or a registered name.", completion.processes
    ),
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    seconds: float = option(300, "--seconds", "How long at most.", min=0.1, max=3600),
    limit: int = option(1000, "--limit", "How many lines at most.", min=1, max=100_000),
) -> None:
    """Print a process's incoming and outgoing messages live.

    Until it ends, or Ctrl-C.
    """
    try:
        with ApiClient(api, node=_node_of(node, pid)) as client:
            params: Params = {"pid": pid, "seconds": seconds, "limit": limit}
            for line in client.stream("trace", params, silence=SILENCE):
                print_line(json_text(line) if json else _line(line))
    except KeyboardInterrupt:
        note("stopped; the process lives on")


def _line(line: Row) -> str:
    at = line["at"]
    clock = time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1_000_000):06d}"
    peer = f"{line['peer']}  " if line["peer"] else ""
    return printable(f"{clock} {ARROWS[line['way']]} {line['event']:<9} {peer}{line['text']}")


def _node_of(node: str | None, pid: str | None) -> str | None:
    """``node``, or the node that ``pid`` names, or None for the one that is asked."""
    found = re.fullmatch(r"<?(.+@.+)\.\d+>?", pid or "")
    return node or (str(found[1]) if found is not None else None)


LEVELS = ("debug", "info", "warning", "error")
_BACKUP_TIMEOUT = 320.0

log_level = noun("show")


def meant(client: ApiClient, node: str | None, *, everywhere: bool) -> str | None:
    """The node that a change is for: that of ``--node``, or the one that is asked; None for all of them."""
    return node if node is not None or everywhere else str(client.document("/health")["name"])


@log_level.command("show")
@asks(watch=True)
def show_levels(client: ApiClient, node: OnNode = None) -> Listing:
    """Show the log level of each node, or of one."""
    return _levels(client.each(lambda peer: peer.document("log-level"), node=node))


@log_level.command("set")
@asks("debug --node node2@10.0.0.2")
def set_level(
    client: ApiClient,
    level: str = argument(
        ...,
        "LEVEL",
        f"{', '.join(LEVELS)}.",
        completion.known(*LEVELS),
        callback=values.one_of(LEVELS),
    ),
    node: OnNode = None,
    everywhere: AllNodes = False,
) -> Listing:
    """Set the log level of a node, or of all, until the next restart."""
    node = meant(client, node, everywhere=everywhere)
    return _levels(client.each(lambda peer: peer.put("log-level", {"level": level}), node=node))


def _levels(answers: Gathered) -> Listing:
    return Listing(answers, {"NODE": "node", "LEVEL": "level"}, empty="no node answered")


@asks("", "--node node2@10.0.0.2 --to /mnt/backups/node2.db", node=True, timeout=_BACKUP_TIMEOUT)
def backup(
    client: ApiClient,
    to: str | None = option(
        None,
        "--to",
        "A new file on the node's machine, from / on (default: in backups of its data directory).",
        metavar="PATH",
        callback=values.absolute,
        show_default=False,
    ),
) -> Report:
    """Back up what a running node has on disc to one file.

    Its sessions, queues and tables, on its own machine.
    """
    made = client.post("backup", {"path": to})

    def parts() -> Iterable[Part]:
        yield printable(made["path"])
        yield Note(f"{size_text(made['bytes'])} of {made['node']} in {made['seconds']:.1f} s")

    return Report(made, parts)


ranges = noun()


@ranges.command("list")
@asks("--watch", node=True, watch=True)
def list_ranges(client: ApiClient) -> Listing:
    """List the ranges in the order of their keys: borders, about how large they are, and who leads them."""
    return _ranges(client.rows("ranges"))


@ranges.command("split")
@asks("4f80")
def split_range(
    client: ApiClient,
    key: str = argument(..., "KEY", "The first key of the range that begins, in hexadecimal."),
) -> Listing:
    """Have the range of a key end before it, and another begin with it."""
    try:
        border = bytes.fromhex(key)
    except ValueError:
        raise OptionError("KEY", got=key, expected="a key in hexadecimal, such as 4f80") from None
    return _ranges([client.post("ranges/split", {"key": border.hex()})])


@ranges.command("merge")
@asks("0")
def merge_range(
    client: ApiClient,
    number: int = argument(..., "RANGE", "The range that grows, by its number.", min=0),
) -> Listing:
    """Have a range take over its neighbour on the right; the list shows when it has."""
    return _ranges([client.post("ranges/merge", {"range": number})])


def _ranges(rows: Sequence[Row]) -> Listing:
    return Listing(
        list(rows),
        {
            "RANGE": "range",
            "FROM": lambda row: row["start"] or "-",
            "UP TO": lambda row: row["end"] or "-",
            "VERSION": "version",
            "ABOUT": lambda row: "-" if row["size"] is None else size_text(row["size"]),
            "LEADER": lambda row: row["leader"] or "-",
        },
        empty="no ranges",
    )
