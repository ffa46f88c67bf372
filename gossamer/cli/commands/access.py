"""``gossamer tokens`` and ``passwd``: who may use the API from other machines, and who may connect.

The commands of tokens run on a node's machine, or with an administrator's token in GOSSAMER_TOKEN.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import typer

from gossamer.api.model.forms import ROW_ID, TOKEN_NAME
from gossamer.cli import completion, values
from gossamer.cli.client import ApiClient, Row
from gossamer.cli.command import argument, asks, option
from gossamer.cli.errors import ExitCode, OptionError
from gossamer.cli.render.output import ago, note, until
from gossamer.cli.render.show import Listing, Note, Part, Report
from gossamer.cli.root import example

ROLES = ("viewer", "operator", "admin")
"""Roles of the API, listed here to avoid loading it."""

tokens = typer.Typer(no_args_is_help=True)


@tokens.command("list")
@asks()
def list_tokens(client: ApiClient) -> Listing:
    """List the tokens of the cluster; their secrets are not stored."""
    return Listing(
        client.rows("tokens"),
        {
            "ID": "id",
            "NAME": "name",
            "ROLE": "role",
            "MADE": lambda row: ago(row["created_at"]),
            "BY": "created_by",
            "EXPIRES": _expiry,
        },
        empty="no tokens: the API answers this machine only",
    )


@tokens.command()
@asks("export GOSSAMER_TOKEN=$(gossamer tokens create ci --role operator --expires 30d)")
def create(
    client: ApiClient,
    name: str = argument(
        ..., "NAME", "The holder; appears in the audit log of requests.", callback=values.form(TOKEN_NAME)
    ),
    role: str = option(
        "viewer",
        "--role",
        "viewer, operator or admin.",
        completion.known(*ROLES),
        callback=values.one_of(ROLES),
    ),
    expires: str = option("90d", "--expires", "How long it is valid, or never."),
) -> Report:
    """Create a token and print it, once; `export GOSSAMER_TOKEN=…` makes this command use it."""
    from gossamer.config import parse_duration

    try:
        lifetime = None if expires == "never" else parse_duration(expires)
        if lifetime == 0:
            raise ValueError(expires)
    except ValueError:
        expected = "a duration such as 12h or 90d, or never"
        raise OptionError("--expires", got=expires, expected=expected) from None
    made = client.post("tokens", {"name": name, "role": role, "expires": lifetime})

    def parts() -> Iterable[Part]:
        yield made["token"]
        yield Note(f"{made['role']}, {_expiry(made)}; revoke it with: gossamer tokens revoke {made['id']}")

    return Report(made, parts)


@tokens.command()
@asks("0123456789ab")
def revoke(
    client: ApiClient,
    id: str = argument(
        ..., "ID", "As `tokens list` shows it.", completion.tokens, callback=values.form(ROW_ID)
    ),
) -> Report:
    """Revoke a token, on every node."""
    row = client.delete(f"tokens/{id}")
    return Report(row, lambda: [Note(f"{row['name']} ({row['role']}) is let in no more")])


def _expiry(row: Row) -> str:
    return "expired" if row["expired"] else until(row["expires_at"])


@example("users.txt ada", "users.txt ada --tenant acme", "users.txt ada --delete")
def passwd(
    file: Path = argument(..., "FILE", "Password file.", dir_okay=False),
    user: str = argument(..., "USER", "User name."),
    delete: bool = typer.Option(False, "--delete", "-D", help="Delete the user."),
    stdin: bool = option(False, "--stdin", "Read the password from standard input."),
    tenant: str | None = option(
        None, "--tenant", "Tenant of the user; without it, the one the user has, or that of the listener."
    ),
    scram: bool = option(
        False, "--scram", "FILE is mqtt.auth.scram_file: for SCRAM-SHA-256, not for passwords."
    ),
) -> None:
    """Set or delete the password of a user in a file.

    FILE is created if it is missing; a running node rereads it by itself.
    """
    from gossamer.mqtt import set_password, set_scram_password

    password = None
    if not delete:
        password = sys.stdin.readline().rstrip("\r\n") if stdin else _typed(user)
        if not password:
            raise typer.BadParameter("the password is empty")
    known = (set_scram_password if scram else set_password)(file, user, password, tenant=tenant)
    if delete:
        note(f"{user} deleted" if known else f"{user} was not there")
    else:
        note(f"{user} has a new password" if known else f"{user} added")


def _typed(user: str) -> str:
    try:
        typed: str = typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True)
    except typer.Abort:
        if sys.stdin.isatty():
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        raise typer.BadParameter("no password was typed; without a terminal, give --stdin") from None
    return typed
