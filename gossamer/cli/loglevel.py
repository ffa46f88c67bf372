"""``gossamer log-level``: how much nodes log, without a restart; of one node, or of all."""

from __future__ import annotations

from typing import Annotated

import typer

from gossamer.cli.client import DEFAULT_API, ApiClient
from gossamer.cli.noun import noun
from gossamer.cli.options import AllNodes, Api, Json, OnNode, Watch
from gossamer.cli.show import Listing, Missing, show
from gossamer.errors import WrongValueError

__all__ = ["app"]

app = noun("How much nodes log, until they are started again.", default="show")

_PATH = "/api/v1/log-level"
LEVELS = ("debug", "info", "warning", "error")


class BadLevelError(WrongValueError):
    """No such level."""

    def __init__(self, *, got: str) -> None:
        self.got = got
        super().__init__(f"LEVEL: got {got!r}, expected one of {', '.join(LEVELS)}")


def _levels() -> list[str]:
    return list(LEVELS)


@app.command("show")
def show_level(api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None) -> None:
    """Show how much each node logs, or one."""
    with ApiClient(api) as client:
        show(lambda _: _listing(client, None, node), json=json, watch=watch)


@app.command("set")
def set_level(
    level: Annotated[
        str, typer.Argument(metavar="LEVEL", help="debug, info, warning or error.", autocompletion=_levels)
    ],
    api: Api = DEFAULT_API,
    node: OnNode = None,
    everywhere: AllNodes = False,
    json: Json = False,
) -> None:
    """Let a node, or all of them, log from LEVEL up, until it is started again."""
    if level not in LEVELS:
        raise BadLevelError(got=level)
    with ApiClient(api) as client:
        if node is None and not everywhere:
            node = client.document("/health")["name"]
        show(lambda _: _listing(client, level, node), json=json)


def _listing(client: ApiClient, level: str | None, node: str | None) -> Listing:
    gathered = (
        client.put_all(_PATH, {"level": level}, node=node) if level else client.get_all(_PATH, node=node)
    )
    return Listing(
        Missing.of(gathered),
        ["NODE", "LEVEL"],
        lambda row: [row["node"], row["level"]],
        empty="no node answered",
    )
