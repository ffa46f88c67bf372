"""What the shell offers after TAB where a value of the cluster is wanted: asked of the running API.

Rules: 1. Whatever goes wrong, nothing is offered and nothing said: the prompt is no place for errors.  2. It
takes half a second at most, and a page of a list.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import typer

from gossamer.cli.client import DEFAULT_API, ApiClient

__all__ = [
    "clients",
    "filters",
    "key_names",
    "nodes",
    "processes",
    "quarantined",
    "retained_topics",
    "tables",
    "tokens",
]

PATIENCE = 0.5
MOST = 500
"""Values that are looked at; who has more types another letter of it."""

Values = list[tuple[str, str]]
Found = Iterable[tuple[str, str]]


def _offered(find: Callable[[ApiClient, str], Found]) -> Callable[[typer.Context, str], Values]:
    def complete(ctx: typer.Context, incomplete: str) -> Values:
        api = ctx.params.get("api") or os.environ.get("GOSSAMER_API") or DEFAULT_API
        try:
            with ApiClient(api, node=_node_of(ctx, find), timeout=PATIENCE) as client:
                return [
                    (value, says)
                    for value, says in find(client, incomplete)
                    if value.startswith(incomplete) and value.isprintable()
                ]
        except Exception:  # noqa: BLE001 - see rule 1
            return []

    return complete


def _node_of(ctx: typer.Context, find: object) -> str | None:
    # Processes are those of the node that --node names; everything else any node knows.
    node: str | None = ctx.params.get("node")
    return node if find is _processes else None


def _page(client: ApiClient, path: str, incomplete: str, **params: str) -> Iterable[dict[str, Any]]:
    """The part of a long list that begins with ``incomplete``."""
    after = base64.urlsafe_b64encode(json.dumps([incomplete]).encode()).decode()
    wanted: dict[str, str | int | bool] = {
        "limit": MOST,
        **({"after": after} if incomplete else {}),
        **params,
    }
    items: list[dict[str, Any]] = client.document(path, wanted)["items"]
    return items


def _nodes(client: ApiClient, _: str) -> Found:
    return [(row["name"], row["status"]) for row in client.rows("/api/v1/nodes")]


def _clients(client: ApiClient, incomplete: str) -> Found:
    rows = _page(client, "/api/v1/clients", incomplete)
    return [(row["client"], f"{_state(row)} on {row['node']}") for row in rows]


def _state(row: Mapping[str, Any]) -> str:
    return "connected" if row["connected"] else "away"


def _filters(client: ApiClient, incomplete: str) -> Found:
    rows = _page(client, "/api/v1/topics", incomplete)
    return [(row["filter"], " ".join(row["nodes"])) for row in rows]


def _retained(client: ApiClient, incomplete: str) -> Found:
    return [(row["topic"], "retained") for row in _page(client, "/api/v1/retained", incomplete)]


def _tables(client: ApiClient, _: str) -> Found:
    return [(row["name"], f"{row['rows']} rows") for row in client.rows("/api/v1/tables")]


def _tokens(client: ApiClient, _: str) -> Found:
    return [(row["id"], f"{row['name']}, {row['role']}") for row in client.rows("/api/v1/tokens")]


def _keys(client: ApiClient, _: str) -> Found:
    names = client.document("/api/v1/cluster/keys")["keys"]
    return [(name, "" if at else "in use") for at, name in enumerate(names)]


def _quarantined(client: ApiClient, _: str) -> Found:
    rows = client.document("/api/v1/autoheal/quarantine", {"limit": MOST})["items"]
    return [(row["id"], f"{row['table']} {row['key']}") for row in rows]


def _processes(client: ApiClient, _: str) -> Found:
    return _names(client.rows("/api/v1/processes", {"fold": 20}))


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
tables = _offered(_tables)
tokens = _offered(_tokens)
key_names = _offered(_keys)
quarantined = _offered(_quarantined)
processes = _offered(_processes)
