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
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli import names
from gossamer.cli.api.client import DEFAULT_API, ApiClient
from gossamer.cli.exits import ExitCode
from gossamer.cli.options import Api, Json
from gossamer.cli.render.output import emit_json, note, print_table
from gossamer.errors import GossamerError, UnavailableError, UsageError

__all__ = ["app"]

app = typer.Typer(help="Rotate the keys of gossip.", no_args_is_help=True)

All = Annotated[bool, typer.Option("--all", help="On every node of the cluster that runs on this machine.")]
KeyName = Annotated[
    str, typer.Argument(metavar="NAME", help="As `keys list` shows it.", autocompletion=names.keys)
]


class KeyFileError(UsageError):
    """The new key cannot be read."""

    def __init__(self, *, path: str, problem: str) -> None:
        self.path = path
        super().__init__(
            f"key file {path}: {problem}; give a file that holds the key, or - for standard input"
        )


class NotReadyError(UnavailableError):
    """A step of a rotation that would cut a node off; nothing was changed."""

    def __init__(self, *, node: str, problem: str) -> None:
        self.node = node
        super().__init__(f"{node} {problem}; nothing was changed")


@app.command("list")
def list_keys(api: Api = DEFAULT_API, json: Json = False, everywhere: All = False) -> None:
    """Show the names of the installed keys, the one in use first."""
    _run(api, None, as_json=json, everywhere=everywhere)


@app.command()
def install(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Holds the new key; - is standard input.")],
    api: Api = DEFAULT_API,
    json: Json = False,
    everywhere: All = False,
) -> None:
    """Accept packets sealed with a new key."""
    try:
        key = (sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFileError(path=file, problem=str(error)) from error
    _run(api, {"action": "install", "key": key}, as_json=json, everywhere=everywhere)


@app.command()
def use(name: KeyName, api: Api = DEFAULT_API, json: Json = False, everywhere: All = False) -> None:
    """Seal packets with an installed key from now on."""
    _run(api, {"action": "use", "key": name}, as_json=json, everywhere=everywhere)


@app.command()
def remove(name: KeyName, api: Api = DEFAULT_API, json: Json = False, everywhere: All = False) -> None:
    """Reject packets sealed with this key from now on."""
    _run(api, {"action": "remove", "key": name}, as_json=json, everywhere=everywhere)


def _run(api: str, order: dict[str, Any] | None, *, as_json: bool, everywhere: bool) -> None:
    missing: dict[str, str] = {}
    with ApiClient(api) as client:
        if everywhere:
            names, missing = _members(client)
            if order is not None and order["action"] != "install":
                _would_cut_off(client, names, order)
            rows, failed = _ask_each(client, names, order)
            missing |= failed
        else:
            rows = [_ask(client, order)]
    if as_json:
        emit_json({"items": rows, "missing": missing} if everywhere else rows[0])
    else:
        print_table(
            ["NODE", "IN USE", "ALSO INSTALLED"],
            ([row["name"], row["keys"][0], " ".join(row["keys"][1:])] for row in rows),
            empty="no node answered",
        )
    for name, why in missing.items():
        note(f"not on {name}: {why}")
    if missing:
        raise typer.Exit(ExitCode.UNAVAILABLE)


def _members(client: ApiClient) -> tuple[dict[str, bool], dict[str, str]]:
    """The nodes of the cluster on this machine, True for the one that is asked; and why not the others."""
    names: dict[str, bool] = {}
    missing: dict[str, str] = {}
    for node in client.get("/api/v1/nodes"):
        if node["status"] == "left":
            continue
        if node["link"] == "self" or _is_here(node["address"]):
            names[node["name"]] = node["link"] == "self"
        else:
            missing[node["name"]] = "it is on another machine; run the command there"
    return names, missing


def _ask_each(
    client: ApiClient, names: dict[str, bool], order: dict[str, Any] | None
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    rows: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    for name, asked in names.items():
        try:
            if asked:
                rows.append(_ask(client, order))
            else:
                with client.direct(name) as peer:
                    rows.append(_ask(peer, order))
        except GossamerError as error:
            failed[name] = str(error)
    return rows, failed


def _would_cut_off(client: ApiClient, names: dict[str, bool], order: dict[str, Any]) -> None:
    """Raises NotReadyError where the step is too early for a node, or nobody can tell."""
    rows, silent = _ask_each(client, names, None)
    action, key = order["action"], order["key"]
    for row in rows:
        if action == "use" and key not in row["keys"]:
            raise NotReadyError(node=row["name"], problem=f"has no key {key}; install it everywhere first")
        if action == "remove" and key == row["keys"][0]:
            raise NotReadyError(node=row["name"], problem=f"still uses {key}; use another everywhere first")
    for name, why in silent.items():
        problem = f"does not say which keys it has ({why}); bring it back, or force-leave it, first"
        raise NotReadyError(node=name, problem=problem)


def _ask(client: ApiClient, order: dict[str, Any] | None) -> dict[str, Any]:
    path = "/api/v1/cluster/keys"
    answer: dict[str, Any] = client.get(path) if order is None else client.post(path, order)
    return answer


def _is_here(address: str) -> bool:
    return ipaddress.ip_address(address.rpartition(":")[0].strip("[]")).is_loopback
