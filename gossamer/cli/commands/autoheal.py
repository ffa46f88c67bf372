"""``gossamer autoheal``: splits seen and healed, the plan of a heal, the quarantine.

Rule: each node keeps a quarantine of its own, so all are asked; the same row is listed once with its nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

import typer

from gossamer.api.model.forms import ROW_ID
from gossamer.cli import completion, values
from gossamer.cli.client import ApiClient, Gathered, Row
from gossamer.cli.command import argument, asks, option
from gossamer.cli.commands.events import merged, nodes_text
from gossamer.cli.render.output import Grid, clock
from gossamer.cli.render.show import Listing, Note, Part, Report
from gossamer.cli.root import noun
from gossamer.config import format_duration

autoheal = typer.Typer(no_args_is_help=True)
_quarantine = noun(help="Rows that lost in a heal; replay one.")
autoheal.add_typer(_quarantine, name="quarantine")


@autoheal.command()
@asks(node=True, watch=True)
def status(client: ApiClient) -> Report:
    """Show what a node knows of splits, and its settings."""
    answer = client.document("autoheal")
    return Report(answer, lambda: [_status(answer)])


@autoheal.command("set")
@asks("--autoheal 15s --autoclean 5m")
def change(
    client: ApiClient,
    autoheal: str | None = option(None, "--autoheal", "on, off, or how long the leader waits, such as 15s."),
    autoclean: str | None = option(None, "--autoclean", "off, or how long a member may be down, such as 5m."),
) -> Report:
    """Change autoheal or autoclean, on all nodes and over restarts."""
    from gossamer.api.model.cluster import HealSettings

    given = values.changes(HealSettings, {"autoheal": autoheal, "autoclean": autoclean})
    answer = client.post("autoheal", given)
    remark = Note("all nodes that are up follow; their configuration files stay as they are")
    return Report(answer, lambda: [_status(answer), remark])


@autoheal.command()
@asks(node=True, watch=True)
def history(client: ApiClient) -> Listing:
    """List the splits that were healed: survivors, reloaded nodes, and what became of the rows."""
    return Listing(
        client.rows("autoheal/history"),
        {
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
    )


@autoheal.command()
@asks("--dry-run")
def plan(
    client: ApiClient,
    dry_run: bool = option(False, "--dry-run", "Ask every node for its view now, and change nothing."),
) -> Report:
    """Show the plan that is being carried out, or with --dry-run what a heal would do now."""
    if dry_run:
        found = client.document("autoheal/plan")
        nothing = "nothing to heal: every node saw the same"
    else:
        found = client.document("autoheal")["plan"] or {"id": "", "split": False}
        nothing = "this node has no plan in hand; --dry-run shows what a heal would do now"
    return Report(found, lambda: _plan(found) if found["split"] else [Note(nothing)])


def _plan(found: Row) -> Iterable[Part]:
    restarts = "the whole node" if found["restart"] == "node" else "its tables; clients stay"
    yield Grid(
        ["GROUP", "NODES", "WHAT", "SAW DOWN"],
        [
            [
                number,
                " ".join(group),
                "survives" if number == 1 else f"restarts {restarts}",
                " ".join(sorted({peer for name in group for peer in found["saw_down"].get(name, ())})),
            ]
            for number, group in enumerate(found["groups"], 1)
        ],
        "no groups",
    )
    yield Note(f"leader {found['leader']}, coordinator {found['coordinator']}")
    if found["missing"]:
        yield Note(f"away, healed once they are back: {' '.join(found['missing'])}")


@_quarantine.command("list")
@asks(node=True, watch=True)
def list_quarantine(client: ApiClient) -> Listing:
    """List the rows that lost when the sides of a split were merged, on all nodes, or on one."""
    found = client.listed("autoheal/quarantine")
    return Listing(
        Gathered(sorted(merged(found, "id"), key=lambda row: float(row["at"])), found.missing),
        {
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
    )


@_quarantine.command()
@asks("0123456789ab")
def replay(
    client: ApiClient,
    id: str = argument(
        ..., "ID", "As the list shows it.", completion.quarantined, callback=values.form(ROW_ID)
    ),
) -> Report:
    """Replay a row of the quarantine, over what its table holds now."""
    row = client.post(f"autoheal/quarantine/{id}/replay")
    what = "deleted again" if row["deleted"] else "written again"
    return Report(row, lambda: [Note(f"{row['table']} {row['key']}: {what}, as {row['author']} had left it")])


def _status(answer: Row) -> Grid:
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
