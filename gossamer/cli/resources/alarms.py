"""``gossamer alarms``: alarms of all nodes; a program may raise its own, and clear it."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from gossamer.cli import names
from gossamer.cli.api.client import DEFAULT_API, ApiClient
from gossamer.cli.nouns import noun
from gossamer.cli.options import Api, Json, OnNode
from gossamer.cli.render.output import clock, print_result
from gossamer.cli.resources.listing import Resource, add_list, gathered, nodes_text
from gossamer.config import format_duration

__all__ = ["alarms"]

alarms = noun("Alarms: partitions, heals, audits; raise or clear one.")

add_list(
    alarms,
    Resource(
        path="alarms",
        says="List alarms of all nodes, or of one: partitions that last, and those that were healed.",
        columns={
            "ALARM": "name",
            "STATE": lambda row: "active" if row["active"] else "over",
            "SINCE": lambda row: clock(row["since"]),
            "FOR": lambda row: format_duration(max(0, int((row["until"] or time.time()) - row["since"]))),
            "NODE": nodes_text,
            "WHAT": "text",
        },
        empty="no alarms",
        # A partition is reported by each node for itself; a heal is the same for all that took part.
        fetch=gathered("plan", "text", order=lambda row: (not row["active"], -float(row["since"]))),
        each_node=True,
        key=3,
        restless=frozenset({"FOR"}),
    ),
)


@alarms.command("raise")
def raise_alarm(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lower case, such as backup.late.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Message for the operator.")] = "",
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
) -> None:
    """Raise an alarm at a node, for a program that monitors the cluster from outside."""
    _set(api, node, {"name": name, "text": text, "active": True}, json=json)


@alarms.command("clear")
def clear_alarm(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="As the list shows it.", autocompletion=names.alarms)
    ],
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
) -> None:
    """Clear an alarm that was raised at a node."""
    _set(api, node, {"name": name, "active": False}, json=json)


def _set(api: str, node: str | None, body: dict[str, Any], *, json: bool) -> None:
    with ApiClient(api, node=node) as client:
        alarm = client.post("/api/v1/alarms", body)
    state = "active" if alarm["active"] else "over"
    print_result(alarm, f"{alarm['name']} is {state}: {alarm['text']}", json=json)
