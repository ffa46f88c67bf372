"""``gossamer completion``: the script that makes a shell complete verbs, options, nodes, clients, topics."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import values
from gossamer.cli.output import note
from gossamer.cli.shells import SCRIPTS, UnknownShellError, install, shell_of_user
from gossamer.errors import UsageError

__all__ = ["completion", "print_script", "put_in_place"]


class InstallError(UsageError):
    """A file of the user's cannot be written."""

    def __init__(self, *, path: str, problem: str) -> None:
        self.path = path
        super().__init__(f"{path}: {problem}; put the output of `gossamer completion SHELL` there yourself")


def completion(
    shell: Annotated[
        str | None,
        typer.Argument(
            metavar="SHELL", help="bash, zsh or fish (default: yours).", autocompletion=values.shells
        ),
    ] = None,
    install: Annotated[
        bool, typer.Option("--install", help="Put it where the shell finds it, for this user.")
    ] = False,
) -> None:
    """Print the script that makes a shell complete commands, options and names of the cluster."""
    if install:
        put_in_place(shell)
    else:
        print_script(shell)


def print_script(shell: str | None = None) -> None:
    """On standard output."""
    sys.stdout.write(SCRIPTS[_chosen(shell)])


def put_in_place(shell: str | None = None) -> None:
    """For this user; says where."""
    name = _chosen(shell)
    try:
        files = install(name, Path.home())
    except OSError as error:
        raise InstallError(path=str(error.filename), problem=error.strerror or str(error)) from error
    for file in files:
        sys.stdout.write(f"{file}\n")
    note(f"in place for {name}; open a new shell, and press TAB behind gossamer")


def _chosen(shell: str | None) -> str:
    if shell is None:
        return shell_of_user()
    if shell not in SCRIPTS:
        raise UnknownShellError(got=shell)
    return shell
