"""The ``gossamer`` command: run nodes, ask them, order them about.

Exit codes are those of :mod:`gossamer.cli.exits`, and every command takes ``--json``.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

from gossamer.cli.examples import EXAMPLES
from gossamer.cli.exits import ExitCode, exit_code_of
from gossamer.cli.noun import Commands
from gossamer.errors import GossamerError

__all__ = ["EXAMPLES", "ExitCode", "app", "main"]

EPILOG = """[bold]Environment[/]
GOSSAMER_API         address of the node that is asked, as --api
GOSSAMER_TOKEN       a token for it, or in a file: GOSSAMER_TOKEN_FILE
GOSSAMER_CACERT      certificates of who signed the node's own (PEM)
NO_COLOR             no colours; FORCE_COLOR: colours, whatever is written to
GOSSAMER_NODE__NAME  node.name of the configuration, and so every other key

[bold]Exit codes[/]
0 done                    4 no node answers       7 a node ended by itself
1 gossamer's own mistake  5 the node refused      8 a promise is broken
2 wrong command line      6 not now, or in part   130 interrupted
3 wrong configuration
"""

app = typer.Typer(
    name="gossamer",
    help="A clustered MQTT message router.",
    epilog=EPILOG,
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from gossamer.cli.version import version_lines

        typer.echo("\n".join(version_lines()))
        raise typer.Exit


# What many commands of this kind have is understood, too; `gossamer completion` is what help tells.


def _install_completion(wanted: bool) -> None:
    if wanted:
        from gossamer.cli.completion import put_in_place

        put_in_place()
        raise typer.Exit


def _show_completion(wanted: bool) -> None:
    if wanted:
        from gossamer.cli.completion import print_script

        print_script()
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
    install: Annotated[
        bool,
        typer.Option(
            "--install-completion",
            callback=_install_completion,
            is_eager=True,
            hidden=True,
            help="As everywhere.",
        ),
    ] = False,
    show: Annotated[
        bool,
        typer.Option("--show-completion", callback=_show_completion, is_eager=True, hidden=True),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line and exit; never shows a traceback for what is somebody's mistake."""
    if "_GOSSAMER_COMPLETE" in os.environ:
        from gossamer.cli.complete import answer_shell

        answer_shell(typer.main.get_command(app))
        sys.exit(ExitCode.DONE)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that the locale has no characters for is shown by their numbers.
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except GossamerError as error:
        from gossamer.cli.output import print_error

        print_error(str(error), as_json="--json" in sys.argv)
        sys.exit(exit_code_of(error))
    except BrokenPipeError:
        # ``gossamer routes | head``: the reader has enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.DONE)
