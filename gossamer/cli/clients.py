"""``gossamer clients``: who is connected or has a session, and sending somebody away.

Rules: 1. Without a command it lists, as it always did.  2. Each node keeps its own clients, so all are asked,
and who does not answer is named.  3. A client is kicked by asking any one node.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from gossamer.cli.client import DEFAULT_API, ApiClient
from gossamer.cli.look import emit_gathered, gather, given, tell_missing
from gossamer.cli.options import Api, Json, Limit, OnNode
from gossamer.cli.output import emit_json, print_lines, print_table
from gossamer.config import format_duration

__all__ = ["app"]

app = typer.Typer(help="List clients and their sessions, or kick one.", invoke_without_command=True)


@app.callback()
def clients(
    context: typer.Context,
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    limit: Limit = None,
    client: Annotated[str | None, typer.Option("--client", help="Only this client.")] = None,
    connected: Annotated[
        bool | None, typer.Option("--connected/--disconnected", help="Only those that are, or are not.")
    ] = None,
) -> None:
    """List clients and their sessions on all nodes."""
    if context.invoked_subcommand is not None:
        return
    gathered = gather(api, node, "/api/v1/clients", given(client=client, connected=connected), limit)
    if json:
        emit_gathered(gathered)
        return
    print_table(
        ["CLIENT", "NODE", "STATE", "ADDRESS", "MQTT", "KEEPALIVE", "SUBSCRIPTIONS", "INFLIGHT", "QUEUED"],
        (
            [
                row["client"],
                row["node"],
                "connected" if row["connected"] else "away",
                row["address"],
                row["version"],
                format_duration(row["keepalive"]) if row["keepalive"] else "",
                row["subscriptions"],
                row["inflight"],
                row["queued"],
            ]
            for row in gathered.items
        ),
        empty="no clients",
    )
    tell_missing(gathered)


@app.command()
def kick(
    client: Annotated[str, typer.Argument(metavar="ID", help="A client identifier, of any node.")],
    api: Api = DEFAULT_API,
    json: Json = False,
) -> None:
    """End a client's connection and its session, on whichever node they are.

    What is queued for it is lost, and its will is published. It may connect again.
    """
    with ApiClient(api) as node:
        answer = node.delete(f"/api/v1/clients/{quote(client, safe='')}")
    if json:
        emit_json(answer)
        return
    print_lines(str(answer["done"]))
