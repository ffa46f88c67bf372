"""The ``gossamer`` command: run nodes, query them, operate them.

``root`` lists every command and its module. ``client`` talks to a node, ``command`` makes commands of
requests to it, ``render`` prints answers; ``commands`` has those that query nodes, ``local`` those that run
nodes here. Exit codes are those of :class:`~gossamer.cli.errors.ExitCode`.
"""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module

import typer

from gossamer.cli.errors import ExitCode, exit_code_of
from gossamer.cli.root import Commands, ignore_closed_output
from gossamer.errors import GossamerError

__all__ = ["ExitCode", "app", "main"]

EPILOG = """[bold]Environment[/]
GOSSAMER_API         address of the node to ask, as --api
GOSSAMER_TOKEN       a token for it, or in a file: GOSSAMER_TOKEN_FILE
GOSSAMER_CACERT      certificates of the authority that signed the node's own (PEM)
NO_COLOR             no colours; FORCE_COLOR: colours even where output is no terminal
GOSSAMER_NODE__NAME  node.name of the configuration, and so every other key

[bold]Exit codes[/]
0 done                    4 no node answers       7 a node ended by itself
1 a bug in gossamer       5 the node refused      8 a promise is broken
2 wrong command line      6 not now, or in part   130 interrupted
3 wrong configuration
"""

app = typer.Typer(
    name="gossamer",
    help="A clustered MQTT message router. A noun alone lists: `clients` is `clients list`.",
    epilog=EPILOG,
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from gossamer.cli.commands.bundle import version_lines

        typer.echo("\n".join(version_lines()))
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False,
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Print what a bug report needs: versions, platform, kernel.",
    ),
) -> None:
    pass


def main() -> None:
    """Run the command line and exit; prints no traceback for an error that a user can correct."""
    if "_GOSSAMER_COMPLETE" in os.environ:
        import_module("typer.completion").completion_init()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the locale lacks is printed by its number.
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            app(prog_name="gossamer")
        finally:
            sys.stdout.flush()
    except GossamerError as error:
        from gossamer.cli.render.output import print_error

        print_error(str(error), as_json="--json" in sys.argv)
        sys.exit(exit_code_of(error))
    except (BrokenPipeError, SystemExit) as error:
        # ``gossamer routes | head``: the reader has enough. Typer and rich make an exit of it.
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        ignore_closed_output()
        sys.exit(ExitCode.DONE)
