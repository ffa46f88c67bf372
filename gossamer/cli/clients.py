"""``gossamer clients``, ``sessions`` and ``subscriptions``: who is connected, what is kept for whom.

Rules: 1. Each node keeps its own, so all are asked, and who does not answer is named.  2. A client is kicked,
and a session ended, by asking any one node.  3. A client that nobody knows is refused with names like it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any
from urllib.parse import quote

import typer

from gossamer.cli import values
from gossamer.cli.client import DEFAULT_API, ApiClient
from gossamer.cli.noun import noun
from gossamer.cli.options import Api, ClientId, Json, Limit, OnNode, Watch
from gossamer.cli.output import ago, clock, emit_json, print_lines
from gossamer.cli.refusals import RefusedError, UnknownNameError
from gossamer.cli.show import Listing, Part, Report, ask, given, show
from gossamer.cli.table import Grid
from gossamer.config import format_duration

__all__ = ["clients", "sessions", "subscriptions"]

_PATH = "/api/v1/clients"
_LOOKED_AT = 20_000
"""Names that a wrong one is held against."""
_FOR_EVER = 4_294_967_295

clients = noun("Clients: who is connected or has a session; kick one.")
sessions = noun("Sessions: what is kept for each client; show or end one.")
subscriptions = noun("Subscriptions of all sessions.")

Only = Annotated[
    str | None,
    typer.Option("--client", metavar="ID", help="Only this client.", autocompletion=values.clients),
]
Connected = Annotated[
    bool | None, typer.Option("--connected/--disconnected", help="Only those that are, or are not.")
]

Search = Annotated[
    str | None, typer.Option("--search", metavar="TEXT", help="Only those whose identifier contains this.")
]
User = Annotated[
    str | None, typer.Option("--user", metavar="TEXT", help="Only those whose user name contains this.")
]
Address = Annotated[
    str | None, typer.Option("--address", metavar="TEXT", help="Only those whose address contains this.")
]


@clients.command("list")
def list_clients(
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    limit: Limit = None,
    client: Only = None,
    search: Search = None,
    user: User = None,
    address: Address = None,
    connected: Connected = None,
    watch: Watch = None,
) -> None:
    """List clients and their sessions on all nodes."""
    with ask(api, node) as at:
        show(
            lambda most: Listing(
                at.listed(
                    _PATH,
                    given(client=client, search=search, user=user, address=address, connected=connected),
                    limit=most,
                ),
                [
                    "CLIENT",
                    "NODE",
                    "STATE",
                    "ADDRESS",
                    "MQTT",
                    "KEEPALIVE",
                    "SUBSCRIPTIONS",
                    "INFLIGHT",
                    "QUEUED",
                ],
                lambda row: [
                    row["client"],
                    row["node"],
                    _state(row),
                    row["address"],
                    row["version"],
                    format_duration(row["keepalive"]) if row["keepalive"] else "",
                    row["subscriptions"],
                    row["inflight"],
                    row["queued"],
                ],
                empty="no clients",
            ),
            json=json,
            watch=watch,
            limit=limit,
        )


@sessions.command("list")
def list_sessions(
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    limit: Limit = None,
    client: Only = None,
    search: Search = None,
    user: User = None,
    address: Address = None,
    connected: Connected = None,
    watch: Watch = None,
) -> None:
    """List sessions on all nodes: whose, how long they are kept, what waits in them."""
    with ask(api, node) as at:
        show(
            lambda most: Listing(
                at.listed(
                    _PATH,
                    given(client=client, search=search, user=user, address=address, connected=connected),
                    limit=most,
                ),
                [
                    "CLIENT",
                    "NODE",
                    "STATE",
                    "USER",
                    "EXPIRY",
                    "SUBSCRIPTIONS",
                    "INFLIGHT",
                    "QUEUED",
                    "DROPPED",
                ],
                lambda row: [
                    row["client"],
                    row["node"],
                    _state(row),
                    row["username"],
                    _expiry(row),
                    row["subscriptions"],
                    row["inflight"],
                    row["queued"],
                    row["dropped"],
                ],
                empty="no sessions",
            ),
            json=json,
            watch=watch,
            limit=limit,
        )


@clients.command("show")
@sessions.command("show")
def show_client(
    client: ClientId, api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None
) -> None:
    """Show one client: its connection, its session, and its subscriptions."""
    with ask(api, node) as at:
        show(lambda _: _report(at, client), json=json, watch=watch)


def _report(at: ApiClient, client: str) -> Report:
    found = at.listed(_PATH, {"client": client})
    items = list(found)
    if not items and not found.missing:
        raise _unknown(at, client)
    subscribed = at.listed("/api/v1/subscriptions", {"client": client})
    filters = list(subscribed)

    def parts() -> Iterable[Part]:
        for row in items:
            yield Grid([client, ""], _facts(row))
            yield ""
        yield _subscriptions(filters)

    missing = {**found.missing, **subscribed.missing}
    document = {"items": items, "subscriptions": filters, "missing": missing}
    return Report(document, parts, missing)


def _facts(row: dict[str, Any]) -> list[tuple[str, object]]:
    return [
        ("node", row["node"]),
        ("state", _state(row)),
        ("address", row["address"]),
        ("user", row["username"]),
        ("MQTT", row["version"]),
        ("connected since", clock(row["connected_at"])),
        ("connected for", ago(row["connected_at"])),
        ("keepalive", format_duration(row["keepalive"]) if row["keepalive"] else "off"),
        ("clean start", "yes" if row["clean_start"] else "no"),
        ("session expiry", _expiry(row)),
        ("subscriptions", row["subscriptions"]),
        ("inflight, queued, dropped", f"{row['inflight']}, {row['queued']}, {row['dropped']}"),
        ("process", row["process"]),
    ]


@subscriptions.command("list")
def list_subscriptions(
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    limit: Limit = None,
    client: Only = None,
    filter: Annotated[
        str | None,
        typer.Option("--filter", help="Only those to this filter.", autocompletion=values.filters),
    ] = None,
    watch: Watch = None,
) -> None:
    """List subscriptions on all nodes."""
    with ask(api, node) as at:
        show(
            lambda most: Listing(
                at.listed("/api/v1/subscriptions", given(client=client, filter=filter), limit=most),
                ["CLIENT", "FILTER", "QOS", "NODE"],
                lambda row: [row["client"], row["filter"], row["qos"], row["node"]],
                empty="no subscriptions",
                key=2,
            ),
            json=json,
            watch=watch,
            limit=limit,
        )


def _subscriptions(rows: list[dict[str, Any]]) -> Grid:
    columns = ["FILTER", "QOS", "NODE", "OPTIONS"]
    return Grid(
        columns,
        [[row["filter"], row["qos"], row["node"], _options(row)] for row in rows],
        "no subscriptions",
    )


def _options(row: dict[str, Any]) -> str:
    found = [name.replace("_", " ") for name in ("no_local", "retain_as_published") if row[name]]
    return ", ".join([*found, *([f"identifier {row['identifier']}"] if row["identifier"] else [])])


@clients.command()
def kick(client: ClientId, api: Api = DEFAULT_API, json: Json = False) -> None:
    """End a client's connection and its session, on whichever node they are.

    What is queued for it is lost, and its will is published. It may connect again.
    """
    _end(api, client, json=json)


@sessions.command()
def end(client: ClientId, api: Api = DEFAULT_API, json: Json = False) -> None:
    """End a session, and the connection of its client if there is one, on whichever node they are.

    What is queued in it is lost, and its will is published.
    """
    _end(api, client, json=json)


def _end(api: str, client: str, *, json: bool) -> None:
    with ApiClient(api) as node:
        try:
            answer = node.delete(f"{_PATH}/{quote(client, safe='')}")
        except RefusedError as error:
            if "expected one of gossamer clients" in str(error):
                raise _unknown(node, client) from None
            raise
    if json:
        emit_json(answer)
        return
    print_lines(str(answer["done"]))


def _unknown(at: ApiClient, client: str) -> UnknownNameError:
    known = [str(row["client"]) for row in islice(at.listed(_PATH), _LOOKED_AT)]
    return UnknownNameError(kind="client", name=client, known=known, see="gossamer clients")


def _state(row: dict[str, Any]) -> str:
    return "connected" if row["connected"] else "away"


def _expiry(row: dict[str, Any]) -> str:
    seconds = row["session_expiry"]
    if not seconds:
        return "with its connection"
    return "never" if seconds >= _FOR_EVER else format_duration(float(seconds))
