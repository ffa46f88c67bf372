"""``gossamer autoheal``: splits seen and healed, what a heal would do now, what it set aside; and alarms.

Rule: alarms and the quarantine are asked of all nodes, since each keeps its own; the same heal, or the same
row, is shown once with the nodes that know of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any

import typer

from gossamer.cli.client import DEFAULT_API, ApiClient, Gathered
from gossamer.cli.exits import ExitCode
from gossamer.cli.options import Api, Json, OnNode
from gossamer.cli.output import emit_json, note, print_table
from gossamer.config import format_duration
from gossamer.errors import UsageError

__all__ = ["alarms", "app"]

app = typer.Typer(help="See how splits of the cluster were healed, and change how.", no_args_is_help=True)
_quarantine = typer.Typer(help="List rows that lost in a heal, or write one again.")
app.add_typer(_quarantine, name="quarantine")

Items = list[dict[str, Any]]


class NotQuarantinedError(UsageError):
    """No node has this row."""

    def __init__(self, *, id: str) -> None:
        self.id = id
        super().__init__(f"{id}: in no node's quarantine; `gossamer autoheal quarantine` lists what is")


@app.command()
def status(api: Api = DEFAULT_API, node: OnNode = None, json: Json = False) -> None:
    """Show what a node knows of splits, and how it is set."""
    with _ask(api, node) as client:
        answer = client.get("/api/v1/autoheal")
    if json:
        emit_json(answer)
        return
    _print_status(answer)


@app.command("set")
def change(
    autoheal: Annotated[
        str | None, typer.Option(help="on, off, or how long the leader waits, such as 15s.")
    ] = None,
    autoclean: Annotated[
        str | None, typer.Option(help="off, or how long a member may be down, such as 5m.")
    ] = None,
    api: Api = DEFAULT_API,
    json: Json = False,
) -> None:
    """Change autoheal or autoclean, on all nodes and over restarts."""
    wanted = {"autoheal": autoheal, "autoclean": autoclean}
    given = {name: value for name, value in wanted.items() if value is not None}
    if not given:
        raise UsageError("nothing to set: give --autoheal, --autoclean, or both")
    with ApiClient(api) as client:
        answer = client.post("/api/v1/autoheal", given)
    if json:
        emit_json(answer)
        return
    _print_status(answer)
    note("all nodes that are up follow; their configuration files stay as they are")


@app.command()
def history(api: Api = DEFAULT_API, node: OnNode = None, json: Json = False) -> None:
    """List the splits that were healed: who survived, who reloaded, what became of the rows."""
    with _ask(api, node) as client:
        items = client.get("/api/v1/autoheal/history")
    if json:
        emit_json({"items": items})
        return
    print_table(
        ["SPLIT AT", "HEALED AFTER", "SURVIVORS", "RELOADED", "AWAY", "RESTORED", "MERGED", "QUARANTINED"],
        (
            [
                _clock(row["split_at"]),
                f"{row['healed_at'] - row['split_at']:.1f}s",
                " ".join(row["survivors"]),
                " ".join(row["reloaded"]),
                " ".join(row["skipped"]),
                row["rows"]["restored"],
                row["rows"]["merged"],
                row["rows"]["quarantined"],
            ]
            for row in items
        ),
        empty="no split was healed so far",
    )


@app.command()
def plan(
    api: Api = DEFAULT_API,
    json: Json = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Ask every node for its view now, and change nothing.")
    ] = False,
) -> None:
    """Show the plan that is being carried out, or with --dry-run what a heal would do now."""
    with ApiClient(api) as client:
        if dry_run:
            found = client.get("/api/v1/autoheal/plan")
        else:
            found = client.get("/api/v1/autoheal")["plan"] or {"id": "", "split": False}
    if json:
        emit_json(found)
        return
    if not found["split"]:
        note(
            "nothing to heal: every node saw the same"
            if dry_run
            else "this node has no plan in hand; --dry-run shows what a heal would do now"
        )
        return
    restarts = "the whole node" if found["restart"] == "node" else "its tables; clients stay"
    print_table(
        ["GROUP", "NODES", "WHAT", "SAW DOWN"],
        (
            [
                number,
                " ".join(group),
                "survives" if number == 1 else f"restarts {restarts}",
                " ".join(sorted({peer for name in group for peer in found["saw_down"].get(name, ())})),
            ]
            for number, group in enumerate(found["groups"], 1)
        ),
        empty="no groups",
    )
    note(f"leader {found['leader']}, coordinator {found['coordinator']}")
    if found["missing"]:
        note(f"away, healed once they are back: {' '.join(found['missing'])}")


@_quarantine.callback(invoke_without_command=True)
def quarantine(context: typer.Context, api: Api = DEFAULT_API, json: Json = False) -> None:
    """List the rows that lost when two sides of a split became one, on all nodes."""
    if context.invoked_subcommand is not None:
        return
    with ApiClient(api) as client:
        gathered = client.gather("/api/v1/autoheal/quarantine")
    items = _once(gathered.items, "id")
    if json:
        emit_json({"items": items, "missing": gathered.missing})
    else:
        print_table(
            ["ID", "TABLE", "KEY", "VALUE", "BY", "AT", "LOST TO", "HEAL", "ON"],
            (
                [
                    row["id"],
                    row["table"],
                    row["key"],
                    "(deleted)" if row["deleted"] else row["value"],
                    row["author"],
                    _clock(row["written_at"]),
                    row["lost_to"],
                    row["policy"],
                    f"{len(row['nodes'])} nodes" if len(row["nodes"]) > 1 else row["nodes"][0],
                ]
                for row in sorted(items, key=lambda row: float(row["at"]))
            ),
            empty="the quarantine is empty: no heal threw anything away",
        )
    _complain(gathered)


@_quarantine.command()
def replay(
    id: Annotated[str, typer.Argument(metavar="ID", help="As the list shows it.")],
    api: Api = DEFAULT_API,
    json: Json = False,
) -> None:
    """Write a row of the quarantine again, over what its table holds now."""
    with ApiClient(api) as client:
        gathered = client.gather("/api/v1/autoheal/quarantine")
        names = [row["node"] for row in gathered.items if row["id"] == id]
        if not names:
            raise NotQuarantinedError(id=id)
        path = f"/api/v1/autoheal/quarantine/{id}/replay"
        own = next((row["name"] for row in client.get("/api/v1/nodes") if row["link"] == "self"), "")
        if own in names:
            row = client.post(path)
        else:
            with client.node(names[0]) as holder:
                row = holder.post(path)
    if json:
        emit_json(row)
        return
    what = "deleted again" if row["deleted"] else "written again"
    note(f"{row['table']} {row['key']}: {what}, as {row['author']} had left it")


def alarms(api: Api = DEFAULT_API, json: Json = False) -> None:
    """List alarms of all nodes: partitions that last, and those that were healed."""
    with ApiClient(api) as client:
        gathered = client.gather("/api/v1/alarms")
    # A partition is one of its node; a heal is the same for all that took part.
    items = _once(gathered.items, "plan", "text")
    items.sort(key=lambda alarm: (not alarm["active"], -float(alarm["since"])))
    if json:
        emit_json({"items": items, "missing": gathered.missing})
        _complain(gathered)
        return
    print_table(
        ["ALARM", "STATE", "SINCE", "FOR", "NODE", "WHAT"],
        (
            [
                alarm["name"],
                "active" if alarm["active"] else "over",
                _clock(alarm["since"]),
                format_duration(max(0, int((alarm["until"] or time.time()) - alarm["since"]))),
                f"{len(alarm['nodes'])} nodes" if len(alarm["nodes"]) > 1 else alarm["nodes"][0],
                alarm["text"],
            ]
            for alarm in items
        ),
        empty="no alarms",
    )
    _complain(gathered)


def _print_status(answer: Mapping[str, Any]) -> None:
    partitions = [
        f"{pair['peer']} (down {_clock(pair['down_at'])}, back {_clock(pair['met_at'])})"
        for pair in answer["open"]
    ]
    down = [f"{name} ({format_duration(int(spent))})" for name, spent in answer["down"].items()]
    cleaned = [f"{name} ({_clock(at)})" for name, at in answer["cleaned"].items()]
    rows = [
        ("node", answer["name"]),
        ("autoheal", _switch(answer["autoheal"])),
        ("autoclean", _switch(answer["autoclean"])),
        ("leader", answer["leader"]),
        ("phase", answer["phase"]),
        ("partitions", "; ".join(partitions) or "none"),
        ("down", "; ".join(down) or "nobody"),
        ("removed here", "; ".join(cleaned) or "nobody"),
        ("healed so far", answer["heals"]),
        ("quarantine", f"{answer['quarantined']} rows"),
    ]
    if answer["quarantine_dropped"]:
        rows.append(("dropped there", f"{answer['quarantine_dropped']} rows"))
    print_table(["WHAT", ""], rows, empty="")


def _ask(api: str, node: str | None) -> ApiClient:
    client = ApiClient(api)
    if node is None:
        return client
    with client:
        return client.node(node)


def _once(items: Iterable[dict[str, Any]], *key: str) -> Items:
    """Each once, with the ``nodes`` that have it."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for item in items:
        about = {name: value for name, value in item.items() if name != "node"}
        name = tuple(item[part] for part in key)
        found.setdefault(name, {**about, "nodes": []})["nodes"].append(item["node"])
    return list(found.values())


def _complain(gathered: Gathered) -> None:
    for name, reason in gathered.missing.items():
        note(f"incomplete: {name} did not answer: {reason}")
    if gathered.missing:
        raise typer.Exit(ExitCode.UNAVAILABLE)


def _switch(seconds: float | None) -> str:
    return "off" if seconds is None else format_duration(seconds)


def _clock(moment: float) -> str:
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""
