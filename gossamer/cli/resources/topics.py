"""``gossamer topics``, ``routes``, ``retained`` and ``publish``: where messages go, and which are kept."""

from __future__ import annotations

import base64
import sys
from typing import Annotated, Any

import typer

from gossamer.cli import names
from gossamer.cli.api.client import DEFAULT_API, ApiClient
from gossamer.cli.exits import ExitCode
from gossamer.cli.nouns import noun
from gossamer.cli.options import Api, Json, Limit, OnNode, Watch
from gossamer.cli.render.output import emit_json, note, print_result, print_table
from gossamer.cli.render.show import Report, Row, show
from gossamer.cli.render.table import Grid
from gossamer.cli.resources.listing import Resource, add_list, list_resource, pages

__all__ = ["publish", "retained", "routes", "topics"]

topics = noun("Filters that have subscribers, and where a message would go.")
routes = noun("The route table: which nodes have subscribers to which filter; verify it.")
retained = noun("Retained messages; remove one.")

# A verification looks at each of a million routes, and at peers twice.
_VERIFY_TIMEOUT = 150.0

TOPICS = Resource(
    path="topics",
    says="List the filters that have subscribers, or show where a message to TOPIC would go, and why.",
    columns={"FILTER": "filter", "NODES": lambda row: " ".join(row["nodes"])},
    empty="no topics: nobody subscribes",
    fetch=pages,
)
add_list(
    routes,
    Resource(
        path="routes",
        says="List the route table: which nodes have subscribers to which filter.",
        columns={"FILTER": "filter", "NODE": "node"},
        empty="no routes: nobody subscribes",
        fetch=pages,
        filters={
            "to": (
                Annotated[
                    str | None,
                    typer.Option(
                        "--to", metavar="NAME", help="Only routes to this node.", autocompletion=names.nodes
                    ),
                ],
                None,
            ),
            "filter": (
                Annotated[
                    str | None,
                    typer.Option(
                        "--filter", help="Only routes of this filter.", autocompletion=names.filters
                    ),
                ],
                None,
            ),
        },
        key=2,
    ),
)
add_list(
    retained,
    Resource(
        path="retained",
        says="List the topics that have a retained message.",
        columns={"TOPIC": "topic"},
        empty="no retained messages",
        fetch=pages,
        filters={
            "filter": (
                Annotated[
                    str,
                    typer.Argument(
                        metavar="FILTER", help="Only topics that match.", autocompletion=names.retained
                    ),
                ],
                "#",
            )
        },
    ),
)


@topics.command("list", help=TOPICS.says)
def list_topics(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC", help="Show where a message to this topic would go.", autocompletion=names.topics
        ),
    ] = None,
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    limit: Limit = None,
    watch: Watch = None,
) -> None:
    """List ``TOPICS``, or match one."""
    if topic is not None:
        match(topic, api=api, node=node, json=json, watch=watch)
    else:
        list_resource(TOPICS, api=api, node=node, json=json, limit=limit, watch=watch)


@topics.command("match")
def match(
    topic: Annotated[
        str,
        typer.Argument(metavar="TOPIC", help="A topic name, without wildcards.", autocompletion=names.topics),
    ],
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    watch: Watch = None,
) -> None:
    """Show where a message to TOPIC would go from a node, and why."""
    with ApiClient(api, node=node) as client:
        show(lambda _: _match_report(client, topic), json=json, watch=watch)


def _match_report(client: ApiClient, topic: str) -> Report:
    found = client.document("/api/v1/topics/match", {"topic": topic})
    grid = Grid(
        ["MATCHING FILTER", "NODES"],
        [[row["filter"], " ".join(row["nodes"])] for row in found["matches"]],
        f"no filter matches {topic}: a message to it is dropped",
    )
    return Report(found, lambda: [grid])


@routes.command()
def verify(
    api: Api = DEFAULT_API,
    node: OnNode = None,
    check: Annotated[bool, typer.Option("--check", help="Only report; repair nothing.")] = False,
    json: Json = False,
) -> None:
    """Compare each node's routes with its tables and with its peers, and repair them.

    Ends with code 6 if a node did not answer, or if --check found something wrong.
    """
    with ApiClient(api, timeout=_VERIFY_TIMEOUT) as client:
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


def _peers(row: Row) -> str:
    return f"{row['peers']} ({row['silent']} silent)" if row["silent"] else str(row["peers"])


def _what(row: Row) -> str:
    return ", ".join(f"{kind}={count}" for kind, count in row["differences"].items()) or "all right"


@retained.command()
def remove(
    topic: Annotated[str, typer.Argument(help="Topic of the message.", autocompletion=names.retained)],
    api: Api = DEFAULT_API,
    json: Json = False,
) -> None:
    """Remove the retained message of a topic, as publishing an empty one does."""
    with ApiClient(api) as client:
        answer = client.delete("/api/v1/retained", {"topic": topic})
    print_result(answer, f"{topic}: nothing is kept any more", json=json)


def publish(
    topic: Annotated[str, typer.Argument(help="Topic name.", autocompletion=names.topics)],
    payload: Annotated[str, typer.Argument(help="The message; - reads any bytes from standard input.")] = "",
    qos: Annotated[int, typer.Option("--qos", min=0, max=2, help="With 1 or 2 every node has it.")] = 0,
    retain: Annotated[bool, typer.Option("--retain", help="Keep it for later subscribers.")] = False,
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
) -> None:
    """Publish a message and print how many receivers it has."""
    raw = sys.stdin.buffer.read() if payload == "-" else payload.encode()
    body: dict[str, Any] = {"topic": topic, "payload": base64.b64encode(raw).decode(), "encoding": "base64"}
    with ApiClient(api, node=node) as client:
        answer = client.post("/api/v1/publish", {**body, "qos": qos, "retain": retain})
    receivers = answer["receivers"]
    plural = "" if receivers == 1 else "s"
    later = "" if answer["safe"] else "; not all of those nodes have it yet"
    print_result(
        answer, f"{topic}: to {receivers} subscriber{plural} here or nodes elsewhere{later}", json=json
    )
