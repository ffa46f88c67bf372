"""``gossamer tables show``: whether all nodes hold the same rows of a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gossamer.cli.client import ApiClient
from gossamer.cli.refusals import Answer, UnknownNameError
from gossamer.cli.show import Part, Report
from gossamer.cli.table import Grid

__all__ = ["digest_report"]


def digest_report(client: ApiClient, table: str) -> Report:
    """The checksums of each owner's rows of ``table``, on every node that answers.

    Raises:
        UnknownNameError: there is no such table.
    """
    known = [row["name"] for row in client.rows("/api/v1/tables")]
    if table not in known:
        raise UnknownNameError(kind="table", name=table, known=known, see="gossamer tables")
    gathered = client.rows_all("/api/v1/tables/digests")
    owners: dict[str, dict[str, Any]] = {}
    for row in gathered.items:
        if row["name"] == table:
            found = owners.setdefault(row["owner"], {"owner": row["owner"], "nodes": {}})
            found["nodes"][row["node"]] = Answer(rows=row["rows"], checksum=row["checksum"])
    items = sorted(owners.values(), key=lambda owner: str(owner["owner"]))
    asked = sorted({row["node"] for row in gathered.items})
    for item in items:
        # A node without a row of an owner says nothing of it.
        sums = {held["checksum"] for held in item["nodes"].values()}
        item["same"] = len(sums) == 1 and len(item["nodes"]) == len(asked)

    def parts() -> Iterable[Part]:
        yield Grid(
            ["OWNER", "SAME", *asked],
            [
                [item["owner"], "yes" if item["same"] else "NO", *(_held(item, name) for name in asked)]
                for item in items
            ],
            f"{table}: no node holds a replicated row of it",
        )

    document = {"table": table, "items": items, "missing": gathered.missing}
    return Report(document, parts, gathered.missing)


def _held(item: dict[str, Any], node: str) -> str:
    held = item["nodes"].get(node)
    return f"{held['rows']} rows {held['checksum'][:8]}" if held else "nothing"
