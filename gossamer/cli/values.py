"""What the shell offers after TAB where a value is wanted: asked of the running API, or known anyway.

Rules: 1. Whatever goes wrong, nothing is offered and nothing said: the prompt is no place for errors.  2. It
takes half a second at most, however the name of the node is looked up, and a page of a list.
"""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import typer

from gossamer.cli.client import DEFAULT_API
from gossamer.cli.quick import QuickApi

__all__ = [
    "alarms",
    "audits",
    "backends",
    "clients",
    "drills",
    "events",
    "filters",
    "jobs",
    "key_names",
    "kinds",
    "nodes",
    "processes",
    "quarantined",
    "retained_topics",
    "roles",
    "shells",
    "splits",
    "tables",
    "tokens",
    "topics",
]

PATIENCE = 0.5
MOST = 500
"""Values that are looked at; who has more types another letter of it."""

Values = list[tuple[str, str]]
Found = Iterable[tuple[str, str]]
Complete = Callable[[typer.Context, str], Values]


def _offered(find: Callable[[QuickApi, str], Found]) -> Complete:
    def complete(ctx: typer.Context, incomplete: str) -> Values:
        api = ctx.params.get("api") or os.environ.get("GOSSAMER_API") or DEFAULT_API
        client = QuickApi(api, node=_node_of(ctx, find), timeout=PATIENCE)
        return _fitting(_in_time(lambda: list(find(client, incomplete))), incomplete)

    return complete


def _known(*values: tuple[str, str]) -> Complete:
    def complete(ctx: typer.Context, incomplete: str) -> Values:
        return _fitting(values, incomplete)

    return complete


def _fitting(values: Found, incomplete: str) -> Values:
    return [(value, says) for value, says in values if value.startswith(incomplete) and value.isprintable()]


def _in_time(ask: Callable[[], Values]) -> Values:
    """What ``ask`` finds, if it finds it soon: a name of a host may take a resolver any time."""
    found: Values = []

    def run() -> None:
        # See rule 1.
        with suppress(Exception):
            found.extend(ask())

    asking = threading.Thread(target=run, daemon=True)
    asking.start()
    asking.join(PATIENCE)
    return [] if asking.is_alive() else found


def _node_of(ctx: typer.Context, find: object) -> str | None:
    # Processes and runs are those of the node that --node names; everything else any node knows.
    node: str | None = ctx.params.get("node")
    return node if find in (_processes, _drills, _audits) else None


def _page(client: QuickApi, path: str, incomplete: str) -> list[dict[str, Any]]:
    """The part of a long list that begins with ``incomplete``."""
    after = base64.urlsafe_b64encode(json.dumps([incomplete]).encode()).decode()
    found = client.get(path, {"limit": MOST, **({"after": after} if incomplete else {})})
    items: list[dict[str, Any]] = found["items"]
    return items


def _nodes(client: QuickApi, _: str) -> Found:
    return [(row["name"], row["status"]) for row in client.get("nodes")]


def _clients(client: QuickApi, incomplete: str) -> Found:
    rows = _page(client, "clients", incomplete)
    return [(row["client"], f"{_state(row)} on {row['node']}") for row in rows]


def _state(row: Mapping[str, Any]) -> str:
    return "connected" if row["connected"] else "away"


def _filters(client: QuickApi, incomplete: str) -> Found:
    rows = _page(client, "topics", incomplete)
    return [(row["filter"], " ".join(row["nodes"])) for row in rows]


def _retained(client: QuickApi, incomplete: str) -> Found:
    return [(row["topic"], "retained") for row in _page(client, "retained", incomplete)]


def _topics(client: QuickApi, incomplete: str) -> Found:
    """Those that somebody named: a filter without wildcards is one."""
    plain = [
        row
        for row in _filters(client, incomplete)
        if not set(row[0]) & set("+#") and not row[0].startswith("$share/")
    ]
    return dict([*_retained(client, incomplete), *plain]).items()


def _tables(client: QuickApi, _: str) -> Found:
    return [(row["name"], f"{row['rows']} rows") for row in client.get("tables")]


def _tokens(client: QuickApi, _: str) -> Found:
    return [(row["id"], f"{row['name']}, {row['role']}") for row in client.get("tokens")]


def _keys(client: QuickApi, _: str) -> Found:
    names = client.get("cluster/keys")["keys"]
    return [(name, "" if at else "in use") for at, name in enumerate(names)]


def _quarantined(client: QuickApi, _: str) -> Found:
    rows = client.get("autoheal/quarantine", {"limit": MOST})["items"]
    return [(row["id"], f"{row['table']} {row['key']}") for row in rows]


def _alarms(client: QuickApi, _: str) -> Found:
    rows = client.get("alarms", {"limit": MOST})["items"]
    return {row["name"]: row["text"] for row in rows if row["active"]}.items()


def _drills(client: QuickApi, _: str) -> Found:
    return [(row["id"], f"{row['order']['kind']}, {row['state']}") for row in client.get("drills")["items"]]


def _audits(client: QuickApi, _: str) -> Found:
    rows = client.get("audit/reports")["items"]
    return [(row["id"], f"{row['order'].get('job', 'report')}, {row['state']}") for row in rows]


def _processes(client: QuickApi, _: str) -> Found:
    return _names(client.get("processes", {"fold": 20}))


def _names(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for row in rows:
        number = row["pid"].strip("<>").rpartition(".")[2]
        says = " ".join(filter(None, (row["label"], row["note"])))
        if row["name"]:
            yield row["name"], says
        yield number, says
        yield from _names(row["children"])


nodes = _offered(_nodes)
clients = _offered(_clients)
filters = _offered(_filters)
retained_topics = _offered(_retained)
topics = _offered(_topics)
tables = _offered(_tables)
tokens = _offered(_tokens)
key_names = _offered(_keys)
quarantined = _offered(_quarantined)
alarms = _offered(_alarms)
drills = _offered(_drills)
audits = _offered(_audits)
processes = _offered(_processes)

backends = _known(("gate", "faults in the nodes"), ("netns", "real packets, needs root"))
jobs = _known(
    *((job, "") for job in ("report", "completeness", "latency", "routes", "partitions", "hotspots")),
    *((job, "") for job in ("sessions", "anomalies")),
)
shells = _known(("bash", ""), ("zsh", ""), ("fish", ""))
roles = _known(("viewer", "may look"), ("operator", "may kick, publish, drill"), ("admin", "may do all"))
splits = _known(
    ("3/2", "two sides"),
    ("2/1", "two sides of three nodes"),
    ("2/2/1", "three sides"),
    ("1>2", "one way"),
    ("1-2", "one link"),
)
kinds = _known(
    *((kind, "") for kind in ("partition", "flapping", "slow", "kill", "pause", "rolling")),
    *((kind, "") for kind in ("clock", "coordinator", "disk")),
)
events = _known(
    ("up", "a member"),
    ("suspected", "a member does not answer"),
    ("refuted", "a suspect lives"),
    ("down", "a member is held for dead"),
    ("left", "a member left"),
    ("link_up", "a link stands"),
    ("link_down", "a link is gone"),
    ("partition", "a split was met"),
    ("confirmed", "a split still held"),
    ("plan", "a heal is planned"),
    ("coordinates", "a heal is carried out"),
    ("reloaded", "a store was reloaded"),
    ("healed", "a heal is done"),
    ("removed", "autoclean removed a member"),
)
