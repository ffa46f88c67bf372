"""``gossamer log-level``: show or change the log level of one node or all, without a restart."""

from __future__ import annotations

from typing import Annotated

import typer

from gossamer.cli import names
from gossamer.cli.api.client import DEFAULT_API, ApiClient
from gossamer.cli.nouns import noun
from gossamer.cli.options import AllNodes, Api, Json, OnNode
from gossamer.cli.render.show import Listing, show
from gossamer.cli.resources.listing import Resource, add_list, of_each_node
from gossamer.errors import WrongValueError

__all__ = ["app"]

app = noun("Log level of nodes, until their next restart.", default="show")

LEVELS = ("debug", "info", "warning", "error")
_LEVEL = Resource(
    path="log-level",
    says="Show the log level of each node, or of one.",
    columns={"NODE": "node", "LEVEL": "level"},
    empty="no node answered",
    fetch=of_each_node,
    each_node=True,
)
add_list(app, _LEVEL, "show")


class BadLevelError(WrongValueError):
    """An unknown log level."""

    def __init__(self, *, got: str) -> None:
        self.got = got
        super().__init__(f"LEVEL: got {got!r}, expected one of {', '.join(LEVELS)}")


@app.command("set")
def set_level(
    level: Annotated[
        str,
        typer.Argument(
            metavar="LEVEL",
            help="debug, info, warning or error.",
            autocompletion=names.known(*LEVELS),
        ),
    ],
    api: Api = DEFAULT_API,
    node: OnNode = None,
    everywhere: AllNodes = False,
    json: Json = False,
) -> None:
    """Set the log level of a node, or of all, until the next restart."""
    if level not in LEVELS:
        raise BadLevelError(got=level)
    with ApiClient(api) as client:
        if node is None and not everywhere:
            node = client.document("/health")["name"]
        answers = client.put_all("/api/v1/log-level", {"level": level}, node=node)
    show(lambda _: Listing(answers, _LEVEL.columns, _LEVEL.empty), json=json)
