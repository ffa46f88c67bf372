"""``gossamer config``: check a file, print the schema, show what a node runs with; read files again."""

from __future__ import annotations

import json as jsonlib
import os
from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli.client import DEFAULT_API, ApiClient, Row
from gossamer.cli.command import AllNodes, Api, ConfigFile, Json, OnNode, asks, option
from gossamer.cli.commands.processes import meant
from gossamer.cli.errors import ExitCode, RefusedError
from gossamer.cli.render.output import emit_json, note, print_error, print_line
from gossamer.cli.render.show import Listing
from gossamer.cli.root import example
from gossamer.errors import ConfigError, WrongValueError

config = typer.Typer(no_args_is_help=True)

File = Annotated[Path | None, typer.Argument(metavar="FILE", help="YAML file.")]


@config.command()
@example("node.yaml")
def check(
    file: File = None,
    config: ConfigFile = None,
    json: Json = False,
    files: bool = typer.Option(
        True, "--files/--no-files", help="Read the files that it names; not on other machines."
    ),
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
        remarks = list(loaded.remarks)
        emit_json({"ok": True, "source": str(path or "defaults"), "problems": [], "remarks": remarks})
    else:
        for remark in loaded.remarks:
            note(remark)
        print_line(f"{path or 'defaults'}: ok")


@config.command()
@example("> node.schema.json")
def schema() -> None:
    """Print the JSON Schema of the file."""
    from gossamer.config import json_schema

    emit_json(json_schema())


@config.command()
@example("node.yaml --changed", "--node node2@10.0.0.2")
def show(
    file: File = None,
    config: ConfigFile = None,
    json: Json = False,
    changed: bool = option(False, "--changed", "Only what differs from the defaults."),
    running: bool = option(False, "--running", "Ask the node at --api, rather than read a file."),
    api: Api = DEFAULT_API,
    node: OnNode = None,
) -> None:
    """Print the configuration that FILE and the environment give, or that of a running node; no secrets."""
    if not running and node is None:
        from gossamer.config import load_config, to_plain

        found = to_plain(load_config(file or config, environ=os.environ), changed_only=changed)
    elif file or config:
        raise WrongValueError("got a file and a running node, expected one; leave out FILE, or --running")
    else:
        with ApiClient(api, node=node) as client:
            found = client.document("config")["changed" if changed else "config"]
    if json:
        emit_json(found)
        return
    import yaml

    # YAML writes plain values, and what an answer holds is a little more.
    plain = jsonlib.loads(jsonlib.dumps(found))
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, default_flow_style=False)
    typer.echo(text if found else "{}\n", nl=False)


@config.command()
@asks("--all")
def reload(client: ApiClient, json: bool, node: OnNode = None, everywhere: AllNodes = False) -> Listing:
    """Make a node, or all of them, read certificates, passwords and access lists again, now, and the queues
    that its configuration file declares.

    A file with a mistake is refused, with the reason and exit code 5, and what was read before stays; so is
    what cannot be changed of a queue. Queues that are declared no more stay.
    """
    answers = client.each(_read_again, node=meant(client, node, everywhere=everywhere))
    refused = [row for row in answers if "refused" in row]
    problems = [(row["node"], row["refused"]) for row in refused]
    for row in answers:
        problems += [(row["node"], why) for why in row.get("queues", {}).values() if _is_refusal(why)]
    for node_name, why in problems:
        print_error(f"{node_name}: {why}", as_json=json)
    code = ExitCode.REFUSED if problems else ExitCode.DONE
    if not json and len(refused) == len(list(answers)) and not answers.missing:
        raise typer.Exit(code)
    return Listing(
        answers,
        {"NODE": "node", "READ AGAIN": _files, "QUEUES": _queues},
        empty="no node answered",
        code=code,
    )


def _read_again(peer: ApiClient) -> Row:
    try:
        return peer.post("config/reload")
    except RefusedError as error:
        return {"refused": str(error)}


def _is_refusal(came: str) -> bool:
    return came.startswith("refused: ")


def _queues(row: Row) -> str:
    came = row.get("queues", {})
    return ", ".join(f"{name} {'refused' if _is_refusal(what) else what}" for name, what in came.items())


def _files(row: Row) -> str:
    if "refused" in row:
        return "refused"
    return " ".join(row["files"]) or "nothing: it was told of no such file"
