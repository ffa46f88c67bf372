"""The ``gossamer`` command: run nodes, ask them, order them about.

Exit codes are those of :mod:`gossamer.cli.exits`, and every command takes ``--json``.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

from gossamer.cli import (
    audit,
    autoheal,
    clients,
    cluster,
    configuration,
    drill,
    inside,
    loglevel,
    look,
    routes,
    tokens,
)
from gossamer.cli.alarms import alarms
from gossamer.cli.bundle import support_bundle
from gossamer.cli.events import events
from gossamer.cli.exits import ExitCode, exit_code_of
from gossamer.cli.live import live
from gossamer.cli.messages import publish, retained
from gossamer.cli.noun import Commands
from gossamer.cli.output import print_error
from gossamer.cli.passwd import passwd
from gossamer.cli.start import start
from gossamer.cli.top import top
from gossamer.cli.up import up
from gossamer.cli.version import version_lines
from gossamer.errors import GossamerError

__all__ = ["ExitCode", "app", "main"]

app = typer.Typer(
    name="gossamer",
    help="A clustered MQTT message router.",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(start)
app.command()(up)
app.command()(passwd)
app.add_typer(audit.app, name="audit")
app.add_typer(autoheal.app, name="autoheal")
app.add_typer(cluster.app, name="cluster")
app.add_typer(configuration.app, name="config")
app.add_typer(drill.app, name="drill")
app.add_typer(tokens.app, name="tokens")
for _name, _noun in {
    "nodes": look.nodes,
    "topics": look.topics,
    "tables": look.tables,
    "clients": clients.clients,
    "sessions": clients.sessions,
    "subscriptions": clients.subscriptions,
    "routes": routes.app,
    "retained": retained,
    "alarms": alarms,
    "log-level": loglevel.app,
}.items():
    app.add_typer(_noun, name=_name)
app.command()(support_bundle)
app.command()(publish)
app.command()(top)
app.command()(inside.ps)
app.command("processes", hidden=True)(inside.ps)
app.command()(events)
app.command()(live)
app.command()(inside.trace)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo("\n".join(version_lines()))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print what a bug report needs: versions, platform, kernel.",
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line and exit; never shows a traceback for what is somebody's mistake."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that the locale has no characters for is shown by their numbers.
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except GossamerError as error:
        print_error(str(error), as_json="--json" in sys.argv)
        sys.exit(exit_code_of(error))
    except BrokenPipeError:
        # ``gossamer routes | head``: the reader has enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.DONE)
