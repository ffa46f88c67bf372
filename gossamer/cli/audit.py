"""``gossamer audit``: what recorders did, how they are set; and the audit jobs, in a process of their own.

Where it is Spark that is asked, it brings a virtual machine of another language and its memory; what it is
told and what it prints is its own command's affair (``python -m gossamer.spark``), which is also what
``spark-submit`` takes.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from gossamer.cli.client import DEFAULT_API, ApiClient, Gathered
from gossamer.cli.options import Api, Json, OnNode, Watch
from gossamer.cli.output import note
from gossamer.cli.show import Listing, Missing, show
from gossamer.config import format_size
from gossamer.errors import WrongValueError

__all__ = ["app"]

app = typer.Typer(help="Record where every message went, and ask (DuckDB, Spark).", no_args_is_help=True)


@app.command()
def status(api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None) -> None:
    """Show what the recorder of every node, or of one, did: events, drops, gaps, files, bytes."""
    with ApiClient(api) as client:
        show(lambda _: _listing(client.get_all("/api/v1/audit", node=node)), json=json, watch=watch)


@app.command("set")
def change(
    on: Annotated[bool | None, typer.Option("--on/--off", help="Switch recording on or off.")] = None,
    sample: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Share of the messages to record.")
    ] = None,
    rotate_after: Annotated[str | None, typer.Option(help="Finish files after, such as 60s.")] = None,
    keep_for: Annotated[str | None, typer.Option(help="Remove files older than, such as 7d; or off.")] = None,
    keep_size: Annotated[str | None, typer.Option(help="Remove files beyond, such as 10GiB; or 0.")] = None,
    buffer: Annotated[int | None, typer.Option(min=1000, help="Rows kept in memory at most.")] = None,
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
) -> None:
    """Switch or set the recorder of all nodes that are up, or of one, until they are started anew."""
    body: dict[str, Any] = {"enable": on, "sample": sample, "buffer": buffer}
    body = {name: value for name, value in body.items() if value is not None}
    if rotate_after is not None:
        body["rotate_after"] = rotate_after
    if keep_for is not None:
        body["keep_for"] = keep_for
    if keep_size is not None:
        from gossamer.config import parse_size

        body["keep_size"] = parse_size(keep_size)
    if not body:
        raise WrongValueError("nothing to set: give --on, --off, --sample, --keep-for or another option")
    with ApiClient(api) as client:
        answers = client.post_all("/api/v1/audit", body, node=node)
    show(lambda _: _listing(answers), json=json)
    note("until the nodes are started anew; their configuration files stay as they are")


def _listing(gathered: Gathered) -> Listing:
    return Listing(
        Missing.of(gathered),
        [
            "NODE",
            "RECORDING",
            "SAMPLE",
            "MESSAGES",
            "EVENTS",
            "DROPPED",
            "GAPS",
            "WAITING",
            "FILES",
            "SIZE",
            "CLOCK",
        ],
        lambda row: [
            row["node"],
            "yes" if row["recording"] else "failed, see its log" if row["enabled"] else "no",
            f"{row['sample']:.2%}".replace(".00%", "%"),
            row["messages"],
            row["recorded"],
            row["dropped"],
            row["gaps"],
            row["buffered"],
            row["files"],
            format_size(row["bytes"]),
            "-" if row["clock_offset"] is None else f"{row['clock_offset'] * 1000:+.1f}ms",
        ],
        empty="no node answered",
    )


_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.command(context_settings=_PASSED_ON)
def run(context: typer.Context) -> None:
    """Run audit jobs over what the nodes recorded: ``gossamer audit run report --dir data/audit``."""
    _pass_on("run", context.args)


@app.command(context_settings=_PASSED_ON)
def stream(context: typer.Context) -> None:
    """Audit as it happens, and raise alarms: ``gossamer audit stream --dir data/audit``."""
    _pass_on("stream", context.args)


def _pass_on(command: str, arguments: list[str]) -> None:
    os.execv(sys.executable, [sys.executable, "-m", "gossamer.spark", command, *arguments])  # noqa: S606
