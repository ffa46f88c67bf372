"""Options that several commands of ``gossamer drill`` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer

from gossamer.cli import completion
from gossamer.cli.errors import OptionError
from gossamer.drill.record import BackEndName, DrillKind

__all__ = ["KINDS", "SPLITS", "BackEnd", "Seed", "check_files"]

KINDS = completion.known(*get_args(DrillKind))
SPLITS = completion.known("3/2", "2/1", "2/2/1", "1>2", "1-2")

BackEnd = Annotated[
    BackEndName, typer.Option("--backend", help="gate: faults in the nodes; netns: real packets, needs root.")
]
Seed = Annotated[int, typer.Option("--seed", help="Decides the order of messages.")]


def check_files(**files: Path | None) -> None:
    """Check before the drill that the files which it is to write can be made; ``-`` is standard output."""
    for name, file in files.items():
        if file is not None and str(file) != "-" and not file.absolute().parent.is_dir():
            raise OptionError(f"--{name}", got=str(file), expected="a file in a directory that exists")
