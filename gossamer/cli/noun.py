"""How the command line is spoken: a noun, then a verb; a noun alone lists, or shows, what there is of it.

``gossamer clients --limit 5`` is ``gossamer clients list --limit 5``, and ``gossamer clients kick ID`` is
another verb of the same noun.

Rule: a word that is no verb is a mistake, unless the verb that is left out takes one (``topics a/b``).
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup

from gossamer.cli.exits import ExitCode
from gossamer.cli.verbs import VERBS, Later

__all__ = ["Commands", "noun"]

PERIOD = "2"
"""Seconds of ``--watch`` where nobody says."""


class Commands(TyperGroup):
    """All commands: what holds for each of them, and for no command line elsewhere."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.commands.update({name: Later(name, verb) for name, verb in VERBS.items()})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """``--watch`` may stand alone, or with its seconds."""
        return super().parse_args(ctx, _with_seconds(args))

    def list_commands(self, ctx: Any) -> list[str]:
        """By purpose, as the panels stand."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is meant, imported now."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Later) else command, rest

    def whole(self) -> dict[str, Any]:
        """All commands by name, imported."""
        return {
            name: found.load() if isinstance(found, Later) else found for name, found in self.commands.items()
        }

    def invoke(self, ctx: Any) -> Any:
        """Run a command; a reader who has enough (``gossamer routes | head``) is no mistake."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _let_go()
            raise typer.Exit(ExitCode.DONE) from None
        except typer.Exit:
            try:
                sys.stdout.flush()
            except BrokenPipeError:
                _let_go()
            raise
        return result


class Noun(TyperGroup):
    """Verbs of one noun, one of which may be left out."""

    default: ClassVar[str] = "list"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the verb in that was left out."""
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
        """The verbs, and whatever may follow the one that is left out."""
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
    """A noun whose verbs are added as commands; ``default`` is the one that may be left out."""
    kind = type("Noun", (Noun,), {"default": default})
    return typer.Typer(help=f"{says} Alone: {default}.", cls=kind)


def _with_seconds(args: list[str]) -> list[str]:
    out: list[str] = []
    for at, word in enumerate(args):
        if word == "--":
            return out + args[at:]
        if word in ("--watch", "-w"):
            following = args[at + 1] if at + 1 < len(args) else ""
            out.append(word if _is_number(following) else f"--watch={PERIOD}")
        else:
            out.append(word)
    return out


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


def _let_go() -> None:
    """Nothing more can be written, and nobody is to say so at the end."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
