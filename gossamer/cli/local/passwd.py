"""``gossamer passwd``: the users of a password file, or of one for SCRAM-SHA-256."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli.render.output import note

__all__ = ["passwd"]


def passwd(
    file: Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="Password file.")],
    user: Annotated[str, typer.Argument(metavar="USER", help="User name.")],
    delete: Annotated[bool, typer.Option("--delete", "-D", help="Delete the user.")] = False,
    stdin: Annotated[bool, typer.Option("--stdin", help="Read the password from standard input.")] = False,
    scram: Annotated[
        bool,
        typer.Option("--scram", help="FILE is mqtt.auth.scram_file: for SCRAM-SHA-256, not for passwords."),
    ] = False,
) -> None:
    """Set the password of USER in FILE, created if missing; a running node rereads it by itself."""
    from gossamer.mqtt import set_password, set_scram_password

    password = None
    if not delete:
        password = (
            sys.stdin.readline().rstrip("\r\n")
            if stdin
            else typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True)
        )
        if not password:
            raise typer.BadParameter("the password is empty")
    known = (set_scram_password if scram else set_password)(file, user, password)
    if delete:
        note(f"{user} deleted" if known else f"{user} was not there")
    else:
        note(f"{user} has a new password" if known else f"{user} added")
