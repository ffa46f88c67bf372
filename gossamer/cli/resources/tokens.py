"""``gossamer tokens``: give people and scripts on other machines access to the API, and revoke it.

The commands run on a node's machine, or with an administrator's token in GOSSAMER_TOKEN.
"""

from __future__ import annotations

from typing import Annotated

import typer

from gossamer.cli import names
from gossamer.cli.api.client import DEFAULT_API, ApiClient
from gossamer.cli.options import Api, Json
from gossamer.cli.render.output import ago, emit_json, note, print_result, until
from gossamer.cli.render.show import Columns, Listing, Row, show
from gossamer.errors import WrongValueError

__all__ = ["app"]

app = typer.Typer(help="API tokens for people and scripts on other machines.", no_args_is_help=True)

_PATH = "/api/v1/tokens"


class BadExpiryError(WrongValueError):
    """The lifetime of a token cannot be parsed."""

    def __init__(self, *, got: str) -> None:
        self.got = got
        super().__init__(f"--expires: got {got!r}, expected a duration such as 12h or 90d, or never")


@app.command("list")
def list_tokens(api: Api = DEFAULT_API, json: Json = False) -> None:
    """List the tokens of the cluster; their secrets are not stored."""
    columns: Columns = {
        "ID": "id",
        "NAME": "name",
        "ROLE": "role",
        "MADE": lambda row: ago(row["created_at"]),
        "BY": "created_by",
        "EXPIRES": _expiry,
    }
    with ApiClient(api) as client:
        rows = client.rows(_PATH)
    show(lambda _: Listing(rows, columns, empty="no tokens: the API answers this machine only"), json=json)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="The holder; appears in the audit log of requests.")],
    role: Annotated[
        str,
        typer.Option(
            "--role",
            help="viewer, operator or admin.",
            autocompletion=names.known("viewer", "operator", "admin"),
        ),
    ] = "viewer",
    expires: Annotated[str, typer.Option("--expires", help="How long it is valid, or never.")] = "90d",
    api: Api = DEFAULT_API,
    json: Json = False,
) -> None:
    """Create a token and print it, once; `export GOSSAMER_TOKEN=…` makes this command use it."""
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
    note(f"{made['role']}, {_expiry(made)}; revoke it with: gossamer tokens revoke {made['id']}")


@app.command()
def revoke(
    id: Annotated[
        str, typer.Argument(metavar="ID", help="As `tokens list` shows it.", autocompletion=names.tokens)
    ],
    api: Api = DEFAULT_API,
    json: Json = False,
) -> None:
    """Revoke a token, on every node."""
    with ApiClient(api) as client:
        row = client.delete(f"{_PATH}/{id}")
    print_result(row, f"{row['name']} ({row['role']}) is let in no more", json=json)


def _expiry(row: Row) -> str:
    return "expired" if row["expired"] else until(row["expires_at"])
