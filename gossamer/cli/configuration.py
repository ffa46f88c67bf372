"""``gossamer config``: check a file, print the schema, show what a node would run with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli.exits import ExitCode
from gossamer.cli.options import ConfigFile, Json
from gossamer.cli.output import emit_json, print_error, print_lines
from gossamer.config import json_schema, load_config, to_plain, to_yaml
from gossamer.errors import ConfigError

__all__ = ["app"]

app = typer.Typer(help="Check and explain the configuration.", no_args_is_help=True)


@app.command()
def check(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="YAML file.")] = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Say every mistake in FILE and the environment at once; exit with 3 if there is any."""
    path = file or config
    try:
        load_config(path, environ=os.environ)
    except ConfigError as error:
        if json:
            problems = [{"key": row.key, "got": row.got, "expected": row.expected} for row in error.problems]
            emit_json({"ok": False, "source": error.source, "problems": problems})
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
    emit_json(json_schema())


@app.command()
def show(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="YAML file.")] = None,
    config: ConfigFile = None,
    json: Json = False,
    changed: Annotated[bool, typer.Option("--changed", help="Only what differs from the defaults.")] = False,
) -> None:
    """Print the whole configuration as a node would run with it, secrets hidden."""
    loaded = load_config(file or config, environ=os.environ)
    if json:
        emit_json(to_plain(loaded, changed_only=changed))
    else:
        typer.echo(to_yaml(loaded, changed_only=changed), nl=False)
