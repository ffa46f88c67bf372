"""Every command with its one-line help, by panel of ``gossamer --help``, and the module that holds it.

Rules: 1. No command's module is imported until that command is used: ``gossamer --help`` and shell completion
read this table alone.  2. The help of a command here equals its own help; a test compares them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand

from gossamer.cli.examples import with_examples

__all__ = ["COMMANDS", "HIDDEN", "PANELS", "LazyCommand"]

_PROCESSES = "Draw a node's supervision tree: processes, state, mailboxes, work done, restarts, memory."

PANELS: dict[str, dict[str, tuple[str, str]]] = {
    "Run nodes": {
        "start": ("local.start:start", "Run one node in the foreground."),
        "up": (
            "local.up:up",
            "Run a cluster on this machine; print one ready line, write cluster.json, stop with Ctrl-C.",
        ),
        "config": ("local.config:app", "Check, print and reload the configuration."),
        "passwd": (
            "local.passwd:passwd",
            "Set the password of USER in FILE, created if missing; a running node rereads it by itself.",
        ),
    },
    "Look at the cluster": {
        "top": (
            "top.command:top",
            "Watch all nodes: clients, message rates, queues, loop lag, memory, and who sees whom.",
        ),
        "live": (
            "top.live:live",
            "Show each node's counters since its start; `gossamer top` shows them per second.",
        ),
        "nodes": ("resources.nodes:nodes", "The nodes of the cluster, as one of them sees them."),
        "cluster": ("cluster.membership:app", "Membership: status, members, join, leave, gossip keys."),
        "events": (
            "cluster.events:events",
            "List recent events of all nodes, or of one, latest last: members, links, splits, heals.",
        ),
        "alarms": ("resources.alarms:alarms", "Alarms: partitions, heals, audits; raise or clear one."),
    },
    "Clients and messages": {
        "clients": (
            "resources.clients:clients",
            "Clients that are connected or have a session; disconnect one.",
        ),
        "sessions": ("resources.clients:sessions", "Sessions and what is queued in them; show or end one."),
        "subscriptions": ("resources.clients:subscriptions", "Subscriptions of all sessions."),
        "topics": (
            "resources.topics:topics",
            "Filters that have subscribers, and where a message would go.",
        ),
        "routes": (
            "resources.topics:routes",
            "The route table: which nodes have subscribers to which filter; verify it.",
        ),
        "retained": ("resources.topics:retained", "Retained messages; remove one."),
        "publish": ("resources.topics:publish", "Publish a message and print how many receivers it has."),
    },
    "Look inside a node": {
        "ps": ("introspection.processes:ps", _PROCESSES),
        "trace": (
            "introspection.processes:trace",
            "Print a process's incoming and outgoing messages live, until it ends or Ctrl-C.",
        ),
        "tables": ("resources.nodes:tables", "The tables that a node holds."),
        "log-level": ("introspection.log_level:app", "Log level of nodes, until their next restart."),
        "backup": (
            "introspection.backup:backup",
            "Back up a running node's sessions, queues and tables to one file on its machine.",
        ),
    },
    "Break, heal and audit": {
        "drill": ("drill.command:app", "Break a cluster on purpose, and see how it heals."),
        "autoheal": ("cluster.autoheal:app", "See how splits were healed, and change the settings."),
        "audit": ("audit:app", "Record where every message went, and query it (DuckDB, Spark)."),
    },
    "Access and help": {
        "tokens": ("resources.tokens:app", "API tokens for people and scripts on other machines."),
        "completion": ("completion:completion", "Print or install the completion script of a shell."),
        "support-bundle": (
            "introspection.bundle:support_bundle",
            "Collect what a bug report needs from every node into one file: no secrets, no payloads.",
        ),
    },
}
"""In the order of the help; a command's value is its module and name, and its help."""

HIDDEN = {"processes": ("introspection.processes:ps", _PROCESSES)}

COMMANDS = {name: entry for panel in PANELS.values() for name, entry in panel.items()} | HIDDEN


class LazyCommand(TyperCommand):
    """A command whose module is imported by :meth:`load`."""

    def __init__(self, name: str) -> None:
        self._home, says = COMMANDS[name]
        panel = next((title for title, commands in PANELS.items() if name in commands), None)
        super().__init__(name=name, help=says, hidden=panel is None, rich_help_panel=panel)

    def load(self) -> Any:
        """Import the command, or group of commands."""
        module, _, attribute = self._home.partition(":")
        found = getattr(import_module(f"gossamer.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            command: Any = typer.main.get_group(found)
        else:
            alone = typer.Typer(add_completion=False)
            alone.command()(found)
            command = typer.main.get_command(alone)
        command.name = self.name
        command.hidden = self.hidden
        return with_examples(command, str(self.name))
