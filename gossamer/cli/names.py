"""Shell completion of values: names of nodes, clients, topics … from the API of the node that is asked.

Rules: 1. On any failure nothing is offered and nothing printed: the prompt is no place for errors.  2. It
takes half a second at most, however a host name is resolved.  3. http.client reads the API here, since httpx
takes longer to import than a node to answer.
"""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import typer

from gossamer.cli.api.client import DEFAULT_API, credentials, trusted, whole

__all__ = [
    "alarms",
    "audits",
    "clients",
    "drills",
    "filters",
    "get",
    "keys",
    "known",
    "nodes",
    "processes",
    "quarantined",
    "retained",
    "tables",
    "tokens",
    "topics",
]

TIMEOUT = 0.5
MAX_BYTES = 4 << 20
MAX_VALUES = 500
"""Values that are fetched; a user with more types another character."""

Values = list[tuple[str, str]]
"""Each with its help."""
Row = Mapping[str, Any]
Get = Callable[[str], Any]
"""The answer to a GET of a path below ``/api/v1/``."""
Complete = Callable[..., Any]
"""Called by Typer with the context and what is typed, whichever of them it names."""


def known(*values: str) -> Complete:
    """Complete one of a fixed set of values."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return complete


def _from_api(find: Callable[[Get, str], Iterable[tuple[str, str]]], *, of_node: bool = False) -> Complete:
    """Complete what ``find`` reads from the API; with ``of_node`` from that of the node at ``--node``."""

    def complete(ctx: typer.Context, incomplete: str) -> Values:
        url = ctx.params.get("api") or os.environ.get("GOSSAMER_API") or DEFAULT_API
        node = ctx.params.get("node") if of_node else None
        found: Values = []

        def ask() -> None:
            with suppress(Exception):
                found.extend(find(lambda path: get(url, path, node=node), incomplete))

        # In a thread, because a name lookup may take any time.
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(TIMEOUT)
        candidates = [] if asking.is_alive() else found
        return [(value, says) for value, says in candidates if value.startswith(incomplete)]

    return complete


def get(url: str, path: str, *, node: str | None = None) -> Any:
    """Return the answer to a GET of ``path`` below ``/api/v1/``, of ``node`` through the one at ``url``."""
    parts = urlsplit(whole(url))
    host = parts.hostname or ""
    if parts.scheme == "https":
        link: HTTPConnection = HTTPSConnection(host, parts.port, timeout=TIMEOUT, context=trusted())
    else:
        link = HTTPConnection(host, parts.port, timeout=TIMEOUT)
    below = f"nodes/{quote(node, safe='@')}/{path}" if node else path
    try:
        link.request("GET", f"/api/v1/{below}", headers=credentials())
        return json.loads(link.getresponse().read(MAX_BYTES))
    finally:
        link.close()


def _listed(path: str, name: str, says: str = "", *, paged: bool = False, of_node: bool = False) -> Complete:
    """Complete the field ``name`` of the rows at ``path``; ``says`` is a format over a row."""

    def find(get: Get, incomplete: str) -> Values:
        rows = _page(get, path, incomplete) if paged else _items(get(path))
        return [(row[name], says.format_map(row)) for row in rows]

    return _from_api(find, of_node=of_node)


def _items(answer: Any) -> list[Row]:
    items: list[Row] = answer["items"] if isinstance(answer, dict) else answer
    return items


def _page(get: Get, path: str, incomplete: str) -> list[Row]:
    """The part of a long list that begins with ``incomplete``."""
    after = base64.urlsafe_b64encode(json.dumps([incomplete]).encode()).decode()
    return _items(
        get(f"{path}?{urlencode({'limit': MAX_VALUES, **({'after': after} if incomplete else {})})}")
    )


def _topics(get: Get, incomplete: str) -> Iterator[tuple[str, str]]:
    """Topics of retained messages, and filters without wildcards."""
    names = {row["topic"] for row in _page(get, "retained", incomplete)}
    for row in _page(get, "topics", incomplete):
        if not set(row["filter"]) & set("+#") and not row["filter"].startswith("$share/"):
            names.add(row["filter"])
    yield from ((name, "") for name in sorted(names))


def _processes(rows: Iterable[Row]) -> Iterator[tuple[str, str]]:
    for row in rows:
        says = " ".join(filter(None, (row["label"], row["note"])))
        if row["name"]:
            yield row["name"], says
        yield row["pid"].strip("<>").rpartition(".")[2], says
        yield from _processes(row["children"])


nodes = _listed("nodes", "name", "{status}")
clients = _listed("clients", "client", "on {node}", paged=True)
filters = _listed("topics", "filter", paged=True)
retained = _listed("retained", "topic", paged=True)
topics = _from_api(_topics)
tables = _listed("tables", "name", "{rows} rows")
tokens = _listed("tokens", "id", "{name}, {role}")
keys = _from_api(lambda get, _: ((name, "") for name in get("cluster/keys")["keys"]))
quarantined = _listed(f"autoheal/quarantine?limit={MAX_VALUES}", "id", "{table} {key}")
alarms = _listed(f"alarms?limit={MAX_VALUES}", "name", "{text}")
drills = _listed("drills", "id", "{state}", of_node=True)
audits = _listed("audit/reports", "id", "{state}", of_node=True)
processes = _from_api(lambda get, _: _processes(get("processes?fold=20")), of_node=True)
