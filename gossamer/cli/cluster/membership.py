"""``gossamer cluster``: status, members and the evidence for what is said of them; join, leave; keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

from gossamer.cli import names
from gossamer.cli.api.client import DEFAULT_API, ApiClient
from gossamer.cli.cluster.keys import app as keys
from gossamer.cli.cluster.members import members
from gossamer.cli.options import Api, Json, OnNode, Watch
from gossamer.cli.render.output import ago, emit_json, ports_text, print_lines
from gossamer.cli.render.show import Part, Report, show, show_part
from gossamer.cli.render.table import Grid
from gossamer.config import format_duration

__all__ = ["app", "print_status", "status_parts"]

app = typer.Typer(help="Membership: status, members, join, leave, gossip keys.", no_args_is_help=True)
app.add_typer(keys, name="keys")
app.command()(members)

# Joining waits for tables, leaving for the news to spread, draining for clients and sessions to move.
_PATIENT = 60.0
_PATIENT_DRAIN = 600.0


@app.command()
def status(api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None) -> None:
    """Show a node's state and every member as that node sees it."""
    with ApiClient(api, node=node) as client:
        show(lambda _: _report(client.document("/api/v1/status")), json=json, watch=watch)


def _report(answer: dict[str, Any]) -> Report:
    return Report(answer, lambda: status_parts(answer))


def print_status(answer: dict[str, Any]) -> None:
    """Print what ``GET /api/v1/status`` answers, for people."""
    for part in status_parts(answer):
        show_part(part)


def status_parts(answer: dict[str, Any]) -> Iterable[Part]:
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
def join(
    endpoints: Annotated[list[str], typer.Argument(metavar="ENDPOINT…", help="Such as 10.0.0.2:7946.")],
    api: Api = DEFAULT_API,
    json: Json = False,
) -> None:
    """Make the node join the cluster that answers at one of the gossip endpoints."""
    _order(api, "join", {"endpoints": endpoints}, as_json=json)


@app.command()
def leave(
    drain: Annotated[
        bool, typer.Option("--drain", help="First send its clients, and their sessions, to other nodes.")
    ] = False,
    api: Api = DEFAULT_API,
    json: Json = False,
) -> None:
    """Make the node leave the cluster; it lives on alone and does not come back by itself."""
    if drain:
        with ApiClient(api, timeout=_PATIENT_DRAIN) as client:
            drained = client.post("/api/v1/cluster/drain", {})["done"]
        if not json:
            print_lines(str(drained))
    _order(api, "leave", {}, as_json=json)


@app.command("force-leave")
def force_leave(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Such as node3@10.0.0.4.", autocompletion=names.nodes)
    ],
    api: Api = DEFAULT_API,
    json: Json = False,
) -> None:
    """Remove a member that is gone for good, so that nobody waits for it."""
    _order(api, "force-leave", {"name": name}, as_json=json)


def _order(api: str, order: str, body: dict[str, Any], *, as_json: bool) -> None:
    with ApiClient(api, timeout=_PATIENT) as client:
        answer = client.post(f"/api/v1/cluster/{order}", body)
    if as_json:
        emit_json(answer)
        return
    print_lines(f"{answer['done']}\n")
    show_part(_members(answer["members"]))


def _members(members: Sequence[dict[str, Any]]) -> Grid:
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
