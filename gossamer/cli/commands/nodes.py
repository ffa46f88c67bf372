"""``gossamer nodes``, ``live`` and ``tables``: the nodes of the cluster, and what each of them holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from gossamer.cli import completion
from gossamer.cli.client import ApiClient, Row
from gossamer.cli.command import NodeName, asks
from gossamer.cli.commands.membership import status_parts
from gossamer.cli.errors import Answer, NotNowError, UnknownNameError
from gossamer.cli.render.output import ago, ports_text, size_text
from gossamer.cli.render.show import Listing, Part, Report
from gossamer.cli.render.table import Grid
from gossamer.cli.root import noun
from gossamer.config import format_duration

__all__ = ["live", "nodes", "tables"]

nodes = noun("The nodes of the cluster, as one of them sees them.")
tables = noun("The tables that a node holds.")

_LIVE_TIMEOUT = 15.0


@nodes.command("list")
@asks(node=True, watch=True)
def list_nodes(client: ApiClient) -> Listing:
    """List the nodes of the cluster, and the links of the node that is asked."""
    return Listing(
        sorted(client.rows("nodes"), key=lambda row: str(row["name"])),
        {
            "NAME": "name",
            "STATUS": "status",
            "LINK": "link",
            "ROUTES": "routes",
            "UP": lambda row: ago(row["started_at"]),
            "PID": lambda row: row["pid"] or "",
            "PORTS": lambda row: ports_text(row["ports"]),
        },
        empty="no nodes",
        restless=frozenset({"UP"}),
    )


@nodes.command("show")
@asks("node2@10.0.0.2 --watch", watch=True)
def show_node(client: ApiClient, name: NodeName) -> Report:
    """Show one node: its state, its counters, and the members as it sees them."""
    with client.node(name) as peer:
        status, pulse = peer.document("status"), peer.document("pulse")

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


@asks("--watch 5", watch=True)
def live(client: ApiClient) -> Report:
    """Show each node's counters since its start; `gossamer top` shows them per second."""
    sample = next(client.events("live", silence=_LIVE_TIMEOUT), None)
    if sample is None:
        raise NotNowError(f"{client.url} ended the stream before it began; try again")
    counted = ("connections", "sessions", "filters", "received", "sent", "dropped")

    def cells(row: Row) -> list[object]:
        up = format_duration(float(int(row["uptime"])))
        return [row["node"], row["state"], *(row[key] for key in counted), size_text(row["memory"]), up]

    def parts() -> Iterable[Part]:
        yield Grid(
            ["NODE", "STATE", "CLIENTS", *(key.upper() for key in counted[1:]), "MEMORY", "UP"],
            [cells(row) for row in sorted(sample["nodes"], key=lambda row: str(row["node"]))],
            "no node answered",
            restless=frozenset({"UP"}),
        )

    return Report(sample, parts, sample["missing"])


@tables.command("list")
@asks(node=True, watch=True)
def list_tables(client: ApiClient) -> Listing:
    """List the tables that a node holds, and who owns the rows."""
    return Listing(
        client.rows("tables"),
        {
            "TABLE": "name",
            "TYPE": "type",
            "STORAGE": "storage",
            "REPLICATION": "replication",
            "LOADED": lambda row: "yes" if row["loaded"] else "no",
            "ROWS": "rows",
            "OWNERS": lambda row: " ".join(f"{owner}={rows}" for owner, rows in row["owners"].items()),
        },
        empty="no tables",
    )


@tables.command("show")
@asks("routes", watch=True)
def show_table(
    client: ApiClient,
    table: Annotated[
        str,
        typer.Argument(metavar="TABLE", help="As `tables` shows it.", autocompletion=completion.tables),
    ],
) -> Report:
    """Compare one table on all nodes: rows and checksum per owner, and where they differ."""
    known = [row["name"] for row in client.rows("tables")]
    if table not in known:
        raise UnknownNameError(kind="table", name=table, known=known, see="gossamer tables")
    gathered = client.each(lambda peer: peer.rows("tables/digests"))
    held: dict[str, dict[str, Row]] = {}
    for row in gathered:
        if row["name"] == table:
            held.setdefault(row["owner"], {})[row["node"]] = Answer(
                rows=row["rows"], checksum=row["checksum"]
            )
    asked = sorted({row["node"] for row in gathered})
    items: list[Row] = [
        {
            "owner": owner,
            "nodes": nodes,
            # A node without rows of an owner does not mention it.
            "same": len({one["checksum"] for one in nodes.values()}) == 1 and len(nodes) == len(asked),
        }
        for owner, nodes in sorted(held.items())
    ]

    def cells(item: Row) -> Iterable[object]:
        yield item["owner"]
        yield "yes" if item["same"] else "NO"
        for name in asked:
            one = item["nodes"].get(name)
            yield f"{one['rows']} rows {one['checksum'][:8]}" if one else "nothing"

    def parts() -> Iterable[Part]:
        empty = f"{table}: no node holds a replicated row of it"
        yield Grid(["OWNER", "SAME", *asked], [list(cells(item)) for item in items], empty)

    return Report({"table": table, "items": items, "missing": gathered.missing}, parts, gathered.missing)
