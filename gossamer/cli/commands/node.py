"""``gossamer log-level`` and ``backup``: what a running node is told to do about itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from gossamer.cli import completion
from gossamer.cli.client import ApiClient, Gathered
from gossamer.cli.command import AllNodes, OnNode, asks
from gossamer.cli.errors import OptionError
from gossamer.cli.render.output import printable, size_text
from gossamer.cli.render.show import Listing, Note, Part, Report
from gossamer.cli.root import noun

__all__ = ["backup", "log_level", "meant"]

LEVELS = ("debug", "info", "warning", "error")
_BACKUP_TIMEOUT = 320.0

log_level = noun("Log level of nodes, until their next restart.", default="show")


def meant(client: ApiClient, node: str | None, *, everywhere: bool) -> str | None:
    """The node that a change is for: that of ``--node``, or the one that is asked; None for all of them."""
    return node if node is not None or everywhere else str(client.document("/health")["name"])


@log_level.command("show")
@asks(watch=True)
def show_levels(client: ApiClient, node: OnNode = None) -> Listing:
    """Show the log level of each node, or of one."""
    return _levels(client.each(lambda peer: peer.document("log-level"), node=node))


@log_level.command("set")
@asks("debug --node node2@10.0.0.2")
def set_level(
    client: ApiClient,
    level: Annotated[
        str,
        typer.Argument(
            metavar="LEVEL", help=f"{', '.join(LEVELS)}.", autocompletion=completion.known(*LEVELS)
        ),
    ],
    node: OnNode = None,
    everywhere: AllNodes = False,
) -> Listing:
    """Set the log level of a node, or of all, until the next restart."""
    if level not in LEVELS:
        raise OptionError("LEVEL", got=level, expected=f"one of {', '.join(LEVELS)}")
    node = meant(client, node, everywhere=everywhere)
    return _levels(client.each(lambda peer: peer.put("log-level", {"level": level}), node=node))


def _levels(answers: Gathered) -> Listing:
    return Listing(answers, {"NODE": "node", "LEVEL": "level"}, empty="no node answered")


@asks("", "--node node2@10.0.0.2 --to /mnt/backups/node2.db", node=True, timeout=_BACKUP_TIMEOUT)
def backup(
    client: ApiClient,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="A new file on the node's machine, from / on (default: in backups of its data directory).",
            show_default=False,
        ),
    ] = None,
) -> Report:
    """Back up a running node's sessions, queues and tables to one file on its machine."""
    made = client.post("backup", {"path": to})

    def parts() -> Iterable[Part]:
        yield printable(made["path"])
        yield Note(f"{size_text(made['bytes'])} of {made['node']} in {made['seconds']:.1f} s")

    return Report(made, parts)
