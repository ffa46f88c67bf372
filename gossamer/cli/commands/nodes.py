"""``gossamer cluster``, ``nodes``, ``live``, ``features``, ``raft``, ``tables``: who there is, with what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import typer

from gossamer.cli import completion, values
from gossamer.cli.client import ApiClient, Gathered, Row, by_name
from gossamer.cli.command import NODE_NAME, argument, asks, option
from gossamer.cli.commands.keys import app as keys
from gossamer.cli.errors import Answer, NotNowError, OptionError, UnknownNameError
from gossamer.cli.render.output import Grid, ago, ports_text, size_text
from gossamer.cli.render.show import Columns, Listing, Part, Report, table
from gossamer.cli.root import noun
from gossamer.config import format_duration

cluster = typer.Typer(no_args_is_help=True)
cluster.add_typer(keys, name="keys")

# Joining waits for tables, leaving for the news to spread, draining for clients and sessions to move.
_TIMEOUT = 60.0
_DRAIN_TIMEOUT = 600.0


@cluster.command()
@asks("--watch", node=True, watch=True)
def status(client: ApiClient) -> Report:
    """Show a node's state and every member as that node sees it."""
    answer = client.document("status")
    return Report(answer, lambda: status_parts(answer))


def status_parts(answer: Row) -> Iterable[Part]:
    """Format the answer of ``GET /api/v1/status``."""
    yield (
        f"{answer['name']} is {answer['state']} in cluster {answer['env']}, "
        f"up {format_duration(int(answer['uptime']))}, {answer['connections']} connections\n"
    )
    yield _members(answer["members"])
    if answer["hints"]:
        yield "\nSigns of a network fault, the latest first:"
        # A fault that lasts is hinted at again and again, in the same words.
        folded: dict[tuple[str, str], list[float]] = {}
        for hint in answer["hints"]:
            folded.setdefault((hint["kind"], hint["text"]), []).append(hint["at"])
        yield Grid(
            ["AGO", "TIMES", "KIND", "WHAT IT MEANS"],
            [[ago(seen[0]), len(seen), kind, text] for (kind, text), seen in folded.items()],
        )


@cluster.command()
@asks(node=True, watch=True)
def members(client: ApiClient) -> Listing:
    """List the members with the evidence: who sees them how, by gossip and by link, and signs of faults."""
    pulses = client.each(lambda peer: peer.document("pulse"))
    sights = {pulse["node"]: pulse["sees"] for pulse in pulses}

    def seen_by(name: str) -> Row:
        return {other: seen[name] for other, seen in sights.items() if other != name and name in seen}

    items = [Answer(row, seen_by=seen_by(row["name"])) for row in by_name(client.rows("members"))]
    return Listing(
        Gathered(items, pulses.missing),
        {
            "MEMBER": "name",
            "STATUS": "status",
            "INCARNATION": "incarnation",
            "SEEN BY": lambda row: _evidence(row["seen_by"]),
            "SIGNS OF FAULTS": lambda row: " ".join(row["hints"]),
        },
        empty="no members",
    )


def _evidence(seen_by: Mapping[str, Row]) -> str:
    """``all`` where they agree that all is well, else who sees what."""
    if seen_by and all(seen["status"] == "online" and seen["link"] == "up" for seen in seen_by.values()):
        return f"all {len(seen_by)}: online, link up"
    return "; ".join(f"{name}: {seen['status']}, link {seen['link']}" for name, seen in seen_by.items())


@cluster.command()
@asks("10.0.0.1:7946 10.0.0.2:7946", timeout=_TIMEOUT)
def join(
    client: ApiClient,
    endpoints: list[str] = argument(..., "ENDPOINT…", "Such as 10.0.0.2:7946.", callback=values.endpoint),
) -> Report:
    """Make the node join the cluster that answers at one of the gossip endpoints."""
    return _changed(client.post("cluster/join", {"endpoints": endpoints}))


@cluster.command()
@asks("--drain", timeout=_DRAIN_TIMEOUT)
def leave(
    client: ApiClient,
    drain: bool = option(False, "--drain", "First send its clients, and their sessions, to other nodes."),
) -> Report:
    """Make the node leave the cluster; it lives on alone and does not come back by itself."""
    drained = [str(client.post("cluster/drain")["done"])] if drain else []
    return _changed(client.post("cluster/leave"), *drained)


@cluster.command("force-leave")
@asks("node3@10.0.0.3", timeout=_TIMEOUT)
def force_leave(client: ApiClient, name: str = NODE_NAME) -> Report:
    """Remove a member that is permanently gone, so that nobody waits for it."""
    return _changed(client.post("cluster/force-leave", {"name": name}))


def _changed(answer: Row, *before: str) -> Report:
    return Report(answer, lambda: [*before, f"{answer['done']}\n", _members(answer["members"])])


def _members(members: Sequence[Row]) -> Grid:
    columns: Columns = {
        "MEMBER": lambda row: f"{row['name']}{' (asked)' if row['local'] else ''}",
        "STATUS": "status",
        "ADDRESS": lambda row: f"{row['address']}:{row['port']}",
        "INCARNATION": "incarnation",
        **_PROCESS,
    }
    return table(by_name(members), columns, "no members")


_PROCESS: Columns = {
    "UP": lambda row: ago(row["started_at"]),
    "PID": lambda row: row["pid"] or "",
    "PORTS": lambda row: ports_text(row["ports"]),
}


@asks("--watch", node=True, watch=True)
def services(client: ApiClient) -> Listing:
    """Which services each node runs."""
    rows = by_name(client.rows("nodes"))

    def runs(name: str) -> Callable[[Row], str]:
        return lambda row: "on" if row["services"][name] else "off"

    known = rows[0]["services"] if rows else ()
    return Listing(rows, {"NODE": "name", **{name.upper(): runs(name) for name in known}}, empty="no nodes")


nodes = noun()
features = noun()
raft = noun()
tables = noun()

_LIVE_TIMEOUT = 15.0


@nodes.command("list")
@asks(node=True, watch=True)
def list_nodes(client: ApiClient) -> Listing:
    """List the nodes of the cluster, and the links of the node that is asked."""
    return Listing(
        by_name(client.rows("nodes")),
        {"NAME": "name", "STATUS": "status", "LINK": "link", "ROUTES": "routes", **_PROCESS},
        empty="no nodes",
    )


@nodes.command("show")
@asks("node2@10.0.0.2 --watch", watch=True)
def show_node(client: ApiClient, name: str = NODE_NAME) -> Report:
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
    """Show each node's counters since its start.

    `gossamer top` shows them per second.
    """
    sample = next(client.events("live", silence=_LIVE_TIMEOUT), None)
    if sample is None:
        raise NotNowError(f"{client.url} ended the stream before it began; try again")
    columns: Columns = {
        "NODE": "node",
        "STATE": "state",
        "CLIENTS": "connections",
        **{key.upper(): key for key in ("sessions", "filters", "received", "sent", "dropped")},
        "MEMORY": lambda row: size_text(row["memory"]),
        "UP": lambda row: format_duration(float(int(row["uptime"]))),
    }
    rows = sorted(sample["nodes"], key=lambda row: str(row["node"]))
    return Report(sample, lambda: [table(rows, columns, "no node answered")], sample["missing"])


@features.command("list")
@asks(node=True, watch=True)
def list_features(client: ApiClient) -> Listing:
    """List the feature flags, and the members that each one waits for."""
    return _features(client.rows("features"))


@features.command("enable")
@asks("protocol_5", "--all")
def enable_features(
    client: ApiClient,
    name: str | None = argument(None, "NAME", "As the list shows it.", completion.features),
    everything: bool = option(False, "--all", "Enable all stable ones."),
) -> Listing:
    """Enable a feature flag in the whole cluster, once all members support it; this cannot be undone."""
    if (name is None) is not everything:
        got = "both" if everything else "neither"
        raise OptionError("enable", got=got, expected="the NAME of one feature, or --all")
    client.post("features", {"name": name})
    return _features(client.rows("features"))


def _features(rows: Sequence[Row]) -> Listing:
    return Listing(
        rows,
        {
            "FEATURE": "name",
            "STATE": lambda row: "enabled" if row["enabled"] else "disabled",
            "SINCE": "since",
            "STABILITY": "stability",
            "LACKED BY": lambda row: " ".join(row["lacked_by"]),
            "WHAT": "does",
        },
        empty="this release has no feature flags",
    )


@raft.command("status")
@asks("--watch", node=True, watch=True)
def raft_status(client: ApiClient) -> Report:
    """Show the groups of replicas: who leads each, and how far each replica is."""
    return _groups(client.rows("raft"))


@raft.command()
@asks("node2@10.0.0.2")
def transfer(
    client: ApiClient,
    name: str = argument(..., "NODE", "The voter that is to lead.", completion.nodes),
    group: str = option("names", "--group", "Which group, by its kind as the status shows it."),
) -> Report:
    """Hand leadership of a group to another voter."""
    return _groups([client.post("raft/transfer", {"node": name, "kind": group})])


@raft.command()
@asks("node2@10.0.0.2")
def recover(
    client: ApiClient,
    name: str = argument(..., "NODE", "The node whose copy goes on.", completion.nodes),
) -> Report:
    """Abandon the groups whose quorum is lost for good, and found new ones from one node's copies.

    What was committed without that node is lost. Try to start the other voters first.
    """
    with client.node(name) as peer:
        peer.post("raft/recover")
        return _groups(peer.rows("raft"))


@raft.command()
@asks(node=True, watch=True)
def names(client: ApiClient) -> Listing:
    """List the names that have one holder in the whole cluster."""
    return Listing(
        client.rows("names"),
        {"NAME": "name", "NODE": "node", "PID": "pid", "FENCE": "fence"},
        empty="no names",
    )


def _groups(groups: Sequence[Row]) -> Report:
    def parts() -> Iterable[Part]:
        if not groups:
            yield "no group of replicas was founded: it takes a data directory and five quiet seconds"
        for number, group in enumerate(groups):
            yield from [""] * (number > 0)
            yield from _group(group)

    return Report({"groups": list(groups)}, parts)


def _group(answer: Row) -> Iterable[Part]:
    leads = answer["leader"]
    columns: Columns = {
        "NODE": "node",
        "REPLICA": "replica",
        "ROLE": lambda row: "learner" if not row["voter"] else "leader" if row["node"] == leads else "voter",
        "BEHIND": lambda row: "" if row["match"] is None else max(answer["committed"] - row["match"], 0),
        "FLOW": "flow",
    }

    leader = f"led by {leads}" if leads else "without a leader: too few of its voters are up"
    changing = ", its voters are changing" if answer["changing"] else ""
    yield f"{answer['kind']}, group {answer['group']}, {leader}, term {answer['term']}{changing}"
    yield f"applied up to entry {answer['applied']}, says {answer['told_by']}"
    yield ""
    yield table(answer["members"], columns, "no replicas")


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
    table: str = argument(..., "TABLE", "As `tables` shows it.", completion.tables),
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
