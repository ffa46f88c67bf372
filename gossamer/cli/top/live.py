"""``gossamer live``: every node in a few counters, once, or as a line a second for scripts."""

from __future__ import annotations

from typing import Any

from gossamer.cli.api.client import DEFAULT_API, ApiClient
from gossamer.cli.api.errors import NotNowError
from gossamer.cli.options import Api, Json, Watch
from gossamer.cli.render.output import size_text
from gossamer.cli.render.show import Report, show
from gossamer.cli.render.table import Grid
from gossamer.config import format_duration

__all__ = ["live"]

PATIENCE = 15.0


def live(api: Api = DEFAULT_API, json: Json = False, watch: Watch = None) -> None:
    """Show each node's counters since its start; `gossamer top` shows them per second."""
    with ApiClient(api) as client:
        show(lambda _: _report(client), json=json, watch=watch)


def _report(client: ApiClient) -> Report:
    stream = client.events("/api/v1/live", patience=PATIENCE)
    sample = next(stream, None)
    if sample is None:
        raise NotNowError(f"{client.url} ended the stream before it began; try again")
    nodes: list[dict[str, Any]] = sorted(sample["nodes"], key=lambda row: str(row["node"]))
    grid = Grid(
        ["NODE", "STATE", "CLIENTS", "SESSIONS", "FILTERS", "RECEIVED", "SENT", "DROPPED", "MEMORY", "UP"],
        [
            [
                row["node"],
                row["state"],
                row["connections"],
                row["sessions"],
                row["filters"],
                row["received"],
                row["sent"],
                row["dropped"],
                size_text(row["memory"]),
                format_duration(float(int(row["uptime"]))),
            ]
            for row in nodes
        ],
        "no node answered",
        restless=frozenset({"UP"}),
    )
    return Report(sample, lambda: [grid], sample["missing"])
