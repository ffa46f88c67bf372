"""Values of the options of drills: how they are parsed, checked and completed."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import typer

from gossamer.cli import names
from gossamer.drill.record import BackEndName
from gossamer.errors import WrongValueError

__all__ = ["BACKENDS", "KINDS", "SPLITS", "DrillOptionError", "backend_named", "check_files", "duration"]

BACKENDS = names.known(*get_args(BackEndName))
SPLITS = names.known("3/2", "2/1", "2/2/1", "1>2", "1-2")
KINDS = names.known(
    "partition", "flapping", "slow", "kill", "pause", "rolling", "clock", "coordinator", "disk"
)


class DrillOptionError(WrongValueError):
    """An option of a drill whose value cannot be used."""

    def __init__(self, *, option: str, got: str, expected: str) -> None:
        self.option = option
        super().__init__(f"{option}: got {got!r}, expected {expected}")


def duration(text: str) -> float:
    """Parse a duration such as ``15s``; seconds."""
    # Imported here, so that help is printed without loading the schema.
    from gossamer.config import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"got {text!r}, expected {error}") from None


def backend_named(text: str) -> BackEndName:
    """Check the value of ``--backend``."""
    for name in get_args(BackEndName):
        if name == text:
            found: BackEndName = name
            return found
    raise DrillOptionError(option="--backend", got=text, expected=" or ".join(get_args(BackEndName)))


def check_files(**files: Path | None) -> None:
    """Check before the drill that the files which it is to write can be made; ``-`` is standard output."""
    for option, file in files.items():
        if file is not None and str(file) != "-" and not file.absolute().parent.is_dir():
            raise DrillOptionError(
                option=f"--{option}", got=str(file), expected="a file in a directory that exists"
            )
