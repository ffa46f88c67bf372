"""``gossamer autoheal``: splits seen and healed, what a heal would do now, what it set aside.

Rule: the quarantine is asked of all nodes, since each keeps its own; the same row is shown once with the
nodes that know of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from gossamer.cli import values
from gossamer.cli.alarms import once
from gossamer.cli.client import DEFAULT_API, ApiClient
from gossamer.cli.noun import noun
from gossamer.cli.options import Api, Json, OnNode, Watch
from gossamer.cli.output import clock, emit_json, note, print_table
from gossamer.cli.show import Listing, Missing, Report, ask, show
from gossamer.cli.table import Grid
from gossamer.config import format_duration
from gossamer.errors import UsageError, WrongValueError

__all__ = ["app"]

app = typer.Typer(help="See how splits of the cluster were healed, and change how.", no_args_is_help=True)
_quarantine = noun("Rows that lost in a heal; write one again.")
app.add_typer(_quarantine, name="quarantine")


class NotQuarantinedError(UsageError):
    """No node has this row."""

    def __init__(self, *, id: str) -> None:
        self.id = id
        super().__init__(f"{id}: in no node's quarantine; `gossamer autoheal quarantine` lists what is")


@app.command()
def status(api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None) -> None:
    """Show what a node knows of splits, and how it is set."""
    with ask(api, node) as client:
        show(lambda _: _report(client.document("/api/v1/autoheal")), json=json, watch=watch)


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
        raise WrongValueError("nothing to set: give --autoheal, --autoclean, or both")
    with ApiClient(api) as client:
        answer = client.post("/api/v1/autoheal", given)
    show(lambda _: _report(answer), json=json)
    if json:
        return
    note("all nodes that are up follow; their configuration files stay as they are")


@app.command()
def history(api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None) -> None:
    """List the splits that were healed: who survived, who reloaded, what became of the rows."""
    with ask(api, node) as client:
        show(
            lambda _: Listing(
                client.rows("/api/v1/autoheal/history"),
                [
                    "SPLIT AT",
                    "HEALED AFTER",
                    "SURVIVORS",
                    "RELOADED",
                    "AWAY",
                    "RESTORED",
                    "MERGED",
                    "QUARANTINED",
                ],
                lambda row: [
                    clock(row["split_at"]),
                    f"{row['healed_at'] - row['split_at']:.1f}s",
                    " ".join(row["survivors"]),
                    " ".join(row["reloaded"]),
                    " ".join(row["skipped"]),
                    row["rows"]["restored"],
                    row["rows"]["merged"],
                    row["rows"]["quarantined"],
                ],
                empty="no split was healed so far",
                key=3,
            ),
            json=json,
            watch=watch,
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


@_quarantine.command("list")
def list_quarantine(
    api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None
) -> None:
    """List the rows that lost when two sides of a split became one, on all nodes, or on one."""
    with ask(api) as client:
        show(lambda _: _listing(client, node), json=json, watch=watch)


def _listing(client: ApiClient, node: str | None) -> Listing:
    gathered = client.gather("/api/v1/autoheal/quarantine", node=node)
    items = sorted(once(gathered.items, "id"), key=lambda row: float(row["at"]))
    return Listing(
        Missing(items, gathered.missing),
        ["ID", "TABLE", "KEY", "VALUE", "BY", "AT", "LOST TO", "HEAL", "ON"],
        lambda row: [
            row["id"],
            row["table"],
            row["key"],
            "(deleted)" if row["deleted"] else row["value"],
            row["author"],
            clock(row["written_at"]),
            row["lost_to"],
            row["policy"],
            f"{len(row['nodes'])} nodes" if len(row["nodes"]) > 1 else row["nodes"][0],
        ],
        empty="the quarantine is empty: no heal threw anything away",
    )


@_quarantine.command()
def replay(
    id: Annotated[
        str,
        typer.Argument(metavar="ID", help="As the list shows it.", autocompletion=values.quarantined),
    ],
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
        with client.node(names[0]) as holder:
            row = holder.post(path)
    if json:
        emit_json(row)
        return
    what = "deleted again" if row["deleted"] else "written again"
    note(f"{row['table']} {row['key']}: {what}, as {row['author']} had left it")


def _report(answer: dict[str, Any]) -> Report:
    return Report(answer, lambda: [_status(answer)])


def _status(answer: Mapping[str, Any]) -> Grid:
    partitions = [
        f"{pair['peer']} (down {clock(pair['down_at'])}, back {clock(pair['met_at'])})"
        for pair in answer["open"]
    ]
    down = [f"{name} ({format_duration(int(spent))})" for name, spent in answer["down"].items()]
    cleaned = [f"{name} ({clock(at)})" for name, at in answer["cleaned"].items()]
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
    return Grid(["WHAT", ""], rows)


def _switch(seconds: float | None) -> str:
    return "off" if seconds is None else format_duration(seconds)
