"""``gossamer drill start``: have a node carry out a drill, on its machine or on its own cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from gossamer.cli.api.client import DEFAULT_API
from gossamer.cli.drill.options import KINDS, SPLITS
from gossamer.cli.options import Api, Json, OnNode
from gossamer.cli.runs import Wait, start_run
from gossamer.errors import WrongValueError

__all__ = ["start_drill"]


def start_drill(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="partition, kill, slow, …", autocompletion=KINDS)
    ],
    here: Annotated[
        bool,
        typer.Option(
            "--here",
            help="Split this very cluster (partition only; needs an administrator and drill.faults).",
        ),
    ] = False,
    split: Annotated[
        str | None,
        typer.Option("--split", help="2/1; one way 1>2; one link 1-2.", autocompletion=SPLITS),
    ] = None,
    hold: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long the fault holds.")] = "10s",
    nodes: Annotated[
        int | None, typer.Option("--nodes", "-n", min=2, help="Of its own cluster (default: 3).")
    ] = None,
    load: Annotated[
        float | None, typer.Option("--load", min=0, help="Messages a second (default: 100).")
    ] = None,
    number: Annotated[
        int | None,
        typer.Option("--number", min=1, help="Of the node to kill, pause … (default: the last)."),
    ] = None,
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
    wait: Wait = False,
) -> None:
    """Start a drill on the machine of a node, on a cluster of its own; with --here on the running cluster."""
    from gossamer.config import parse_duration

    try:
        seconds = parse_duration(hold)
    except ValueError:
        raise WrongValueError(f"--for: got {hold!r}, expected a duration such as 500ms, 15s, 5m") from None
    body = {"kind": kind, "seconds": seconds, "split": split, "nodes": nodes, "load": load, "node": number}
    body["on"] = "this-cluster" if here else None
    start_run("drills", body, runs="drills", api=api, node=node, json=json, wait=wait)
