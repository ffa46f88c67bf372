"""``gossamer cluster keys``: rotate what gossip is sealed with, without downtime.

Install the new key on every node, then use it on every node, then remove the old one. Every installed key
opens packets and the one in use seals, so nobody is cut off on the way.

Rules: 1. A key is read from a file or standard input, never from the command line, where others see it.  2.
It is sent to this machine's own nodes only: the API is not encrypted. ``--all`` names the nodes elsewhere,
where the command has to be run as well.  3. With ``--all`` a step that would cut a node off is refused before
anything is changed: using a key that one of them has not installed, removing one that one of them still uses.
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import completion, values
from gossamer.cli.client import ApiClient, Gathered, Row
from gossamer.cli.command import argument, asks
from gossamer.cli.errors import ExitCode, FileError, NotNowError
from gossamer.cli.render.output import Grid
from gossamer.cli.render.show import Note, Part, Report
from gossamer.errors import UnavailableError

app = typer.Typer(help="Rotate the keys of gossip.", no_args_is_help=True)

All = Annotated[bool, typer.Option("--all", help="On every node of the cluster that runs on this machine.")]
KEY_NAME = argument(..., "NAME", "As `keys list` shows it.", completion.keys)
_PATH = "cluster/keys"
_ELSEWHERE = "it is on another machine; run the command there"


class KeyStepError(UnavailableError):
    """A step of a rotation that would cut a node off; nothing was changed."""

    def __init__(self, *, node: str, problem: str) -> None:
        self.node = node
        super().__init__(f"{node} {problem}; nothing was changed")


@app.command("list")
@asks()
def list_keys(client: ApiClient, everywhere: All = False) -> Report:
    """Show the names of the installed keys, the one in use first."""
    return _carry_out(client, None, everywhere=everywhere)


@app.command()
@asks("openssl rand -base64 32 | gossamer cluster keys install -")
def install(
    client: ApiClient,
    file: str = argument(..., "FILE", "Holds the new key; - is standard input."),
    everywhere: All = False,
) -> Report:
    """Accept packets sealed with a new key."""
    try:
        key = (sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")).strip()
    except (OSError, UnicodeDecodeError) as error:
        advice = "give a file that holds the key, or - for standard input"
        raise FileError(file, error, advice=advice) from error
    return _carry_out(client, {"action": "install", "key": key}, everywhere=everywhere)


@app.command()
@asks("5f0c2d9a")
def use(client: ApiClient, name: str = KEY_NAME, everywhere: All = False) -> Report:
    """Seal packets with an installed key from now on."""
    return _carry_out(client, {"action": "use", "key": name}, everywhere=everywhere)


@app.command()
@asks("5f0c2d9a")
def remove(client: ApiClient, name: str = KEY_NAME, everywhere: All = False) -> Report:
    """Reject packets sealed with this key from now on."""
    return _carry_out(client, {"action": "remove", "key": name}, everywhere=everywhere)


def _carry_out(client: ApiClient, order: Row | None, *, everywhere: bool) -> Report:
    if order is not None:
        from gossamer.api.model.cluster import KeyRequest

        values.order(KeyRequest, order)
    if everywhere:
        if order is not None and order["action"] != "install":
            _check(_each(client, None), order["action"], order["key"])
        found = _each(client, order)
    else:
        found = Gathered([_ask(client, order)])
    rows = list(found)

    def parts() -> Iterable[Part]:
        cells = [[row["name"], row["keys"][0], " ".join(row["keys"][1:])] for row in rows]
        yield Grid(["NODE", "IN USE", "ALSO INSTALLED"], cells, "no node answered")
        for name, why in found.missing.items():
            yield Note(f"not on {name}: {why}")

    document = {"items": rows, "missing": found.missing} if everywhere else rows[0]
    return Report(document, parts, code=ExitCode.UNAVAILABLE if found.missing else ExitCode.DONE)


def _each(client: ApiClient, order: Row | None) -> Gathered:
    """Ask the nodes of the cluster that run on this machine, each at its own address."""

    def reach(row: Row) -> ApiClient:
        if not ipaddress.ip_address(row["address"].rpartition(":")[0].strip("[]")).is_loopback:
            raise NotNowError(_ELSEWHERE)
        return client.direct(row)

    # A step that reached some nodes only is taken again, which those refuse that have taken it.
    return client.each(lambda peer: _ask(peer, order), reach=reach, to_the_end=order is not None)


def _ask(client: ApiClient, order: Row | None) -> Row:
    return client.document(_PATH) if order is None else client.post(_PATH, order)


def _check(found: Gathered, action: str, key: str) -> None:
    """Raise KeyStepError if the step is too early for a node, or its state is unknown."""
    for row in found:
        if action == "use" and key not in row["keys"]:
            raise KeyStepError(node=row["name"], problem=f"has no key {key}; install it everywhere first")
        if action == "remove" and key == row["keys"][0]:
            raise KeyStepError(node=row["name"], problem=f"still uses {key}; use another everywhere first")
    for name, why in found.missing.items():
        if why != _ELSEWHERE:
            problem = f"does not say which keys it has ({why}); bring it back, or force-leave it, first"
            raise KeyStepError(node=name, problem=problem)
