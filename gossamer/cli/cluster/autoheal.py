"""``gossamer autoheal``: splits seen and healed, the plan of a heal, the quarantine.

Rule: each node keeps a quarantine of its own, so all are asked; the same row is listed once with its nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from gossamer.cli import names
from gossamer.cli.api.client import DEFAULT_API, ApiClient
from gossamer.cli.nouns import noun
from gossamer.cli.options import Api, Json, OnNode, Watch
from gossamer.cli.render.output import clock, emit_json, note, print_result, print_table
from gossamer.cli.render.show import Report, show
from gossamer.cli.render.table import Grid
from gossamer.cli.resources.listing import Resource, add_list, gathered, nodes_text
from gossamer.config import format_duration
from gossamer.errors import UsageError, WrongValueError

__all__ = ["app"]

app = typer.Typer(help="See how splits were healed, and change the settings.", no_args_is_help=True)
_quarantine = noun("Rows that lost in a heal; replay one.")
app.add_typer(_quarantine, name="quarantine")


class NotQuarantinedError(UsageError):
    """No node has this row."""

    def __init__(self, *, id: str) -> None:
        self.id = id
        super().__init__(f"{id}: in no node's quarantine; `gossamer autoheal quarantine` lists what is")


@app.command()
def status(api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None) -> None:
    """Show what a node knows of splits, and its settings."""
    with ApiClient(api, node=node) as client:
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


add_list(
    app,
    Resource(
        path="autoheal/history",
        says="List the splits that were healed: survivors, reloaded nodes, and what became of the rows.",
        columns={
            "SPLIT AT": lambda row: clock(row["split_at"]),
            "HEALED AFTER": lambda row: f"{row['healed_at'] - row['split_at']:.1f}s",
            "SURVIVORS": lambda row: " ".join(row["survivors"]),
            "RELOADED": lambda row: " ".join(row["reloaded"]),
            "AWAY": lambda row: " ".join(row["skipped"]),
            "RESTORED": lambda row: row["rows"]["restored"],
            "MERGED": lambda row: row["rows"]["merged"],
            "QUARANTINED": lambda row: row["rows"]["quarantined"],
        },
        empty="no split was healed so far",
        key=3,
    ),
    "history",
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


add_list(
    _quarantine,
    Resource(
        path="autoheal/quarantine",
        says="List the rows that lost when the sides of a split were merged, on all nodes, or on one.",
        columns={
            "ID": "id",
            "TABLE": "table",
            "KEY": "key",
            "VALUE": lambda row: "(deleted)" if row["deleted"] else row["value"],
            "BY": "author",
            "AT": lambda row: clock(row["written_at"]),
            "LOST TO": "lost_to",
            "HEAL": "policy",
            "ON": nodes_text,
        },
        empty="the quarantine is empty: no heal threw anything away",
        fetch=gathered("id", order=lambda row: float(row["at"])),
        each_node=True,
    ),
)


@_quarantine.command()
def replay(
    id: Annotated[
        str,
        typer.Argument(metavar="ID", help="As the list shows it.", autocompletion=names.quarantined),
    ],
    api: Api = DEFAULT_API,
    json: Json = False,
) -> None:
    """Replay a row of the quarantine, over what its table holds now."""
    with ApiClient(api) as client:
        found = client.gather("/api/v1/autoheal/quarantine")
        names = [row["node"] for row in found.items if row["id"] == id]
        if not names:
            raise NotQuarantinedError(id=id)
        path = f"/api/v1/autoheal/quarantine/{id}/replay"
        with client.node(names[0]) as holder:
            row = holder.post(path)
    what = "deleted again" if row["deleted"] else "written again"
    print_result(row, f"{row['table']} {row['key']}: {what}, as {row['author']} had left it", json=json)


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
