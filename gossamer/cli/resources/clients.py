"""``gossamer clients``, ``sessions`` and ``subscriptions``.

Rules: 1. Each node keeps its own, so all are asked, and those that do not answer are named.  2. Any one node
disconnects a client or ends a session, wherever it is.  3. An unknown client is refused with similar names.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Annotated
from urllib.parse import quote

import typer

from gossamer.cli import names
from gossamer.cli.api.client import DEFAULT_API, ApiClient
from gossamer.cli.api.errors import RefusedError, UnknownNameError
from gossamer.cli.nouns import Parameters, noun
from gossamer.cli.options import Api, ClientId, Json, OnNode, Watch
from gossamer.cli.render.output import ago, clock, emit_json, print_lines
from gossamer.cli.render.show import Part, Report, Row, show
from gossamer.cli.render.table import Grid
from gossamer.cli.resources.listing import Resource, add_list, everywhere
from gossamer.config import format_duration

__all__ = ["clients", "sessions", "subscriptions"]

_PATH = "/api/v1/clients"
_COMPARED = 20_000
"""Names that an unknown one is compared with."""
_NEVER = 4_294_967_295

clients = noun("Clients that are connected or have a session; disconnect one.")
sessions = noun("Sessions and what is queued in them; show or end one.")
subscriptions = noun("Subscriptions of all sessions.")

_ONLY: Parameters = {
    "client": (
        Annotated[
            str | None,
            typer.Option("--client", metavar="ID", help="Only this client.", autocompletion=names.clients),
        ],
        None,
    )
}


def _containing(option: str, what: str) -> Parameters:
    annotation = Annotated[
        str | None,
        typer.Option(f"--{option}", metavar="TEXT", help=f"Only those whose {what} contains this."),
    ]
    return {option: (annotation, None)}


_FILTERS: Parameters = {
    **_ONLY,
    **_containing("search", "identifier"),
    **_containing("user", "user name"),
    **_containing("address", "address"),
    "connected": (
        Annotated[
            bool | None, typer.Option("--connected/--disconnected", help="Only those that are, or are not.")
        ],
        None,
    ),
}


def _state(row: Row) -> str:
    return "connected" if row["connected"] else "away"


def _keepalive(row: Row) -> str:
    return format_duration(row["keepalive"]) if row["keepalive"] else ""


def _expiry(row: Row) -> str:
    seconds = row["session_expiry"]
    if not seconds:
        return "with its connection"
    return "never" if seconds >= _NEVER else format_duration(float(seconds))


add_list(
    clients,
    Resource(
        path="clients",
        says="List clients and their sessions on all nodes.",
        columns={
            "CLIENT": "client",
            "NODE": "node",
            "STATE": _state,
            "ADDRESS": "address",
            "MQTT": "version",
            "KEEPALIVE": _keepalive,
            "SUBSCRIPTIONS": "subscriptions",
            "INFLIGHT": "inflight",
            "QUEUED": "queued",
        },
        empty="no clients",
        fetch=everywhere,
        filters=_FILTERS,
    ),
)
add_list(
    sessions,
    Resource(
        path="clients",
        says="List sessions on all nodes: their clients, expiry and queues.",
        columns={
            "CLIENT": "client",
            "NODE": "node",
            "STATE": _state,
            "USER": "username",
            "EXPIRY": _expiry,
            "SUBSCRIPTIONS": "subscriptions",
            "INFLIGHT": "inflight",
            "QUEUED": "queued",
            "DROPPED": "dropped",
        },
        empty="no sessions",
        fetch=everywhere,
        filters=_FILTERS,
    ),
)
add_list(
    subscriptions,
    Resource(
        path="subscriptions",
        says="List subscriptions on all nodes.",
        columns={"CLIENT": "client", "FILTER": "filter", "QOS": "qos", "NODE": "node"},
        empty="no subscriptions",
        fetch=everywhere,
        filters={
            **_ONLY,
            "filter": (
                Annotated[
                    str | None,
                    typer.Option("--filter", help="Only those to this filter.", autocompletion=names.filters),
                ],
                None,
            ),
        },
        key=2,
    ),
)


@clients.command("show")
@sessions.command("show")
def show_client(
    client: ClientId, api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None
) -> None:
    """Show one client: its connection, its session, and its subscriptions."""
    with ApiClient(api, node=node) as at:
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
        yield Grid(
            ["FILTER", "QOS", "NODE", "OPTIONS"],
            [[row["filter"], row["qos"], row["node"], _options(row)] for row in filters],
            "no subscriptions",
        )

    missing = {**found.missing, **subscribed.missing}
    return Report({"items": items, "subscriptions": filters, "missing": missing}, parts, missing)


def _facts(row: Row) -> list[tuple[str, object]]:
    return [
        ("node", row["node"]),
        ("state", _state(row)),
        ("address", row["address"]),
        ("user", row["username"]),
        ("MQTT", row["version"]),
        ("connected since", clock(row["connected_at"])),
        ("connected for", ago(row["connected_at"])),
        ("keepalive", _keepalive(row) or "off"),
        ("clean start", "yes" if row["clean_start"] else "no"),
        ("session expiry", _expiry(row)),
        ("subscriptions", row["subscriptions"]),
        ("inflight, queued, dropped", f"{row['inflight']}, {row['queued']}, {row['dropped']}"),
        ("process", row["process"]),
    ]


def _options(row: Row) -> str:
    found = [name.replace("_", " ") for name in ("no_local", "retain_as_published") if row[name]]
    return ", ".join([*found, *([f"identifier {row['identifier']}"] if row["identifier"] else [])])


@clients.command()
def kick(client: ClientId, api: Api = DEFAULT_API, json: Json = False) -> None:
    """End a client's connection and its session, on whichever node they are.

    Its queued messages are lost, and its will is published. It may connect again.
    """
    _end(api, client, json=json)


@sessions.command()
def end(client: ClientId, api: Api = DEFAULT_API, json: Json = False) -> None:
    """End a session, and the connection of its client if there is one, on whichever node they are.

    Its queued messages are lost, and its will is published.
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
    else:
        print_lines(str(answer["done"]))


def _unknown(at: ApiClient, client: str) -> UnknownNameError:
    known = [str(row["client"]) for row in islice(at.listed(_PATH), _COMPARED)]
    return UnknownNameError(kind="client", name=client, known=known, see="gossamer clients")
