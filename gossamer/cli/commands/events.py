"""``gossamer events`` and ``alarms``: what happened at the nodes, and what lasts.

Rules: 1. Each node reports what it saw itself; all are asked and sorted by time, as far as clocks agree.  2.
With ``--follow`` new events are printed as they come; a node that restarted is printed from its first event.
3. Programs may raise alarms of their own, and clear them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import typer

from gossamer.cli import completion, values
from gossamer.cli.client import DEFAULT_API, ApiClient, Gathered, Row
from gossamer.cli.command import Api, Json, Limit, OnNode, Watch, argument, asks, option
from gossamer.cli.errors import Answer, NotNowError, UnknownNameError
from gossamer.cli.render.output import clock, json_text, note, print_line, printable
from gossamer.cli.render.show import Listing, Note, Rendered, Report, show
from gossamer.cli.render.watch import watch_it
from gossamer.cli.root import example, noun
from gossamer.config import format_duration
from gossamer.errors import WrongValueError

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
        callback=values.one_of(KINDS),
    ),
    peer: str | None = option(None, "--peer", "Only of this node.", completion.nodes, metavar="NAME"),
    follow: bool = typer.Option(False, "--follow", "-f", help="Go on with what happens next."),
    watch: Watch = None,
) -> None:
    """List recent events: members, links, splits, heals.

    Those of all nodes, or of one, latest last.
    """
    if follow and watch is not None:
        raise WrongValueError("--follow and --watch: got both, expected one of them")
    with ApiClient(api, node=node) as client:

        def listing(most: int | None) -> Listing:
            found = client.listed("timeline", {"kind": ",".join(kind or ()), "peer": peer})
            # All of them: who did not answer is said at the end. The first are the news.
            items = list(found)[:most][::-1]
            return Listing(
                Gathered(items, found.missing),
                {"AT": _clock, "NODE": "node", "EVENT": "kind", "PEER": "peer", "WHAT": "text"},
                empty="nothing happened lately",
                key=5,
            )

        if follow:
            draw = _Follower(json=json, limit=limit).draw
            watch_it(lambda _: listing(None), seconds=PERIOD, json=json, draw=draw)
        else:
            show(listing, json=json, watch=watch, limit=limit)


class _Follower:
    """Prints what is new in each round, ``limit`` of what was before, and once who does not answer."""

    def __init__(self, *, json: bool, limit: int | None) -> None:
        self._json = json
        self._limit = limit
        self._seen: Seen = set()
        self._silent: set[str] = set()

    def draw(self, now: Rendered | str) -> None:
        """Print a round, or why there is none."""
        if isinstance(now, Listing):
            rows = news(now.items, self._seen)
            for row in rows[-self._limit :] if self._limit else rows:
                print_line(json_text(row) if self._json else _line(row))
            self._limit = None
            silent = {name: f"{name} does not answer: {why}" for name, why in now.missing.items()}
        else:
            silent = {"": f"{now}; trying again"}
        for name in silent.keys() - self._silent:
            note(silent[name])
        self._silent = set(silent)


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


alarms = noun()


def merged(rows: Iterable[Row], *key: str) -> list[Row]:
    """Merge rows that agree in ``key`` into one with the ``nodes`` that have it."""
    found: dict[tuple[object, ...], Row] = {}
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
    )


@alarms.command("raise")
@asks("backup.late 'no backup for two days'", node=True)
def raise_alarm(
    client: ApiClient,
    name: str = argument(..., "NAME", "Lower case, such as backup.late."),
    text: str = argument("", "TEXT", "Message for the operator."),
) -> Report:
    """Raise an alarm at a node, for a program that monitors the cluster from outside."""
    return _report(client.post("alarms", _request(name=name, text=text, active=True)))


@alarms.command("clear")
@asks("backup.late", node=True)
def clear_alarm(
    client: ApiClient,
    name: str = argument(..., "NAME", "As the list shows it.", completion.alarms),
) -> Report:
    """Clear an alarm that a program raised: at every node where it is active, or at one."""
    body = _request(name=name, active=False)
    if client.asked is not None:
        return _report(client.post("alarms", body))
    found = client.listed("alarms")
    rows = list(found)
    raised = [row for row in rows if row["name"] == name]
    nodes = sorted(row["node"] for row in raised if row["active"])
    if not nodes and found.missing:
        silent = ", ".join(f"{node} did not answer: {why}" for node, why in found.missing.items())
        raise NotNowError(
            f"{name} is active at no node that answers, and {silent}; try again when it does: "
            "a node that restarts has forgotten the alarms that programs raised there"
        )
    if not raised:
        known = sorted({str(row["name"]) for row in rows if row["active"]})
        raise UnknownNameError(kind="alarm", name=name, known=known, see="gossamer alarms")
    alarms = []
    # One that is over everywhere may be cleared again.
    for node in nodes or [raised[0]["node"]]:
        with client.node(node) as peer:
            alarms.append(peer.post("alarms", body))
    return _report(alarms[0], nodes)


def _request(**body: str | bool) -> dict[str, object]:
    from gossamer.api.model.cluster import AlarmRequest

    return values.order(AlarmRequest, body, {"name": "NAME", "text": "TEXT"})


def _report(alarm: Row, nodes: Sequence[str] = ()) -> Report:
    state = "active" if alarm["active"] else "over"
    where = f" at {', '.join(nodes)}" if nodes else ""
    why = f": {alarm['text']}" if alarm["text"] else ""
    return Report(alarm, lambda: [Note(f"{alarm['name']} is {state}{where}{why}")])
