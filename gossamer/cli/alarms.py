"""``gossamer alarms``: what an operator has to know, of all nodes; raise one for a program, clear it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from gossamer.cli import values
from gossamer.cli.client import DEFAULT_API, ApiClient
from gossamer.cli.noun import noun
from gossamer.cli.options import Api, Json, OnNode, Watch
from gossamer.cli.output import clock, emit_json, note
from gossamer.cli.refusals import Answer
from gossamer.cli.show import Listing, Missing, ask, show
from gossamer.config import format_duration

__all__ = ["alarms", "once"]

alarms = noun("What an operator has to know: partitions, heals, audits; raise or clear one.")
_PATH = "/api/v1/alarms"


@alarms.command("list")
def list_alarms(api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None) -> None:
    """List alarms of all nodes, or of one: partitions that last, and those that were healed."""
    with ask(api) as client:
        show(lambda _: _listing(client, node), json=json, watch=watch)


def _listing(client: ApiClient, node: str | None) -> Listing:
    gathered = client.gather(_PATH, node=node)
    # A partition is one of its node; a heal is the same for all that took part.
    items = once(gathered.items, "plan", "text")
    items.sort(key=lambda alarm: (not alarm["active"], -float(alarm["since"])))
    return Listing(
        Missing(items, gathered.missing),
        ["ALARM", "STATE", "SINCE", "FOR", "NODE", "WHAT"],
        lambda alarm: [
            alarm["name"],
            "active" if alarm["active"] else "over",
            clock(alarm["since"]),
            format_duration(max(0, int((alarm["until"] or time.time()) - alarm["since"]))),
            f"{len(alarm['nodes'])} nodes" if len(alarm["nodes"]) > 1 else alarm["nodes"][0],
            alarm["text"],
        ],
        empty="no alarms",
        key=3,
        restless=frozenset({"FOR"}),
    )


Name = Annotated[str, typer.Argument(metavar="NAME", help="Lower case, such as backup.late.")]


Raised = Annotated[
    str, typer.Argument(metavar="NAME", help="As the list shows it.", autocompletion=values.alarms)
]


@alarms.command("raise")
def raise_alarm(
    name: Name,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to know.")] = "",
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
) -> None:
    """Raise an alarm at a node, for a program that watches the cluster from beside it."""
    _order(api, node, {"name": name, "text": text, "active": True}, json=json)


@alarms.command("clear")
def clear_alarm(name: Raised, api: Api = DEFAULT_API, node: OnNode = None, json: Json = False) -> None:
    """Say that an alarm that was raised at a node is over."""
    _order(api, node, {"name": name, "active": False}, json=json)


def _order(api: str, node: str | None, order: dict[str, Any], *, json: bool) -> None:
    with ask(api, node) as client:
        alarm = client.post(_PATH, order)
    if json:
        emit_json(alarm)
        return
    note(f"{alarm['name']} is {'active' if alarm['active'] else 'over'}: {alarm['text']}")


def once(items: Iterable[dict[str, Any]], *key: str) -> list[dict[str, Any]]:
    """Each once, with the ``nodes`` that have it."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for item in items:
        about = Answer({name: value for name, value in item.items() if name != "node"}, nodes=[])
        name = tuple(item[part] for part in key)
        found.setdefault(name, about)["nodes"].append(item["node"])
    return list(found.values())
