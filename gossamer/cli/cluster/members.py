"""``gossamer cluster members``: each member, and the evidence for what is said of it: who sees it how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gossamer.cli.api.client import DEFAULT_API, ApiClient
from gossamer.cli.api.errors import Answer
from gossamer.cli.options import Api, Json, OnNode, Watch
from gossamer.cli.render.show import Part, Report, show
from gossamer.cli.render.table import Grid

__all__ = ["members"]


def members(api: Api = DEFAULT_API, node: OnNode = None, json: Json = False, watch: Watch = None) -> None:
    """List the members with the evidence: who sees them how, by gossip and by link, and signs of faults."""
    with ApiClient(api, node=node) as client:
        show(lambda _: _report(client), json=json, watch=watch)


def _report(client: ApiClient) -> Report:
    rows = sorted(client.rows("/api/v1/members"), key=lambda row: str(row["name"]))
    gathered = client.get_all("/api/v1/pulse")
    sights = {pulse["node"]: pulse["sees"] for pulse in gathered.items}
    items = [{**row, "seen_by": _sights_of(row["name"], sights)} for row in rows]

    def parts() -> Iterable[Part]:
        yield Grid(
            ["MEMBER", "STATUS", "INCARNATION", "SEEN BY", "SIGNS OF FAULTS"],
            [
                [
                    row["name"],
                    row["status"],
                    row["incarnation"],
                    _told(row["seen_by"]),
                    " ".join(row["hints"]),
                ]
                for row in map(Answer, items)
            ],
            "no members",
        )

    return Report({"items": items, "missing": gathered.missing}, parts, gathered.missing)


def _sights_of(name: str, sights: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {other: seen[name] for other, seen in sights.items() if other != name and name in seen}


def _told(seen_by: Mapping[str, Any]) -> str:
    """``all`` where they agree that all is well, else who sees what."""
    if seen_by and all(seen["status"] == "online" and seen["link"] == "up" for seen in seen_by.values()):
        return f"all {len(seen_by)}: online, link up"
    return "; ".join(f"{name}: {seen['status']}, link {seen['link']}" for name, seen in seen_by.items())
