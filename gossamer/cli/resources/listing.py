"""Commands that list a resource of the API, made from a description: path, columns, filters.

Rules: 1. A resource says whom it asks: one node (``rows``, ``items``, ``pages``), all nodes through one
(``everywhere``), or each node in turn (``gathered``, ``of_each_node``).  2. ``--node`` asks that node alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import typer

from gossamer.cli.api.client import DEFAULT_API, ApiClient, Gathered, Params
from gossamer.cli.api.errors import Answer
from gossamer.cli.nouns import Parameters, add_command
from gossamer.cli.options import Api, Json, Limit, OnNode, Watch
from gossamer.cli.render.show import Columns, Listing, Row, show

__all__ = [
    "Query",
    "Resource",
    "add_list",
    "everywhere",
    "gathered",
    "items",
    "list_resource",
    "nodes_text",
    "of_each_node",
    "once",
    "pages",
    "rows",
    "rows_by_name",
]


@dataclass(frozen=True, slots=True)
class Query:
    """One request for a resource."""

    client: ApiClient
    path: str
    params: Params
    limit: int | None
    node: str | None


Fetch = Callable[[Query], Iterable[Row]]


def rows(query: Query) -> Iterable[Row]:
    """Fetch a short list of one node."""
    return query.client.rows(query.path, query.params)


def rows_by_name(query: Query) -> Iterable[Row]:
    """Fetch a short list of one node, sorted by name."""
    return sorted(rows(query), key=lambda row: str(row["name"]))


def items(query: Query) -> Iterable[Row]:
    """Fetch the ``items`` of a document of one node."""
    found: list[Row] = query.client.document(query.path, query.params)["items"]
    return found


def pages(query: Query) -> Iterable[Row]:
    """Fetch a long list that every node knows, page by page."""
    return query.client.pages(query.path, query.params, limit=query.limit)


def everywhere(query: Query) -> Iterable[Row]:
    """Fetch a long list of all nodes, row by row."""
    return query.client.listed(query.path, query.params, limit=query.limit)


def of_each_node(query: Query) -> Iterable[Row]:
    """Fetch one answer from each node."""
    return query.client.get_all(query.path, node=query.node)


def gathered(*key: str, order: Callable[[Row], Any]) -> Fetch:
    """Fetch the lists of all nodes; rows that agree in ``key`` become one, with its ``nodes``."""

    def fetch(query: Query) -> Iterable[Row]:
        found = query.client.gather(query.path, query.params, node=query.node)
        return Gathered(sorted(once(found.items, *key), key=order), found.missing)

    return fetch


def once(rows: Iterable[Row], *key: str) -> list[Row]:
    """Merge rows that agree in ``key`` into one with the ``nodes`` that have it."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        about = Answer({name: value for name, value in row.items() if name != "node"}, nodes=[])
        found.setdefault(tuple(row[part] for part in key), about)["nodes"].append(row["node"])
    return list(found.values())


def nodes_text(row: Row) -> str:
    """The node of a merged row, or how many."""
    names: list[str] = row["nodes"]
    return f"{len(names)} nodes" if len(names) > 1 else names[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A list that the API serves below ``/api/v1/``."""

    path: str
    says: str
    columns: Columns
    empty: str
    fetch: Fetch = rows
    each_node: bool = False
    """Each node is asked for its own, so ``--node`` is for ``fetch`` and not for the client."""
    filters: Parameters = field(default_factory=dict)
    """Options and arguments by the name of their query parameter; ``to`` is sent as ``node``."""
    key: int = 1
    restless: frozenset[str] = frozenset()

    def listing(self, client: ApiClient, params: Params, limit: int | None, node: str | None) -> Listing:
        """Fetch the resource."""
        found = self.fetch(Query(client, f"/api/v1/{self.path}", params, limit, node))
        return Listing(found, self.columns, self.empty, self.key, self.restless)


def list_resource(
    resource: Resource,
    *,
    api: str,
    node: str | None,
    json: bool,
    watch: float | None = None,
    limit: int | None = None,
    **filters: str | bool | None,
) -> None:
    """Print a resource, once or again and again."""
    params = {"node" if name == "to" else name: value for name, value in filters.items() if value is not None}
    with ApiClient(api, node=None if resource.each_node else node) as client:
        show(
            lambda most: resource.listing(client, params, most, node),
            json=json,
            watch=watch,
            limit=limit,
        )


def add_list(group: typer.Typer, resource: Resource, name: str = "list", *, panel: str | None = None) -> None:
    """Add the command that lists ``resource`` to ``group``."""
    limit: Parameters = {"limit": (Limit, None)} if resource.fetch in (pages, everywhere) else {}
    common: Mapping[str, tuple[Any, Any]] = {
        "api": (Api, DEFAULT_API),
        "node": (OnNode, None),
        "json": (Json, False),
        **limit,
        "watch": (Watch, None),
    }
    add_command(
        group,
        name,
        resource.says,
        {**resource.filters, **common},
        lambda **given: list_resource(resource, **given),
        panel=panel,
    )
