"""Commands that look: nodes, topics, subscriptions, tables.

Rules: 1. What is replicated is asked of one node; what each node keeps for itself (clients, subscriptions) is
asked of all, and who does not answer is named.  2. ``--json`` prints ``{"items": […]}`` with the API's keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Annotated, Any

import typer

from gossamer.cli.client import DEFAULT_API, ApiClient, Gathered
from gossamer.cli.exits import ExitCode
from gossamer.cli.options import Api, Json, Limit, OnNode
from gossamer.cli.output import ago, emit_json, note, ports_text, print_table

__all__ = ["ask", "emit_gathered", "gather", "given", "register", "tell_missing"]

Items = Iterable[dict[str, Any]]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    # They stand on this module.
    from gossamer.cli import clients, routes

    app.add_typer(routes.app, name="routes")
    app.add_typer(clients.app, name="clients")
    for command in (nodes, topics, subscriptions, tables):
        app.command()(command)


def nodes(api: Api = DEFAULT_API, json: Json = False) -> None:
    """List the nodes of the cluster and this node's links to them."""
    with ApiClient(api) as client:
        items = sorted(client.get("/api/v1/nodes"), key=lambda row: str(row["name"]))
    if json:
        emit_json({"items": items})
        return
    print_table(
        ["NAME", "STATUS", "LINK", "ROUTES", "UP", "PID", "PORTS"],
        (
            [
                row["name"],
                row["status"],
                row["link"],
                row["routes"],
                ago(row["started_at"]),
                row["pid"] or "",
                ports_text(row["ports"]),
            ]
            for row in items
        ),
        empty="no nodes",
    )


def topics(
    topic: Annotated[str | None, typer.Argument(help="Tell where a message to this topic would go.")] = None,
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    limit: Limit = None,
) -> None:
    """List the filters that have subscribers, or tell where a message to TOPIC would go, and why."""
    with ask(api, node) as client:
        if topic is not None:
            _print_match(client.get("/api/v1/topics/match", {"topic": topic}), as_json=json)
            return
        items = list(islice(client.pages("/api/v1/topics"), limit))
    if json:
        emit_json({"items": items})
        return
    print_table(
        ["FILTER", "NODES"],
        ([row["filter"], " ".join(row["nodes"])] for row in items),
        empty="no topics: nobody subscribes",
    )


def _print_match(match: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        emit_json(match)
        return
    print_table(
        ["MATCHING FILTER", "NODES"],
        ([row["filter"], " ".join(row["nodes"])] for row in match["matches"]),
        empty=f"no filter matches {match['topic']}: a message to it is dropped",
    )


def subscriptions(
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    limit: Limit = None,
    client: Annotated[str | None, typer.Option("--client", help="Only those of this client.")] = None,
    filter: Annotated[str | None, typer.Option("--filter", help="Only those to this filter.")] = None,
) -> None:
    """List subscriptions on all nodes."""
    gathered = gather(api, node, "/api/v1/subscriptions", given(client=client, filter=filter), limit)
    if json:
        emit_gathered(gathered)
        return
    print_table(
        ["CLIENT", "FILTER", "QOS", "NODE"],
        ([row["client"], row["filter"], row["qos"], row["node"]] for row in gathered.items),
        empty="no subscriptions",
    )
    tell_missing(gathered)


def tables(api: Api = DEFAULT_API, node: OnNode = None, json: Json = False) -> None:
    """List the tables a node holds, and who owns the rows."""
    with ask(api, node) as client:
        items = client.get("/api/v1/tables")
    if json:
        emit_json({"items": items})
        return
    print_table(
        ["TABLE", "TYPE", "STORAGE", "REPLICATION", "LOADED", "ROWS", "OWNERS"],
        (
            [
                row["name"],
                row["type"],
                row["storage"],
                row["replication"],
                "yes" if row["loaded"] else "no",
                row["rows"],
                " ".join(f"{owner}={rows}" for owner, rows in row["owners"].items()),
            ]
            for row in items
        ),
        empty="no tables",
    )


def ask(api: str, node: str | None) -> ApiClient:
    """The API of ``node``, or that at ``api``."""
    if node is None:
        return ApiClient(api)
    with ApiClient(api) as client:
        return client.node(node)


def given(**params: str | bool | None) -> dict[str, str | int | bool]:
    """The parameters that have a value."""
    return {name: value for name, value in params.items() if value is not None}


def gather(
    api: str, node: str | None, path: str, params: Mapping[str, str | int | bool], limit: int | None
) -> Gathered:
    """The items of all nodes, or of ``node``."""
    with ask(api, node) as client:
        if node is None:
            return client.listed(path, params, limit=limit)
        return client.listed(path, {**params, "scope": "node"}, limit=limit)


def emit_gathered(gathered: Gathered) -> None:
    """Print them for scripts; ends the command where some are missing."""
    emit_json({"items": gathered.items, "missing": gathered.missing})
    if gathered.missing:
        raise typer.Exit(ExitCode.UNAVAILABLE)


def tell_missing(gathered: Gathered) -> None:
    """Say who did not answer, and end the command if somebody did not."""
    for name, reason in gathered.missing.items():
        note(f"incomplete: {name} did not answer: {reason}")
    if gathered.missing:
        raise typer.Exit(ExitCode.UNAVAILABLE)
