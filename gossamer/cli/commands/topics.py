"""``gossamer topics``, ``routes``, ``retained`` and ``publish``: where messages go, and which are kept."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable

from gossamer.cli import completion, values
from gossamer.cli.client import ApiClient, Row
from gossamer.cli.command import FILTER, OF_TENANT, THE_TENANT, Limit, OnNode, argument, asks, option
from gossamer.cli.errors import ExitCode
from gossamer.cli.render.show import Listing, Note, Part, Rendered, Report, table
from gossamer.cli.root import noun

topics = noun()
routes = noun()
retained = noun()

# A verification looks at each of a million routes, and at peers twice.
_VERIFY_TIMEOUT = 150.0

_TOPIC = argument(..., "TOPIC", "A topic, without wildcards.", completion.topics, callback=values.topic)


@topics.command("list")
@asks("--limit 50", "sensors/7/temperature", node=True, watch=True)
def list_topics(
    client: ApiClient,
    topic: str | None = argument(
        None, "TOPIC", "Show where a message to it would go.", completion.topics, callback=values.topic
    ),
    tenant: str | None = OF_TENANT,
    limit: Limit = None,
) -> Rendered:
    """List the filters that have subscribers, or show where a message to TOPIC would go, and why."""
    if topic is not None:
        return _match(client, topic, tenant)
    rows = client.pages("topics", {"tenant": tenant}, limit=limit)
    return Listing(rows, {"FILTER": _filter, "NODES": _nodes}, empty="no topics: nobody subscribes")


@topics.command("match")
@asks("sensors/7/temperature", node=True, watch=True)
def match(client: ApiClient, topic: str = _TOPIC, tenant: str | None = THE_TENANT) -> Report:
    """Show where a message to TOPIC would go from a node, and why."""
    return _match(client, topic, tenant)


def _match(client: ApiClient, topic: str, tenant: str | None) -> Report:
    found = client.document("topics/match", {"topic": topic, "tenant": tenant})
    empty = f"no filter matches {topic}: a message to it is dropped"
    return Report(
        found, lambda: [table(found["matches"], {"MATCHING FILTER": _filter, "NODES": _nodes}, empty)]
    )


def _filter(row: Row) -> str:
    return f"{row['filter']} of {row['tenant']}" if row.get("tenant") else str(row["filter"])


def _nodes(row: Row) -> str:
    return " ".join(row["nodes"])


@routes.command("list")
@asks("--to node2@10.0.0.2", node=True, watch=True)
def list_routes(
    client: ApiClient,
    to: str | None = option(None, "--to", "Only routes to this node.", completion.nodes, metavar="NAME"),
    filter: str | None = FILTER,
    tenant: str | None = OF_TENANT,
    limit: Limit = None,
) -> Listing:
    """List the route table: which nodes have subscribers to which filter."""
    rows = client.pages("routes", {"node": to, "filter": filter, "tenant": tenant}, limit=limit)
    return Listing(rows, {"FILTER": _filter, "NODE": "node"}, empty="no routes: nobody subscribes", key=2)


@routes.command()
@asks("--check", timeout=_VERIFY_TIMEOUT)
def verify(
    client: ApiClient,
    node: OnNode = None,
    check: bool = option(False, "--check", "Only report; repair nothing."),
) -> Listing:
    """Compare each node's routes with its tables and with its peers, and repair them.

    Ends with code 6 if a node did not answer, or if --check found something wrong.
    """
    found = client.each(lambda peer: peer.post("routes/verify", {"repair": not check}), node=node)
    wrong = sum(row["wrong"] for row in found)
    return Listing(
        found,
        {"NODE": "node", "CHECKED": "checked", "PEERS": _peers, "WRONG": "wrong", "WHAT": _what},
        empty="no node answered",
        remark=f"{wrong} differences, {'not repaired' if check else 'repaired'}" if wrong else "",
        code=ExitCode.UNAVAILABLE if check and wrong else ExitCode.DONE,
    )


def _peers(row: Row) -> str:
    return f"{row['peers']} ({row['silent']} silent)" if row["silent"] else str(row["peers"])


def _what(row: Row) -> str:
    return ", ".join(f"{kind}={count}" for kind, count in row["differences"].items()) or "all right"


@retained.command("list")
@asks("'sensors/#'", node=True, watch=True)
def list_retained(
    client: ApiClient,
    filter: str = argument(
        "#", "FILTER", "Only topics that match.", completion.retained, callback=values.topic_filter
    ),
    tenant: str | None = THE_TENANT,
    limit: Limit = None,
) -> Listing:
    """List the topics that have a retained message."""
    rows = client.pages("retained", {"filter": filter, "tenant": tenant}, limit=limit)
    return Listing(rows, {"TOPIC": "topic"}, empty="no retained messages")


@retained.command()
@asks("sensors/7/temperature")
def remove(
    client: ApiClient,
    topic: str = argument(..., "TOPIC", "Topic of the message.", completion.retained, callback=values.topic),
    tenant: str | None = THE_TENANT,
) -> Report:
    """Remove the retained message of a topic, as publishing an empty one does."""
    answer = client.delete("retained", {"topic": topic, "tenant": tenant})
    return Report(answer, lambda: [Note(f"{topic}: nothing is kept any more")])


@asks("sensors/7/temperature 21.5 --qos 1", "maps/floor-1 - --retain < floor-1.png", node=True)
def publish(
    client: ApiClient,
    topic: str = _TOPIC,
    payload: str = argument("", "PAYLOAD", "The message; - reads any bytes from standard input."),
    qos: int = option(0, "--qos", "With 1 or 2 every node has it.", min=0, max=2),
    retain: bool = option(False, "--retain", "Keep it for later subscribers."),
    tenant: str | None = THE_TENANT,
) -> Report:
    """Publish a message and print how many receivers it has."""
    raw = sys.stdin.buffer.read() if payload == "-" else payload.encode()
    body = {"topic": topic, "payload": base64.b64encode(raw).decode(), "encoding": "base64"}
    answer = client.post("publish", {**body, "qos": qos, "retain": retain, "tenant": tenant or ""})

    def parts() -> Iterable[Part]:
        count = answer["receivers"]
        later = "" if answer["safe"] else "; not all of those nodes have it yet"
        yield Note(f"{topic}: to {count} subscriber{'s'[: count != 1]} here or nodes elsewhere{later}")

    return Report(answer, parts)
