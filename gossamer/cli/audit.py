"""``gossamer audit``: run the audit jobs, in a process of their own.

Spark brings a virtual machine of another language and its memory; what it is told and what it prints is its
own command's affair (``python -m gossamer.spark``), which is also what ``spark-submit`` takes.
"""

from __future__ import annotations

import os
import sys

import typer

__all__ = ["app"]

app = typer.Typer(help="Ask where every message went (Spark).", no_args_is_help=True)


_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.command(context_settings=_PASSED_ON)
def run(context: typer.Context) -> None:
    """Run audit jobs over what the nodes recorded: ``gossamer audit run report --dir data/audit``."""
    _pass_on("run", context.args)


@app.command(context_settings=_PASSED_ON)
def stream(context: typer.Context) -> None:
    """Audit as it happens, and raise alarms: ``gossamer audit stream --dir data/audit``."""
    _pass_on("stream", context.args)


def _pass_on(command: str, arguments: list[str]) -> None:
    os.execv(sys.executable, [sys.executable, "-m", "gossamer.spark", command, *arguments])  # noqa: S606
