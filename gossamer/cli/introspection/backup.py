"""``gossamer backup``: write what a running node has on disc to a file of its machine."""

from __future__ import annotations

from typing import Annotated

import typer

from gossamer.cli.api.client import DEFAULT_API, ApiClient
from gossamer.cli.options import Api, Json, OnNode
from gossamer.cli.render.output import emit_json, note, printable, size_text

__all__ = ["backup"]

_PATIENT = 320.0


def backup(
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="PATH",
            help="A new file on the node's machine, from / on (default: in backups of its data directory).",
            show_default=False,
        ),
    ] = None,
    api: Api = DEFAULT_API,
    node: OnNode = None,
    json: Json = False,
) -> None:
    """Back up a running node's sessions, queues and tables to one file on its machine."""
    with ApiClient(api, node=node, timeout=_PATIENT) as client:
        made = client.post("/api/v1/backup", {"path": to})
    if json:
        emit_json(made)
        return
    typer.echo(printable(made["path"]))
    note(f"{size_text(made['bytes'])} of {made['node']} in {made['seconds']:.1f} s")
