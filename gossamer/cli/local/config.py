"""``gossamer config``: check a file, print the schema, show what a node runs with; read files again."""

from __future__ import annotations

import json as jsonlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli.api.client import DEFAULT_API, ApiClient
from gossamer.cli.api.errors import Answer, RefusedError
from gossamer.cli.exits import ExitCode
from gossamer.cli.options import AllNodes, Api, ConfigFile, Json, OnNode
from gossamer.cli.render.output import emit_json, print_error, print_lines
from gossamer.cli.render.show import Listing
from gossamer.cli.render.show import show as show_found
from gossamer.errors import ConfigError, WrongValueError

__all__ = ["app"]

app = typer.Typer(help="Check, print and reload the configuration.", no_args_is_help=True)


@app.command()
def check(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="YAML file.")] = None,
    config: ConfigFile = None,
    json: Json = False,
    files: Annotated[
        bool, typer.Option("--files/--no-files", help="Read the files that it names; not on other machines.")
    ] = True,
) -> None:
    """Say every mistake in FILE and the environment at once; exit with 3 if there is any.

    Files that it names are read as a node reads them: of users, rules, keys, and certificates.
    """
    # Here and below, so that the rest of the command starts without loading the schema.
    from gossamer.config import load_config
    from gossamer.node import file_problems

    path = file or config
    try:
        loaded = load_config(path, environ=os.environ)
        if files and (problems := file_problems(loaded)):
            raise ConfigError(str(path or "configuration"), problems)
    except ConfigError as error:
        if json:
            found = [{"key": row.key, "got": row.got, "expected": row.expected} for row in error.problems]
            emit_json({"ok": False, "source": error.source, "problems": found})
        else:
            print_error(str(error), as_json=False)
        raise typer.Exit(ExitCode.CONFIG) from None
    if json:
        emit_json({"ok": True, "source": str(path or "defaults"), "problems": []})
    else:
        print_lines(f"{path or 'defaults'}: ok")


@app.command()
def schema() -> None:
    """Print the JSON Schema of the file."""
    from gossamer.config import json_schema

    emit_json(json_schema())


@app.command()
def show(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="YAML file.")] = None,
    config: ConfigFile = None,
    json: Json = False,
    changed: Annotated[bool, typer.Option("--changed", help="Only what differs from the defaults.")] = False,
    running: Annotated[
        bool, typer.Option("--running", help="Ask the node at --api, rather than read a file.")
    ] = False,
    api: Api = DEFAULT_API,
    node: OnNode = None,
) -> None:
    """Print the configuration that FILE and the environment give, or that of a running node; no secrets."""
    if not running and node is None:
        from gossamer.config import load_config, to_plain

        loaded = load_config(file or config, environ=os.environ)
        _print(to_plain(loaded, changed_only=changed), as_json=json)
        return
    if file or config:
        raise WrongValueError("got a file and a running node, expected one; leave out FILE, or --running")
    with ApiClient(api, node=node) as client:
        answer = client.document("/api/v1/config")
    _print(answer["changed" if changed else "config"], as_json=json)


def _print(config: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        emit_json(config)
        return
    import yaml

    # YAML writes plain values, and what an answer holds is a little more.
    plain = jsonlib.loads(jsonlib.dumps(config))
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, default_flow_style=False)
    typer.echo(text if config else "{}\n", nl=False)


@app.command()
def reload(
    api: Api = DEFAULT_API, node: OnNode = None, everywhere: AllNodes = False, json: Json = False
) -> None:
    """Make a node, or all of them, read certificates, passwords and access lists again, now.

    A file with a mistake is refused, with the reason and exit code 5, and what was read before stays.
    """
    with ApiClient(api) as client:
        if node is None and not everywhere:
            node = client.document("/health")["name"]
        answers = client.each(_read_again, node=node)
    refused = [row for row in answers.items if "refused" in row]
    for row in refused:
        print_error(f"{row['node']}: {row['refused']}", as_json=json)
    if json or len(refused) < len(answers.items) or answers.missing:
        show_found(
            lambda _: Listing(
                answers,
                {"NODE": "node", "READ AGAIN": _files},
                empty="no node answered",
            ),
            json=json,
        )
    if refused:
        raise typer.Exit(ExitCode.REFUSED)


def _read_again(peer: ApiClient, name: str) -> list[dict[str, Any]]:
    try:
        return [Answer(peer.post("/api/v1/config/reload", {}), node=name)]
    except RefusedError as error:
        return [Answer(node=name, refused=str(error))]


def _files(row: Mapping[str, Any]) -> str:
    if "refused" in row:
        return "refused"
    return " ".join(row["files"]) or "nothing: it was told of no such file"
