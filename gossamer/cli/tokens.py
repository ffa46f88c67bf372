"""``gossamer tokens``: let people and scripts into the API from other machines, and take that back.

The commands themselves run on a node's machine, or with a token of an administrator in GOSSAMER_TOKEN.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gossamer.cli import values
from gossamer.cli.client import DEFAULT_API, ApiClient
from gossamer.cli.options import Api, Json
from gossamer.cli.output import ago, emit_json, note, print_table, until
from gossamer.errors import WrongValueError

__all__ = ["app"]

app = typer.Typer(help="Let people and scripts into the API from other machines.", no_args_is_help=True)

_PATH = "/api/v1/tokens"


class BadExpiryError(WrongValueError):
    """A time that a token is to live cannot be read."""

    def __init__(self, *, got: str) -> None:
        self.got = got
        super().__init__(f"--expires: got {got!r}, expected a duration such as 12h or 90d, or never")


@app.command("list")
def list_tokens(api: Api = DEFAULT_API, json: Json = False) -> None:
    """List the tokens of the cluster; their secrets are kept nowhere."""
    with ApiClient(api) as client:
        rows = client.get(_PATH)
    if json:
        emit_json({"items": rows})
        return
    print_table(
        ["ID", "NAME", "ROLE", "MADE", "BY", "EXPIRES"],
        (
            [row["id"], row["name"], row["role"], ago(row["created_at"]), row["created_by"], _end(row)]
            for row in rows
        ),
        empty="no tokens: the API answers this machine only",
    )


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Who or what is to have it; stands in the log of orders.")],
    role: Annotated[
        str, typer.Option("--role", help="viewer, operator or admin.", autocompletion=values.roles)
    ] = "viewer",
    expires: Annotated[str, typer.Option("--expires", help="How long it lets in, or never.")] = "90d",
    api: Api = DEFAULT_API,
    json: Json = False,
) -> None:
    """Make a token and print it, once; `export GOSSAMER_TOKEN=…` lets this command use it."""
    from gossamer.config import parse_duration

    try:
        lifetime = None if expires == "never" else parse_duration(expires)
    except ValueError:
        raise BadExpiryError(got=expires) from None
    with ApiClient(api) as client:
        made = client.post(_PATH, {"name": name, "role": role, "expires": lifetime})
    if json:
        emit_json(made)
        return
    typer.echo(made["token"])
    note(f"{made['role']}, {_end(made)}; take it back with: gossamer tokens revoke {made['id']}")


@app.command()
def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="As `tokens list` shows it.")],
    api: Api = DEFAULT_API,
    json: Json = False,
) -> None:
    """Take a token back, on every node."""
    with ApiClient(api) as client:
        row = client.delete(f"{_PATH}/{id}")
    if json:
        emit_json(row)
        return
    note(f"{row['name']} ({row['role']}) is let in no more")


def _end(row: dict[str, Any]) -> str:
    return "expired" if row["expired"] else until(row["expires_at"])
