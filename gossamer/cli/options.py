"""Options that several commands share, so that they are spelt and explained once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import names
from gossamer.cli.api.client import DEFAULT_API

__all__ = ["AllNodes", "Api", "ClientId", "ConfigFile", "Json", "Limit", "OnNode", "Watch"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Api = Annotated[
    str,
    typer.Option(
        "--api",
        envvar="GOSSAMER_API",
        metavar="URL",
        help=f"API of a node (default: {DEFAULT_API})",
        show_default=False,
    ),
]
OnNode = Annotated[
    str | None,
    typer.Option(
        "--node",
        metavar="NAME",
        help="Ask this node, through the one at --api, rather than that one or all.",
        autocompletion=names.nodes,
    ),
]
AllNodes = Annotated[bool, typer.Option("--all", help="Every node that is up.")]
ClientId = Annotated[
    str, typer.Argument(metavar="ID", help="A client identifier, of any node.", autocompletion=names.clients)
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Print so many at most.")]
Watch = Annotated[
    float | None,
    typer.Option(
        "--watch",
        "-w",
        min=0.1,
        metavar="[SECONDS]",
        help="Again every so many seconds, 2 unless told, until Ctrl-C; what changed is marked.",
        show_default=False,
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "-c", "--config", metavar="FILE", dir_okay=False, help="YAML file; without it all defaults."
    ),
]
