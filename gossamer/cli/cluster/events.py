"""``gossamer events``: recent events of the nodes: members up and down, links, splits and heals.

Rules: 1. Each node reports what it saw itself; all are asked and sorted by time, as far as clocks agree.  2.
With ``--follow`` new events are printed as they come; a node that restarted is printed from its first event.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from gossamer.cli import names
from gossamer.cli.api.client import DEFAULT_API, ApiClient, Gathered
from gossamer.cli.api.errors import Answer
from gossamer.cli.options import Api, Json, Limit, OnNode, Watch
from gossamer.cli.render.keyboard import Keyboard
from gossamer.cli.render.output import json_text, note
from gossamer.cli.render.show import Listing, show
from gossamer.cli.render.table import printable
from gossamer.errors import TransportError, UnavailableError, WrongValueError

__all__ = ["events", "new_events"]

KINDS = (
    *("up", "suspected", "refuted", "down", "left", "link_up", "link_down", "partition", "confirmed", "plan"),
    *("coordinates", "reloaded", "healed", "removed"),
)
PERIOD = 1.0
"""Seconds between two looks of ``--follow``."""
_PATH = "/api/v1/events"
_ALL = 10_000

Row = dict[str, Any]
Seen = dict[str, tuple[int, int]]
"""Of each node its life, and the number of the last event that was told of it."""


def events(
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    limit: Limit = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            metavar="KIND",
            help="Only these: up, down, link_down, healed …; repeat it.",
            autocompletion=names.known(*KINDS),
        ),
    ] = None,
    peer: Annotated[
        str | None,
        typer.Option("--peer", metavar="NAME", help="Only of this node.", autocompletion=names.nodes),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens next.")] = False,
    watch: Watch = None,
) -> None:
    """List recent events of all nodes, or of one, latest last: members, links, splits, heals."""
    if follow and watch is not None:
        raise WrongValueError("--follow and --watch: got both, expected one of them")

    def wanted(row: Row) -> bool:
        return (not kind or row["kind"] in kind) and peer in (None, row["peer"])

    with ApiClient(api) as client:
        if follow:
            _follow(client, node, wanted, json=json, limit=limit)
            return

        def listing(most: int | None) -> Listing:
            answers = client.get_all(f"{_PATH}?limit={_ALL}", node=node)
            items = [row for row in new_events(answers.items, {}) if wanted(row)]
            return Listing(
                # The last are the news.
                Gathered(items[-most:] if most else items, answers.missing),
                {"AT": _clock, "NODE": "node", "EVENT": "kind", "PEER": "peer", "WHAT": "text"},
                empty="nothing happened lately",
                key=5,
            )

        show(listing, json=json, watch=watch, limit=limit)


def new_events(answers: list[Row], seen: Seen) -> list[Row]:
    """What the nodes tell that is not in ``seen``, by time, which is in ``seen`` afterwards."""
    rows: list[Row] = []
    for answer in answers:
        name, creation = answer["node"], answer["creation"]
        life, last = seen.get(name, (creation, 0))
        rows += (
            Answer(row, node=name) for row in answer["items"] if life != creation or row["serial"] > last
        )
        if answer["items"]:
            seen[name] = (creation, answer["items"][-1]["serial"])
    return sorted(rows, key=lambda row: float(row["at"]))


def _follow(
    client: ApiClient, node: str | None, wanted: Callable[[Row], bool], *, json: bool, limit: int | None
) -> None:
    seen: Seen = {}
    try:
        with Keyboard() as keyboard:
            for row in _coming(client, node, keyboard, seen, first=limit):
                if wanted(row):
                    sys.stdout.write((json_text(row) if json else _line(row)) + "\n")
                    sys.stdout.flush()
    except KeyboardInterrupt:
        pass


def _coming(
    client: ApiClient, node: str | None, keyboard: Keyboard, seen: Seen, *, first: int | None
) -> Iterator[Row]:
    begun, silent = False, set[str]()
    while True:
        following = time.monotonic() + PERIOD
        try:
            answers = client.get_all(f"{_PATH}?limit={_ALL}", node=node)
        except (TransportError, UnavailableError) as error:
            if not begun:
                raise
            if "" not in silent:
                note(f"{error}; trying again")
            silent.add("")
        else:
            silent.discard("")
            rows = new_events(answers.items, seen)
            yield from rows if begun or first is None else rows[-first:]
            for name in answers.missing.keys() - silent:
                note(f"{name} does not answer: {answers.missing[name]}")
            silent = set(answers.missing)
            begun = True
        if keyboard.wait_for("q", until=following):
            return


def _clock(row: Row) -> str:
    at = float(row["at"])
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1000):03d}"


def _line(row: Row) -> str:
    line = f"{_clock(row)}  {row['node']}  {row['kind']:<12} {row['peer']}  {row['text']}"
    return printable(line.rstrip())
