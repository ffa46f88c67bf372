"""``gossamer cluster``: status, members and the evidence for what is said of them; join, leave; keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import typer

from gossamer.cli.client import ApiClient, Row
from gossamer.cli.command import NodeName, asks
from gossamer.cli.commands.keys import app as keys
from gossamer.cli.errors import Answer
from gossamer.cli.render.output import ago, ports_text
from gossamer.cli.render.show import Part, Report
from gossamer.cli.render.table import Grid
from gossamer.config import format_duration

__all__ = ["app", "status_parts"]

app = typer.Typer(help="Membership: status, members, join, leave, gossip keys.", no_args_is_help=True)
app.add_typer(keys, name="keys")

# Joining waits for tables, leaving for the news to spread, draining for clients and sessions to move.
_TIMEOUT = 60.0
_DRAIN_TIMEOUT = 600.0


@app.command()
@asks("--watch", node=True, watch=True)
def status(client: ApiClient) -> Report:
    """Show a node's state and every member as that node sees it."""
    answer = client.document("status")
    return Report(answer, lambda: status_parts(answer))


def status_parts(answer: Row) -> Iterable[Part]:
    """What ``GET /api/v1/status`` answers, for people."""
    yield (
        f"{answer['name']} is {answer['state']} in cluster {answer['env']}, "
        f"up {format_duration(int(answer['uptime']))}, {answer['connections']} connections\n"
    )
    yield _members(answer["members"])
    if answer["hints"]:
        yield "\nSigns of a network fault, the latest first:"
        # A fault that lasts is hinted at again and again, in the same words.
        folded: dict[tuple[str, str], list[float]] = {}
        for hint in answer["hints"]:
            folded.setdefault((hint["kind"], hint["text"]), []).append(hint["at"])
        yield Grid(
            ["AGO", "TIMES", "KIND", "WHAT IT MEANS"],
            [[ago(seen[0]), len(seen), kind, text] for (kind, text), seen in folded.items()],
            restless=frozenset({"AGO"}),
        )


@app.command()
@asks(node=True, watch=True)
def members(client: ApiClient) -> Report:
    """List the members with the evidence: who sees them how, by gossip and by link, and signs of faults."""
    pulses = client.each(lambda peer: peer.document("pulse"))
    sights = {pulse["node"]: pulse["sees"] for pulse in pulses}

    def seen_by(name: str) -> Row:
        return {other: seen[name] for other, seen in sights.items() if other != name and name in seen}

    items = [
        Answer(row, seen_by=seen_by(row["name"]))
        for row in sorted(client.rows("members"), key=lambda row: str(row["name"]))
    ]

    def cells(row: Row) -> list[object]:
        return [
            row["name"],
            row["status"],
            row["incarnation"],
            _evidence(row["seen_by"]),
            " ".join(row["hints"]),
        ]

    def parts() -> Iterable[Part]:
        columns = ["MEMBER", "STATUS", "INCARNATION", "SEEN BY", "SIGNS OF FAULTS"]
        yield Grid(columns, [cells(row) for row in items], "no members")

    return Report({"items": items, "missing": pulses.missing}, parts, pulses.missing)


def _evidence(seen_by: Mapping[str, Row]) -> str:
    """``all`` where they agree that all is well, else who sees what."""
    if seen_by and all(seen["status"] == "online" and seen["link"] == "up" for seen in seen_by.values()):
        return f"all {len(seen_by)}: online, link up"
    return "; ".join(f"{name}: {seen['status']}, link {seen['link']}" for name, seen in seen_by.items())


@app.command()
@asks("10.0.0.1:7946 10.0.0.2:7946", timeout=_TIMEOUT)
def join(
    client: ApiClient,
    endpoints: Annotated[list[str], typer.Argument(metavar="ENDPOINT…", help="Such as 10.0.0.2:7946.")],
) -> Report:
    """Make the node join the cluster that answers at one of the gossip endpoints."""
    return _changed(client.post("cluster/join", {"endpoints": endpoints}))


@app.command()
@asks("--drain", timeout=_DRAIN_TIMEOUT)
def leave(
    client: ApiClient,
    drain: Annotated[
        bool, typer.Option("--drain", help="First send its clients, and their sessions, to other nodes.")
    ] = False,
) -> Report:
    """Make the node leave the cluster; it lives on alone and does not come back by itself."""
    drained = [str(client.post("cluster/drain")["done"])] if drain else []
    return _changed(client.post("cluster/leave"), *drained)


@app.command("force-leave")
@asks("node3@10.0.0.3", timeout=_TIMEOUT)
def force_leave(client: ApiClient, name: NodeName) -> Report:
    """Remove a member that is permanently gone, so that nobody waits for it."""
    return _changed(client.post("cluster/force-leave", {"name": name}))


def _changed(answer: Row, *before: str) -> Report:
    return Report(answer, lambda: [*before, f"{answer['done']}\n", _members(answer["members"])])


def _members(members: Sequence[Row]) -> Grid:
    return Grid(
        ["MEMBER", "STATUS", "ADDRESS", "INCARNATION", "UP", "PID", "PORTS"],
        [
            [
                f"{row['name']}{' (asked)' if row['local'] else ''}",
                row["status"],
                f"{row['address']}:{row['port']}",
                row["incarnation"],
                ago(row["started_at"]),
                row["pid"] or "",
                ports_text(row["ports"]),
            ]
            for row in sorted(members, key=lambda row: str(row["name"]))
        ],
        "no members",
        restless=frozenset({"UP"}),
    )
