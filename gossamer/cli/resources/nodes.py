"""``gossamer nodes`` and ``tables``: the nodes of the cluster, and the tables that each of them holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from gossamer.cli import names
from gossamer.cli.api.client import DEFAULT_API, ApiClient
from gossamer.cli.api.errors import Answer, UnknownNameError
from gossamer.cli.cluster.membership import status_parts
from gossamer.cli.nouns import noun
from gossamer.cli.options import Api, Json, Watch
from gossamer.cli.render.output import ago, ports_text, size_text
from gossamer.cli.render.show import Part, Report, show
from gossamer.cli.render.table import Grid
from gossamer.cli.resources.listing import Resource, add_list, rows_by_name
from gossamer.config import format_duration

__all__ = ["digest_report", "nodes", "tables"]

nodes = noun("The nodes of the cluster, as one of them sees them.")
tables = noun("The tables that a node holds.")

add_list(
    nodes,
    Resource(
        path="nodes",
        says="List the nodes of the cluster, and the links of the node that is asked.",
        columns={
            "NAME": "name",
            "STATUS": "status",
            "LINK": "link",
            "ROUTES": "routes",
            "UP": lambda row: ago(row["started_at"]),
            "PID": lambda row: row["pid"] or "",
            "PORTS": lambda row: ports_text(row["ports"]),
        },
        empty="no nodes",
        fetch=rows_by_name,
        restless=frozenset({"UP"}),
    ),
)
add_list(
    tables,
    Resource(
        path="tables",
        says="List the tables that a node holds, and who owns the rows.",
        columns={
            "TABLE": "name",
            "TYPE": "type",
            "STORAGE": "storage",
            "REPLICATION": "replication",
            "LOADED": lambda row: "yes" if row["loaded"] else "no",
            "ROWS": "rows",
            "OWNERS": lambda row: " ".join(f"{owner}={rows}" for owner, rows in row["owners"].items()),
        },
        empty="no tables",
    ),
)


@nodes.command("show")
def show_node(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="As `nodes` shows it.", autocompletion=names.nodes)
    ],
    api: Api = DEFAULT_API,
    json: Json = False,
    watch: Watch = None,
) -> None:
    """Show one node: its state, its counters, and the members as it sees them."""
    with ApiClient(api, node=name) as client:
        show(lambda _: _node_report(client), json=json, watch=watch)


def _node_report(client: ApiClient) -> Report:
    status = client.document("/api/v1/status")
    pulse = client.document("/api/v1/pulse")

    def parts() -> Iterable[Part]:
        yield from status_parts(status)
        yield ""
        yield Grid(
            ["WHAT", "NOW"],
            [
                ("version", status["version"]),
                ("connections, sessions", f"{pulse['connections']}, {pulse['sessions']}"),
                ("filters, retained", f"{pulse['filters']}, {pulse['retained']}"),
                ("received, sent, dropped", f"{pulse['received']}, {pulse['sent']}, {pulse['dropped']}"),
                ("queued", size_text(pulse["queued_bytes"])),
                ("to peers", _sizes(pulse["forwarded_bytes"])),
                ("memory", size_text(pulse["memory"])),
                ("late at worst", format_duration(round(pulse["loop_lag"], 3))),
                ("autoheal", pulse["phase"]),
            ],
        )

    return Report({"status": status, "pulse": pulse}, parts)


def _sizes(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{name}={size_text(size)}" for name, size in sizes.items()) or "nothing"


@tables.command("show")
def show_table(
    name: Annotated[
        str, typer.Argument(metavar="TABLE", help="As `tables` shows it.", autocompletion=names.tables)
    ],
    api: Api = DEFAULT_API,
    json: Json = False,
    watch: Watch = None,
) -> None:
    """Compare one table on all nodes: rows and checksum per owner, and where they differ."""
    with ApiClient(api) as client:
        show(lambda _: digest_report(client, name), json=json, watch=watch)


def digest_report(client: ApiClient, table: str) -> Report:
    """Report the checksums of each owner's rows of ``table``, on every node that answers.

    Raises:
        UnknownNameError: there is no such table.
    """
    known = [row["name"] for row in client.rows("/api/v1/tables")]
    if table not in known:
        raise UnknownNameError(kind="table", name=table, known=known, see="gossamer tables")
    gathered = client.rows_all("/api/v1/tables/digests")
    owners: dict[str, dict[str, Any]] = {}
    for row in gathered.items:
        if row["name"] == table:
            found = owners.setdefault(row["owner"], {"owner": row["owner"], "nodes": {}})
            found["nodes"][row["node"]] = Answer(rows=row["rows"], checksum=row["checksum"])
    items = sorted(owners.values(), key=lambda owner: str(owner["owner"]))
    asked = sorted({row["node"] for row in gathered.items})
    for item in items:
        # A node without rows of an owner does not mention it.
        sums = {held["checksum"] for held in item["nodes"].values()}
        item["same"] = len(sums) == 1 and len(item["nodes"]) == len(asked)
    grid = Grid(
        ["OWNER", "SAME", *asked],
        [
            [item["owner"], "yes" if item["same"] else "NO", *(_held(item, name) for name in asked)]
            for item in items
        ],
        f"{table}: no node holds a replicated row of it",
    )
    document = {"table": table, "items": items, "missing": gathered.missing}
    return Report(document, lambda: [grid], gathered.missing)


def _held(item: dict[str, Any], node: str) -> str:
    held = item["nodes"].get(node)
    return f"{held['rows']} rows {held['checksum'][:8]}" if held else "nothing"
