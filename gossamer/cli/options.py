"""Options that several commands share, so that they are spelt and explained once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli.client import DEFAULT_API

__all__ = ["Api", "ConfigFile", "Json", "Limit", "OnNode"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Api = Annotated[
    str,
    typer.Option(
        "--api",
        envvar="GOSSAMER_API",
        metavar="URL",
        help=f"API of a node [default: {DEFAULT_API}]",
        show_default=False,
    ),
]
OnNode = Annotated[
    str | None, typer.Option("--node", metavar="NAME", help="Ask this node rather than the one at --api.")
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Print so many at most.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "-c", "--config", metavar="FILE", dir_okay=False, help="YAML file; without it all defaults."
    ),
]
