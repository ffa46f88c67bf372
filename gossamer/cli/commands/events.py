"""``gossamer events`` and ``alarms``: what happened at the nodes, and what lasts.

Rules: 1. Each node reports what it saw itself; all are asked and sorted by time, as far as clocks agree.  2.
With ``--follow`` new events are printed as they come; a node that restarted is printed from its first event.
3. Programs may raise alarms of their own, and clear them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import typer

from gossamer.cli import completion
from gossamer.cli.client import DEFAULT_API, ApiClient, Gathered, Row
from gossamer.cli.command import Api, Json, Limit, OnNode, Watch, argument, asks, option
from gossamer.cli.errors import Answer
from gossamer.cli.render.keyboard import Keyboard
from gossamer.cli.render.output import clock, json_text, note, print_line
from gossamer.cli.render.show import Listing, Note, Report, show
from gossamer.cli.render.table import printable
from gossamer.cli.root import example, noun
from gossamer.config import format_duration
from gossamer.errors import TransportError, UnavailableError, WrongValueError

__all__ = ["alarms", "events", "merged", "news", "nodes_text"]

KINDS = (
    *("up", "suspected", "refuted", "down", "left", "link_up", "link_down", "partition", "confirmed", "plan"),
    *("coordinates", "reloaded", "healed", "removed"),
)
PERIOD = 1.0
"""Seconds between two looks of ``--follow``."""

Seen = set[tuple[str, int, float]]
"""Node, number and time of the events that were printed."""


@example("--kind down --kind up --limit 20", "--follow --json")
def events(
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    limit: Limit = None,
    kind: list[str] | None = option(
        None,
        "--kind",
        "Only these: up, down, link_down, healed …; repeat it.",
        completion.known(*KINDS),
        metavar="KIND",
    ),
    peer: str | None = option(None, "--peer", "Only of this node.", completion.nodes, metavar="NAME"),
    follow: bool = typer.Option(False, "--follow", "-f", help="Go on with what happens next."),
    watch: Watch = None,
) -> None:
    """List recent events of all nodes, or of one, latest last: members, links, splits, heals."""
    if follow and watch is not None:
        raise WrongValueError("--follow and --watch: got both, expected one of them")
    with ApiClient(api, node=node) as client:

        def latest() -> Gathered:
            found = client.listed("timeline", {"kind": ",".join(kind or ()), "peer": peer})
            # All of them: who did not answer is said at the end.
            return Gathered(list(found)[::-1], found.missing)

        if follow:
            _follow(latest, json=json, limit=limit)
            return

        def listing(most: int | None) -> Listing:
            found = latest()
            return Listing(
                # The last are the news.
                Gathered(list(found)[-most:] if most else found.items, found.missing),
                {"AT": _clock, "NODE": "node", "EVENT": "kind", "PEER": "peer", "WHAT": "text"},
                empty="nothing happened lately",
                key=5,
            )

        show(listing, json=json, watch=watch, limit=limit)


def _follow(latest: Callable[[], Gathered], *, json: bool, limit: int | None) -> None:
    seen: Seen = set()
    silent: Mapping[str, str] | None = None
    try:
        with Keyboard() as keyboard:
            while True:
                following = time.monotonic() + PERIOD
                try:
                    found = latest()
                except (TransportError, UnavailableError) as error:
                    if silent is None:
                        raise
                    now = {"": f"{error}; trying again"}
                else:
                    rows = news(found, seen)
                    for row in rows[-limit:] if silent is None and limit else rows:
                        print_line(json_text(row) if json else _line(row))
                    now = {name: f"{name} does not answer: {why}" for name, why in found.missing.items()}
                for name in now.keys() - (silent or {}).keys():
                    note(now[name])
                silent = now
                if keyboard.wait_for("q", until=following):
                    return
    except KeyboardInterrupt:
        pass


def news(rows: Iterable[Row], seen: Seen) -> list[Row]:
    """The rows that are not in ``seen``, which are in it afterwards."""
    found = {(row["node"], row["serial"], row["at"]): row for row in rows}
    new = [row for key, row in found.items() if key not in seen]
    seen.update(found)
    return new


def _clock(row: Row) -> str:
    at = float(row["at"])
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1000):03d}"


def _line(row: Row) -> str:
    line = f"{_clock(row)}  {row['node']}  {row['kind']:<12} {row['peer']}  {row['text']}"
    return printable(line.rstrip())


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
    name: str = argument(..., "NAME", "Lower case, such as backup.late."),
    text: str = argument("", "TEXT", "Message for the operator."),
) -> Report:
    """Raise an alarm at a node, for a program that monitors the cluster from outside."""
    return _set(client, name=name, text=text, active=True)


@alarms.command("clear")
@asks("backup.late", node=True)
def clear_alarm(
    client: ApiClient,
    name: str = argument(..., "NAME", "As the list shows it.", completion.alarms),
) -> Report:
    """Clear an alarm that was raised at a node."""
    return _set(client, name=name, active=False)


def _set(client: ApiClient, **body: str | bool) -> Report:
    alarm = client.post("alarms", body)
    state = "active" if alarm["active"] else "over"
    return Report(alarm, lambda: [Note(f"{alarm['name']} is {state}: {alarm['text']}")])
