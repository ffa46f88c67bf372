"""Which commands there are, what a list of them says, and in which module each is found.

Rules: 1. Nothing is imported until a command is wanted: ``gossamer --help`` and the shell's TAB read this
table alone.  2. What it says of a command is what the command says of itself; a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand

from gossamer.cli.examples import with_examples

__all__ = ["PANELS", "VERBS", "Later", "Verb"]


@dataclass(frozen=True, slots=True)
class Verb:
    """One word after ``gossamer``."""

    home: str
    """Module and name, ``look:nodes``."""
    says: str
    panel: str = ""
    """Empty: not shown."""


_RUN = "Run nodes"
_LOOK = "Look at the cluster"
_MESSAGES = "Clients and messages"
_INSIDE = "Look inside a node"
_BREAK = "Break, heal and audit"
_HELP = "Access and help"
PANELS = (_RUN, _LOOK, _MESSAGES, _INSIDE, _BREAK, _HELP)
"""In this order."""

VERBS = {
    "start": Verb("start:start", "Run one node in the foreground.", _RUN),
    "up": Verb(
        "up:up",
        "Run a cluster on this machine; print one ready line, write cluster.json, stop with Ctrl-C.",
        _RUN,
    ),
    "config": Verb("configuration:app", "Check and explain the configuration.", _RUN),
    "passwd": Verb(
        "passwd:passwd",
        "Set the password of USER in FILE, which is made if missing; a running node reads it again "
        "by itself.",
        _RUN,
    ),
    "top": Verb(
        "top:top",
        "Watch all nodes: clients, messages a second, queues, lateness, memory, and who sees whom.",
        _LOOK,
    ),
    "live": Verb(
        "live:live",
        "Show every node in a few counters since its start; `gossamer top` shows them a second.",
        _LOOK,
    ),
    "nodes": Verb("look:nodes", "The nodes of the cluster, as one of them sees them. Alone: list.", _LOOK),
    "cluster": Verb("cluster:app", "Who is in the cluster; join and leave.", _LOOK),
    "events": Verb(
        "events:events",
        "List what happened at all nodes lately, or at one, the latest last: members, links, splits, heals.",
        _LOOK,
    ),
    "alarms": Verb(
        "alarms:alarms",
        "What an operator has to know: partitions, heals, audits; raise or clear one. Alone: list.",
        _LOOK,
    ),
    "clients": Verb(
        "clients:clients", "Clients: who is connected or has a session; kick one. Alone: list.", _MESSAGES
    ),
    "sessions": Verb(
        "clients:sessions",
        "Sessions: what is kept for each client; show or end one. Alone: list.",
        _MESSAGES,
    ),
    "subscriptions": Verb("clients:subscriptions", "Subscriptions of all sessions. Alone: list.", _MESSAGES),
    "topics": Verb(
        "look:topics",
        "Filters that have subscribers, and where a message would go. Alone: list.",
        _MESSAGES,
    ),
    "routes": Verb(
        "routes:app",
        "The route table: which node has subscribers to which filter; verify it. Alone: list.",
        _MESSAGES,
    ),
    "retained": Verb(
        "messages:retained", "Messages that are kept for who subscribes later. Alone: list.", _MESSAGES
    ),
    "publish": Verb("messages:publish", "Publish a message, and say to how many it went.", _MESSAGES),
    "ps": Verb(
        "inside:ps",
        "Draw a node's supervision tree: processes, their state, mailboxes, work done, restarts, memory.",
        _INSIDE,
    ),
    "processes": Verb(
        "inside:ps",
        "Draw a node's supervision tree: processes, their state, mailboxes, work done, restarts, memory.",
    ),
    "trace": Verb(
        "inside:trace",
        "Show what a process takes in and sends out, as it happens, until it ends or Ctrl-C.",
        _INSIDE,
    ),
    "tables": Verb("look:tables", "The tables that a node holds. Alone: list.", _INSIDE),
    "log-level": Verb(
        "loglevel:app", "How much nodes log, until they are started again. Alone: show.", _INSIDE
    ),
    "backup": Verb(
        "backup:backup",
        "Back up a running node: its sessions, queues and tables, to one file on its machine.",
        _INSIDE,
    ),
    "drill": Verb("drill:app", "Break a cluster of its own on purpose, and see how it heals.", _BREAK),
    "drills": Verb(
        "runs:drills",
        "Drills ordered at a node: start one, follow it, read what came of it. Alone: list.",
        _BREAK,
    ),
    "autoheal": Verb("autoheal:app", "See how splits of the cluster were healed, and change how.", _BREAK),
    "audit": Verb("audit:app", "Record where every message went, and ask (DuckDB, Spark).", _BREAK),
    "audits": Verb(
        "runs:audits",
        "Audits ordered at a node: start one, follow it, read what it found. Alone: list.",
        _BREAK,
    ),
    "tokens": Verb("tokens:app", "Let people and scripts into the API from other machines.", _HELP),
    "completion": Verb(
        "completion:completion",
        "Print the script that makes a shell complete commands, options and names of the cluster.",
        _HELP,
    ),
    "support-bundle": Verb(
        "bundle:support_bundle",
        "Gather what a bug report needs from every node into one file: no secrets, no payloads.",
        _HELP,
    ),
}


class Later(TyperCommand):
    """What is known of a command before it is imported."""

    def __init__(self, name: str, verb: Verb) -> None:
        super().__init__(name=name, help=verb.says, hidden=not verb.panel, rich_help_panel=verb.panel or None)
        self._verb = verb

    def load(self) -> Any:
        """The command itself, or the group of commands."""
        module, _, attribute = self._verb.home.partition(":")
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
