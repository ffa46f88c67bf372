"""Nouns of the cluster as every node knows it: nodes, topics, tables.

Rule: what is replicated is asked of one node; with ``--node`` another one is asked, through the one at hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from gossamer.cli import values
from gossamer.cli.client import DEFAULT_API, ApiClient
from gossamer.cli.cluster import status_parts
from gossamer.cli.noun import noun
from gossamer.cli.options import Api, Json, Limit, OnNode, Watch
from gossamer.cli.output import ago, ports_text, size_text
from gossamer.cli.show import Listing, Part, Report, ask, show
from gossamer.cli.table import Grid
from gossamer.config import format_duration

__all__ = ["nodes", "tables", "topics"]

nodes = noun("The nodes of the cluster, as one of them sees them.")
topics = noun("Filters that have subscribers, and where a message would go.")
tables = noun("The tables that a node holds.")


@nodes.command("list")
def list_nodes(api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None) -> None:
    """List the nodes of the cluster, and the links of the one that is asked."""
    with ask(api, node) as client:
        show(
            lambda _: Listing(
                sorted(client.rows("/api/v1/nodes"), key=lambda row: str(row["name"])),
                ["NAME", "STATUS", "LINK", "ROUTES", "UP", "PID", "PORTS"],
                lambda row: [
                    row["name"],
                    row["status"],
                    row["link"],
                    row["routes"],
                    ago(row["started_at"]),
                    row["pid"] or "",
                    ports_text(row["ports"]),
                ],
                empty="no nodes",
                restless=frozenset({"UP"}),
            ),
            json=json,
            watch=watch,
        )


@nodes.command("show")
def show_node(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="As `nodes` shows it.", autocompletion=values.nodes)
    ],
    api: Api = DEFAULT_API,
    json: Json = False,
    watch: Watch = None,
) -> None:
    """Show one node: its state, what it counts, and the members as it sees them."""
    with ask(api, name) as client:
        show(lambda _: _node_report(client), json=json, watch=watch)


def _node_report(client: ApiClient) -> Report:
    status = client.document("/api/v1/status")
    pulse = client.document("/api/v1/pulse")

    def parts() -> Iterable[Part]:
        rows = [
            ("version", status["version"]),
            ("connections, sessions", f"{pulse['connections']}, {pulse['sessions']}"),
            ("filters, retained", f"{pulse['filters']}, {pulse['retained']}"),
            ("received, sent, dropped", f"{pulse['received']}, {pulse['sent']}, {pulse['dropped']}"),
            ("queued", size_text(pulse["queued_bytes"])),
            ("to peers", _sizes(pulse["forwarded_bytes"])),
            ("memory", size_text(pulse["memory"])),
            ("late at worst", format_duration(round(pulse["loop_lag"], 3))),
            ("autoheal", pulse["phase"]),
        ]
        yield from status_parts(status)
        yield ""
        yield Grid(["WHAT", "NOW"], rows)

    return Report({"status": status, "pulse": pulse}, parts)


def _sizes(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{name}={size_text(size)}" for name, size in sizes.items()) or "nothing"


Topic = Annotated[
    str,
    typer.Argument(metavar="TOPIC", help="A topic name, without wildcards.", autocompletion=values.topics),
]


@topics.command("list")
def list_topics(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC", help="Tell where a message to this topic would go.", autocompletion=values.topics
        ),
    ] = None,
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    limit: Limit = None,
    watch: Watch = None,
) -> None:
    """List the filters that have subscribers, or tell where a message to TOPIC would go, and why."""
    if topic is not None:
        match(topic, api=api, node=node, json=json, watch=watch)
        return
    with ask(api, node) as client:
        show(
            lambda most: Listing(
                client.pages("/api/v1/topics", limit=most),
                ["FILTER", "NODES"],
                lambda row: [row["filter"], " ".join(row["nodes"])],
                empty="no topics: nobody subscribes",
            ),
            json=json,
            watch=watch,
            limit=limit,
        )


@topics.command("match")
def match(
    topic: Topic, api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None
) -> None:
    """Tell where a message to TOPIC would go from a node, and why."""
    with ask(api, node) as client:
        show(lambda _: _match_report(client, topic), json=json, watch=watch)


def _match_report(client: ApiClient, topic: str) -> Report:
    found = client.document("/api/v1/topics/match", {"topic": topic})
    grid = Grid(
        ["MATCHING FILTER", "NODES"],
        [[row["filter"], " ".join(row["nodes"])] for row in found["matches"]],
        f"no filter matches {topic}: a message to it is dropped",
    )
    return Report(found, lambda: [grid])


@tables.command("list")
def list_tables(api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None) -> None:
    """List the tables that a node holds, and who owns the rows."""
    with ask(api, node) as client:
        show(
            lambda _: Listing(
                client.rows("/api/v1/tables"),
                ["TABLE", "TYPE", "STORAGE", "REPLICATION", "LOADED", "ROWS", "OWNERS"],
                lambda row: [
                    row["name"],
                    row["type"],
                    row["storage"],
                    row["replication"],
                    "yes" if row["loaded"] else "no",
                    row["rows"],
                    " ".join(f"{owner}={rows}" for owner, rows in row["owners"].items()),
                ],
                empty="no tables",
            ),
            json=json,
            watch=watch,
        )


@tables.command("show")
def show_table(
    name: Annotated[
        str, typer.Argument(metavar="TABLE", help="As `tables` shows it.", autocompletion=values.tables)
    ],
    api: Api = DEFAULT_API,
    json: Json = False,
    watch: Watch = None,
) -> None:
    """Hold one table against itself on all nodes: rows and checksum of each owner, wherever they differ."""
    from gossamer.cli.digests import digest_report

    with ask(api) as client:
        show(lambda _: digest_report(client, name), json=json, watch=watch)
