"""``gossamer cluster``: status, join, leave, force-leave, keys."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gossamer.cli.client import DEFAULT_API, ApiClient
from gossamer.cli.keys import app as keys
from gossamer.cli.options import Api, Json
from gossamer.cli.output import ago, emit_json, ports_text, print_lines, print_table
from gossamer.config import format_duration

__all__ = ["app"]

app = typer.Typer(help="Who is in the cluster; join and leave.", no_args_is_help=True)
app.add_typer(keys, name="keys")

# Joining waits for tables, leaving for the news to spread, draining for clients and sessions to move.
_PATIENT = 60.0
_PATIENT_DRAIN = 600.0


@app.command()
def status(api: Api = DEFAULT_API, json: Json = False) -> None:
    """Show a node's state and every member as that node sees it."""
    with ApiClient(api) as client:
        answer = client.get("/api/v1/status")
    if json:
        emit_json(answer)
    else:
        print_status(answer)


def print_status(answer: dict[str, Any]) -> None:
    """What ``GET /api/v1/status`` answers, for people."""
    print_lines(
        f"{answer['name']} is {answer['state']} in cluster {answer['env']}, "
        f"up {format_duration(int(answer['uptime']))}, {answer['connections']} connections\n"
    )
    _print_members(answer["members"])
    if answer["hints"]:
        print_lines("\nSigns of a network fault, the latest first:")
        # A fault that lasts is hinted at again and again, in the same words.
        folded: dict[tuple[str, str], list[float]] = {}
        for hint in answer["hints"]:
            folded.setdefault((hint["kind"], hint["text"]), []).append(hint["at"])
        print_table(
            ["AGO", "TIMES", "KIND", "WHAT IT MEANS"],
            ([ago(seen[0]), len(seen), kind, text] for (kind, text), seen in folded.items()),
            empty="none",
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
    name: Annotated[str, typer.Argument(metavar="NAME", help="Such as node3@10.0.0.4.")],
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
    _print_members(answer["members"])


def _print_members(members: list[dict[str, Any]]) -> None:
    print_table(
        ["MEMBER", "STATUS", "ADDRESS", "INCARNATION", "UP", "PID", "PORTS"],
        (
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
        ),
        empty="no members",
    )
