"""``gossamer clients``, ``sessions``, ``subscriptions`` and ``tenants``.

Rules: 1. Each node keeps its own, so all are asked, and those that do not answer are named.  2. Any one node
disconnects a client or ends a session, wherever it is.  3. An unknown client is refused with similar names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any
from urllib.parse import quote

import typer

from gossamer.cli import completion
from gossamer.cli.client import ApiClient, Row
from gossamer.cli.command import CLIENT_ID, FILTER, OF_TENANT, THE_TENANT, Limit, argument, asks, option
from gossamer.cli.errors import OptionError, RefusedError, UnknownNameError
from gossamer.cli.render.output import Grid, ago, clock
from gossamer.cli.render.show import Columns, Listing, Part, Report, table
from gossamer.cli.root import noun
from gossamer.config import format_duration
from gossamer.errors import UnavailableError, WrongValueError
from gossamer.tenants import InvalidTenantError, checked, limit_of

_COMPARED = 20_000
"""Names that an unknown one is compared with."""
_NEVER = 4_294_967_295

clients = noun()
sessions = noun()
subscriptions = noun()
tenants = noun()

ONLY_CLIENT = option(None, "--client", "Only this client.", completion.clients, metavar="ID")


def _containing(name: str, what: str) -> Any:
    return option(None, name, f"Only those whose {what} contains this.", metavar="TEXT")


def _client(row: Row) -> str:
    return f"{row['client']} of {row['tenant']}" if row.get("tenant") else str(row["client"])


def _state(row: Row) -> str:
    return "connected" if row["connected"] else "away"


def _keepalive(row: Row) -> str:
    return format_duration(row["keepalive"]) if row["keepalive"] else ""


def _expiry(row: Row) -> str:
    seconds = row["session_expiry"]
    if not seconds:
        return "with its connection"
    return "never" if seconds >= _NEVER else format_duration(float(seconds))


def _listing(columns: Columns, empty: str) -> Callable[..., Listing]:
    def listing(
        client: ApiClient,
        of: str | None = ONLY_CLIENT,
        search: str | None = _containing("--search", "identifier"),
        user: str | None = _containing("--user", "user name"),
        address: str | None = _containing("--address", "address"),
        tenant: str | None = OF_TENANT,
        connected: bool | None = option(
            None, "--connected/--disconnected", "Only those that are, or are not."
        ),
        limit: Limit = None,
    ) -> Listing:
        only = {"client": of, "search": search, "user": user, "address": address, "connected": connected}
        only["tenant"] = tenant
        return Listing(client.listed("clients", only, limit=limit), columns, empty)

    return listing


_CLIENTS: Columns = {
    "CLIENT": _client,
    "NODE": "node",
    "STATE": _state,
    "ADDRESS": "address",
    "MQTT": "version",
    "KEEPALIVE": _keepalive,
    "SUBSCRIPTIONS": "subscriptions",
    "INFLIGHT": "inflight",
    "QUEUED": "queued",
}
_SESSIONS: Columns = {
    "CLIENT": _client,
    "NODE": "node",
    "STATE": _state,
    "USER": "username",
    "EXPIRY": _expiry,
    "SUBSCRIPTIONS": "subscriptions",
    "INFLIGHT": "inflight",
    "QUEUED": "queued",
    "DROPPED": "dropped",
}
clients.command("list", help="List clients and their sessions on all nodes.")(
    asks("--limit 20", "--connected --json", node=True, watch=True)(_listing(_CLIENTS, "no clients"))
)
sessions.command("list", help="List sessions on all nodes: their clients, expiry and queues.")(
    asks("--disconnected", node=True, watch=True)(_listing(_SESSIONS, "no sessions"))
)


@subscriptions.command("list")
@asks("--filter 'sensors/#'", node=True, watch=True)
def list_subscriptions(
    client: ApiClient,
    of: str | None = ONLY_CLIENT,
    filter: str | None = FILTER,
    tenant: str | None = OF_TENANT,
    limit: Limit = None,
) -> Listing:
    """List subscriptions on all nodes."""
    found = client.listed("subscriptions", {"client": of, "filter": filter, "tenant": tenant}, limit=limit)
    columns: Columns = {"CLIENT": _client, "FILTER": "filter", "QOS": "qos", "NODE": "node"}
    return Listing(found, columns, empty="no subscriptions", key=2)


@clients.command("show")
@sessions.command("show")
@asks("sensor-7", node=True, watch=True)
def show_client(client: ApiClient, id: str = CLIENT_ID) -> Report:
    """Show one client: its connection, its session, and its subscriptions."""
    found = client.listed("clients", {"client": id})
    items = list(found)
    if not items and not found.missing:
        raise _unknown(client, id)
    subscribed = client.listed("subscriptions", {"client": id})
    filters = list(subscribed)
    groups = _groups_of(client, items)

    def parts() -> Iterable[Part]:
        for row in items:
            yield Grid([id, ""], [*_facts(row), *_copy_facts(row, groups)])
            yield ""
        columns: Columns = {"FILTER": "filter", "QOS": "qos", "NODE": "node", "OPTIONS": _options}
        yield table(filters, columns, "no subscriptions")

    missing = {**found.missing, **subscribed.missing}
    answer = {"items": items, "subscriptions": filters, "groups": groups, "missing": missing}
    return Report(answer, parts, missing)


def _facts(row: Row) -> list[tuple[str, object]]:
    return [
        *([("tenant", row["tenant"])] if row.get("tenant") else []),
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


def _groups_of(client: ApiClient, items: Iterable[Row]) -> list[Row]:
    """Return the groups of replicas that have the copies of sessions; none if that is not known now."""
    ranges = {row["copied"]["range"] for row in items if row.get("copied")}
    try:
        return [group for group in client.rows("raft") if group["kind"] in ranges] if ranges else []
    except UnavailableError:
        return []


def _copy_facts(row: Row, groups: Iterable[Row]) -> Iterable[tuple[str, object]]:
    """Yield what is known of the copy of a session, and of the group that has it."""
    copy = row.get("copied")
    if copy is None:
        return
    lasts = f" for {ago(copy['since'])}" if copy["since"] else ""
    yield "copy", copy["state"].replace("_", " ") + lasts
    yield "range of keys", copy["range"]
    for group in groups:
        if group["kind"] == copy["range"]:
            yield "led by", group["leader"] or "none: too few of its voters are up"
            yield "replicas", ", ".join(member["node"] for member in group["members"])


def _options(row: Row) -> str:
    found = [name.replace("_", " ") for name in ("no_local", "retain_as_published") if row[name]]
    return ", ".join([*found, *([f"identifier {row['identifier']}"] if row["identifier"] else [])])


@clients.command()
@asks("sensor-7")
def kick(client: ApiClient, id: str = CLIENT_ID, tenant: str | None = THE_TENANT) -> Report:
    """End a client's connection and its session, on whichever node they are.

    Its queued messages are lost, and its will is published. It may connect again.
    """
    return _end(client, id, tenant)


@sessions.command()
@asks("sensor-7")
def end(client: ApiClient, id: str = CLIENT_ID, tenant: str | None = THE_TENANT) -> Report:
    """End a session, and the connection of its client if there is one, on whichever node they are.

    Its queued messages are lost, and its will is published.
    """
    return _end(client, id, tenant)


def _end(client: ApiClient, id: str, tenant: str | None) -> Report:
    of = "" if tenant is None else f"?tenant={quote(tenant, safe='')}"
    try:
        answer = client.delete(f"clients/{quote(id, safe='')}{of}")
    except RefusedError as error:
        if "expected one of gossamer clients" in str(error):
            raise _unknown(client, id) from None
        raise
    return Report(answer, lambda: [answer["done"]])


def _unknown(client: ApiClient, id: str) -> UnknownNameError:
    known = [str(row["client"]) for row in islice(client.listed("clients"), _COMPARED)]
    return UnknownNameError(kind="client", name=id, known=known, see="gossamer clients")


def _named(name: str) -> str:
    try:
        if checked(name, "NAME"):
            return name
    except InvalidTenantError as error:
        raise typer.BadParameter(str(error)) from None
    raise typer.BadParameter("the default tenant has the limits of mqtt.limits; expected another one")


_TENANT = argument(..., "NAME", "A tenant.", completion.tenants, callback=_named)


def _limits_of(row: Row) -> str:
    return " ".join(f"{key}={value}" for key, value in row["limits"].items() if value is not None)


_TENANTS: Columns = {
    "NODE": "node",
    "CONNECTIONS": "connections",
    "MESSAGES": "messages",
    "RETAINED": "retained",
    "STATE": lambda row: "banned" if row["banned"] else "",
}


@tenants.command("list")
@asks("--json", node=True, watch=True)
def list_tenants(client: ApiClient) -> Listing:
    """List tenants and what each has at which node; the default one is not among them."""
    columns: Columns = {"TENANT": "tenant", **_TENANTS, "LIMITS": _limits_of}
    empty = "no tenants: no client of one has come, and none has limits"
    return Listing(client.listed("tenants"), columns, empty, key=2)


@tenants.command("show")
@asks("acme", node=True, watch=True)
def show_tenant(client: ApiClient, name: str = _TENANT) -> Report:
    """Show one tenant: its limits, and what it has at each node."""
    found = client.listed("tenants", {"tenant": name})
    items = list(found)
    if not items and not found.missing:
        known = [str(row["tenant"]) for row in client.listed("tenants")]
        raise UnknownNameError(kind="tenant", name=name, known=known, see="gossamer tenants")

    def parts() -> Iterable[Part]:
        for row in items[:1]:
            limits = [(key, "none" if value is None else value) for key, value in row["limits"].items()]
            yield Grid([name, ""], limits)
        yield ""
        yield table(items, _TENANTS, "at no node")

    return Report({"items": items, "missing": found.missing}, parts, found.missing)


@tenants.command("set")
@asks("acme max_connections=1000 max_publish_rate=500", "acme max_retained=none")
def set_limits_of(
    client: ApiClient,
    name: str = _TENANT,
    limits: list[str] = argument(..., "LIMIT=NUMBER", "A limit and its value; none takes it away."),
) -> Report:
    """Set limits of a tenant, at all nodes at once; what is not named stays.

    Limits: max_connections, max_publish_rate, max_subscriptions, max_retained, max_packet_size.
    """
    return _changed(client, name, {"limits": dict(map(_limit, limits))})


@tenants.command("ban")
@asks("acme", "acme --off")
def ban(
    client: ApiClient,
    name: str = _TENANT,
    off: bool = option(False, "--off", "Let its clients in again."),
) -> Report:
    """Disconnect all clients of a tenant, and let none of them in."""
    return _changed(client, name, {"banned": not off})


def _limit(text: str) -> tuple[str, int | None]:
    key, equals, value = text.partition("=")
    if not equals:
        raise OptionError("LIMIT=NUMBER", got=text, expected=f"{key or 'max_connections'}=100, or =none")
    try:
        return key, limit_of(key, value)
    except WrongValueError as error:
        raise typer.BadParameter(str(error)) from None


def _changed(client: ApiClient, name: str, order: dict[str, object]) -> Report:
    answer = client.post(f"tenants/{quote(name, safe='')}", order)
    return Report(answer, lambda: [answer["done"]])
