"""``gossamer alarms``: alarms of all nodes; a program may raise its own, and clear it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from gossamer.cli import completion
from gossamer.cli.client import ApiClient, Gathered, Row
from gossamer.cli.command import asks
from gossamer.cli.errors import Answer
from gossamer.cli.render.output import clock
from gossamer.cli.render.show import Listing, Note, Report
from gossamer.cli.root import noun
from gossamer.config import format_duration

__all__ = ["alarms", "merged", "nodes_text"]

alarms = noun("Alarms: partitions, heals, audits; raise or clear one.")


def merged(rows: Iterable[Row], *key: str) -> list[Row]:
    """Merge rows that agree in ``key`` into one with the ``nodes`` that have it."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        about = Answer({name: value for name, value in row.items() if name != "node"}, nodes=[])
        found.setdefault(tuple(row[part] for part in key), about)["nodes"].append(row["node"])
    return list(found.values())


def nodes_text(row: Row) -> str:
    """The node of a merged row, or how many."""
    names: list[str] = row["nodes"]
    return f"{len(names)} nodes" if len(names) > 1 else names[0]


@alarms.command("list")
@asks(node=True, watch=True)
def list_alarms(client: ApiClient) -> Listing:
    """List alarms of all nodes, or of one: partitions that last, and those that were healed."""
    found = client.listed("alarms")
    # A partition is reported by each node for itself; a heal is the same for all that took part.
    rows = sorted(merged(found, "plan", "text"), key=lambda row: (not row["active"], -float(row["since"])))
    return Listing(
        Gathered(rows, found.missing),
        {
            "ALARM": "name",
            "STATE": lambda row: "active" if row["active"] else "over",
            "SINCE": lambda row: clock(row["since"]),
            "FOR": lambda row: format_duration(max(0, int((row["until"] or time.time()) - row["since"]))),
            "NODE": nodes_text,
            "WHAT": "text",
        },
        empty="no alarms",
        key=3,
        restless=frozenset({"FOR"}),
    )


@alarms.command("raise")
@asks("backup.late 'no backup for two days'", node=True)
def raise_alarm(
    client: ApiClient,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lower case, such as backup.late.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Message for the operator.")] = "",
) -> Report:
    """Raise an alarm at a node, for a program that monitors the cluster from outside."""
    return _set(client, name=name, text=text, active=True)


@alarms.command("clear")
@asks("backup.late", node=True)
def clear_alarm(
    client: ApiClient,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="As the list shows it.", autocompletion=completion.alarms)
    ],
) -> Report:
    """Clear an alarm that was raised at a node."""
    return _set(client, name=name, active=False)


def _set(client: ApiClient, **body: str | bool) -> Report:
    alarm = client.post("alarms", body)
    state = "active" if alarm["active"] else "over"
    return Report(alarm, lambda: [Note(f"{alarm['name']} is {state}: {alarm['text']}")])
