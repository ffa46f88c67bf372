"""``gossamer routes``: the route table, and whether it is right.

Rule: ``verify`` asks every node, for each holds what it verified against its own memory; who does not answer
is named.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gossamer.cli import values
from gossamer.cli.client import DEFAULT_API, ApiClient
from gossamer.cli.exits import ExitCode
from gossamer.cli.noun import noun
from gossamer.cli.options import Api, Json, Limit, OnNode, Watch
from gossamer.cli.output import emit_json, note, print_table
from gossamer.cli.show import Listing, ask, given, show

__all__ = ["app"]

app = noun("The route table: which node has subscribers to which filter; verify it.")

# A million routes take seconds, and peers are looked at twice.
_PATIENT = 150.0


@app.command("list")
def list_routes(
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    limit: Limit = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="NAME", help="Only routes to this node.", autocompletion=values.nodes),
    ] = None,
    filter: Annotated[
        str | None,
        typer.Option("--filter", help="Only routes of this filter.", autocompletion=values.filters),
    ] = None,
    watch: Watch = None,
) -> None:
    """List the route table: which node has subscribers to which filter."""
    with ask(api, node) as client:
        show(
            lambda most: Listing(
                client.pages("/api/v1/routes", given(node=to, filter=filter), limit=most),
                ["FILTER", "NODE"],
                lambda row: [row["filter"], row["node"]],
                empty="no routes: nobody subscribes",
                key=2,
            ),
            json=json,
            watch=watch,
            limit=limit,
        )


@app.command()
def verify(
    api: Api = DEFAULT_API,
    node: OnNode = None,
    check: Annotated[bool, typer.Option("--check", help="Only report; repair nothing.")] = False,
    json: Json = False,
) -> None:
    """Compare each node's routes with its tables and with its peers, and repair them.

    Ends with code 6 if a node did not answer, or if --check found something wrong.
    """
    with ApiClient(api, timeout=_PATIENT) as client:
        gathered = client.post_all("/api/v1/routes/verify", {"repair": not check}, node=node)
    wrong = sum(row["wrong"] for row in gathered.items)
    if json:
        emit_json({"items": gathered.items, "missing": gathered.missing})
    else:
        print_table(
            ["NODE", "CHECKED", "PEERS", "WRONG", "WHAT"],
            ([row["node"], row["checked"], _peers(row), row["wrong"], _what(row)] for row in gathered.items),
            empty="no node answered",
        )
        for name, reason in gathered.missing.items():
            note(f"incomplete: {name} did not answer: {reason}")
        if wrong:
            note(f"{wrong} differences, {'not repaired' if check else 'repaired'}")
    if gathered.missing or (check and wrong):
        raise typer.Exit(ExitCode.UNAVAILABLE)


def _peers(row: dict[str, Any]) -> str:
    return f"{row['peers']} ({row['silent']} silent)" if row["silent"] else str(row["peers"])


def _what(row: dict[str, Any]) -> str:
    return ", ".join(f"{kind}={count}" for kind, count in row["differences"].items()) or "all right"
