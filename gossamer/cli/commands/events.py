"""``gossamer events``: recent events of the nodes: members up and down, links, splits and heals.

Rules: 1. Each node reports what it saw itself; all are asked and sorted by time, as far as clocks agree.  2.
With ``--follow`` new events are printed as they come; a node that restarted is printed from its first event.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated

import typer

from gossamer.cli import completion
from gossamer.cli.client import DEFAULT_API, ApiClient, Gathered, Row
from gossamer.cli.command import Api, Json, Limit, OnNode, Watch
from gossamer.cli.render.keyboard import Keyboard
from gossamer.cli.render.output import json_text, note, print_line
from gossamer.cli.render.show import Listing, show
from gossamer.cli.render.table import printable
from gossamer.cli.root import example
from gossamer.errors import TransportError, UnavailableError, WrongValueError

__all__ = ["events", "news"]

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
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="Only these: up, down, link_down, healed …; repeat it.",
            autocompletion=completion.known(*KINDS),
        ),
    ] = None,
    peer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only of this node.", autocompletion=completion.nodes),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens next.")] = False,
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
