"""Root of all commands, and groups of them: a noun, then a verb; a noun alone runs its default verb.

``PANELS`` lists every command with its one-line help, by panel of ``gossamer --help``, and its module.
``gossamer clients --limit 5`` is ``gossamer clients list --limit 5``; ``gossamer clients kick ID`` is another
verb of the same noun.

Rules: 1. No command's module is imported until that command is used: ``gossamer --help`` and shell completion
read this table alone.  2. The help of a command here is its own help; a test compares them.  3. A word
that is no verb is an error, unless the default verb takes an argument (``topics a/b``).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from gossamer.options import OptionGroup

F = TypeVar("F", bound=Callable[..., object])
PERIOD = "2"
"""Seconds of a ``--watch`` without a value."""
PANELS: dict[str, dict[str, tuple[str, str]]] = {
    "Run nodes": {
        "start": ("local.start", "Run one node in the foreground."),
        "up": ("local.up", "Run a cluster on this machine until Ctrl-C."),
        "config": ("local.config", "Check, print and reload the configuration."),
        "passwd": ("commands.access", "Set or delete the password of a user in a file."),
    },
    "Look at the cluster": {
        "top": ("commands.top", "Watch all nodes: clients, message rates, memory, and who sees whom."),
        "live": ("commands.nodes", "Show each node's counters since its start."),
        "nodes": ("commands.nodes", "The nodes of the cluster, as one of them sees them."),
        "services": ("commands.nodes", "Which services each node runs."),
        "features": ("commands.nodes", "Feature flags: what waits until all nodes have it; enable it."),
        "cluster": ("commands.nodes", "Membership: status, members, join, leave, gossip keys."),
        "raft": ("commands.nodes", "Replicas that agree on what must not differ: who leads, names."),
        "ranges": ("commands.processes", "Ranges of keys: where they begin and who leads; split, merge."),
        "events": ("commands.events", "List recent events: members, links, splits, heals."),
        "alarms": ("commands.events", "Alarms: partitions, heals, audits; raise or clear one."),
    },
    "Clients and messages": {
        "clients": ("commands.clients", "Clients that are connected or have a session; disconnect one."),
        "sessions": ("commands.clients", "Sessions and what is queued in them; show or end one."),
        "subscriptions": ("commands.clients", "Subscriptions of all sessions."),
        "topics": ("commands.topics", "Filters that have subscribers, and where a message would go."),
        "routes": ("commands.topics", "Routes: which nodes have subscribers to which filter; verify them."),
        "retained": ("commands.topics", "Retained messages; remove one."),
        "queues": ("commands.queues", "Queues: what waits for which consumers; make, fill and empty one."),
        "tenants": ("commands.clients", "Tenants: who shares the cluster; their limits; ban one."),
        "publish": ("commands.topics", "Publish a message and print how many receivers it has."),
    },
    "Look inside a node": {
        "ps": ("commands.processes", "Draw a node's supervision tree."),
        "trace": ("commands.processes", "Print a process's incoming and outgoing messages live."),
        "tables": ("commands.nodes", "The tables that a node holds."),
        "log-level": ("commands.processes", "Log level of nodes, until their next restart."),
        "backup": ("commands.processes", "Back up what a running node has on disc to one file."),
    },
    "Break, heal and audit": {
        "drill": ("commands.drill", "Break a cluster on purpose, and see how it heals."),
        "autoheal": ("commands.autoheal", "See how splits were healed, and change the settings."),
        "audit": ("commands.audit", "Record where every message went, and query it (DuckDB, Spark)."),
    },
    "Access and help": {
        "tokens": ("commands.access", "API tokens for people and scripts on other machines."),
        "completion": ("completion", "Print or install the completion script of a shell."),
        "support-bundle": (
            "commands.bundle",
            "Collect what a bug report needs, without secrets.",
        ),
    },
}
"""In the order of the help; a command's value is its module, where it has its own name, and its help."""

COMMANDS = {name: entry for panel in PANELS.values() for name, entry in panel.items()}


def example(*lines: str) -> Callable[[F], F]:
    """Show in the help of a command how it is typed: what follows its name, or a whole line of a shell."""

    def mark(function: F) -> F:
        vars(function)["examples"] = lines
        return function

    return mark


class LazyCommand(TyperCommand):
    """A command whose module is imported by :meth:`load`."""

    def __init__(self, name: str) -> None:
        self._module, says = COMMANDS[name]
        panel = next(title for title, commands in PANELS.items() if name in commands)
        super().__init__(name=name, help=says, rich_help_panel=panel)

    def load(self) -> object:
        """Import the command, or group of commands."""
        name = str(self.name)
        found = getattr(import_module(f"gossamer.cli.{self._module}"), name.replace("-", "_"))
        if isinstance(found, typer.Typer):
            command: Any = typer.main.get_group(found)
            command.help = self.help
        else:
            alone = typer.Typer(add_completion=False)
            alone.command()(found)
            command = typer.main.get_command(alone)
        command.name = name
        return _with_examples(command, name)


class Commands(OptionGroup):
    """The root group: commands are imported when they are used."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.commands.update({name: LazyCommand(name) for name in COMMANDS})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Let ``--watch`` stand alone, or with its seconds."""
        return super().parse_args(ctx, _with_seconds(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import the command that ``args`` names."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest

    def whole(self) -> dict[str, object]:
        """Import all commands; by name."""
        return {name: LazyCommand(name).load() for name in COMMANDS}


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


def noun(default: str = "list", **attrs: Any) -> typer.Typer:
    """Make a noun, to which verbs are added as commands; ``default`` is the verb of the noun alone.

    Its help is that of ``PANELS``, unless it is given, for one that is not there.
    """
    return typer.Typer(cls=type("Noun", (Noun,), {"default": default}), **attrs)


def _with_examples(command: Any, typed: str) -> Any:
    """``command``, and those below it, with ``examples`` of how it is typed, which its help shows.

    An example is what follows the command, or a whole line of a shell.
    """
    if isinstance(command, TyperGroup):
        default = command.default if isinstance(command, Noun) else ""
        for name, below in command.commands.items():
            _with_examples(below, typed if name == default else f"{typed} {name}")
        return command
    given = getattr(command.callback, "examples", None) or ("",)
    command.examples = tuple(
        one if "gossamer " in one else f"gossamer {typed} {one}".rstrip() for one in given
    )
    # Brackets would be taken for markup; a line of its own each.
    lines = [line.replace("[", r"\[") for line in command.examples]
    command.epilog = "\n".join(["[bold]Example[/]" if len(lines) == 1 else "[bold]Examples[/]", *lines])
    return command


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
