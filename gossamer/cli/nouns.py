"""Groups of commands: a noun, then a verb; a noun alone runs its default verb.

``gossamer clients --limit 5`` is ``gossamer clients list --limit 5``; ``gossamer clients kick ID`` is another
verb of the same noun.

Rule: a word that is no verb is an error, unless the default verb takes an argument (``topics a/b``).
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup

from gossamer.cli.commands import COMMANDS, LazyCommand
from gossamer.cli.exits import ExitCode

__all__ = ["REQUIRED", "Commands", "Parameters", "add_command", "ignore_closed_output", "noun"]

PERIOD = "2"
"""Seconds of a ``--watch`` without a value."""


REQUIRED = inspect.Parameter.empty
"""The default of an argument that must be given."""
Parameters = Mapping[str, tuple[Any, Any]]
"""Of a command that is made, not written: annotation and default by name."""


class Commands(TyperGroup):
    """The root group: commands are imported when they are used."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.commands.update({name: LazyCommand(name) for name in COMMANDS})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Let ``--watch`` stand alone, or with its seconds."""
        return super().parse_args(ctx, _with_seconds(args))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the panels."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import the command that ``args`` names."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest

    def whole(self) -> dict[str, Any]:
        """Import all commands; by name."""
        return {
            name: found.load() if isinstance(found, LazyCommand) else found
            for name, found in self.commands.items()
        }

    def invoke(self, ctx: Any) -> Any:
        """Run a command; a closed reader (``gossamer routes | head``) is no error."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            ignore_closed_output()
            raise typer.Exit(ExitCode.DONE) from None


class Noun(TyperGroup):
    """Verbs of one noun, with a default."""

    default: ClassVar[str] = "list"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default verb where none is given."""
        if not args and ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        if not args or self._is_for_default(ctx, args[0]):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def _is_for_default(self, ctx: Any, word: str) -> bool:
        if word in self.commands or word in ctx.help_option_names:
            return False
        return word.startswith("-") or any(
            parameter.param_type_name == "argument" for parameter in self.commands[self.default].params
        )

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete verbs, and options and arguments of the default verb."""
        found = super().shell_complete(ctx, incomplete)
        command = self.commands[self.default]
        with command.make_context(self.default, [], parent=ctx, resilient_parsing=True) as inner:
            if incomplete.startswith("-"):
                found += command.shell_complete(inner, incomplete)
            else:
                for parameter in command.params:
                    if parameter.param_type_name == "argument":
                        found += parameter.shell_complete(inner, incomplete)
        return list({item.value: item for item in found}.values())


def noun(says: str, *, default: str = "list") -> typer.Typer:
    """Make a noun, to which verbs are added as commands; ``default`` is the verb of the noun alone."""
    return typer.Typer(help=says, cls=type("Noun", (Noun,), {"default": default}))


def add_command(
    group: typer.Typer,
    name: str,
    says: str,
    parameters: Parameters,
    run: Callable[..., None],
    *,
    panel: str | None = None,
) -> None:
    """Add a command with ``parameters``, which calls ``run`` with all of them by name."""

    def command(**options: Any) -> None:
        run(**options)

    command.__doc__ = says
    # Typer reads the signature, not the code.
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for name, (annotation, default) in parameters.items()
        ]
    )
    command.__annotations__ = {}
    group.command(name, rich_help_panel=panel)(command)


def ignore_closed_output() -> None:
    """Discard what is still to be written to standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _with_seconds(args: list[str]) -> list[str]:
    out: list[str] = []
    for at, word in enumerate(args):
        if word == "--":
            return out + args[at:]
        if word in ("--watch", "-w"):
            following = args[at + 1] if at + 1 < len(args) else ""
            is_number = following.replace(".", "", 1).isdecimal()
            out.append(word if is_number else f"--watch={PERIOD}")
        else:
            out.append(word)
    return out
