"""Columns as people read them: what each counts in, and numbers in units that can be read.

Tables keep what was recorded: ``…_us`` are microseconds, ``…_at`` microseconds since 1970, UTC. In a report
delays are milliseconds, lateness is seconds, and every number has its unit in its header.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

UNITS = {
    **dict.fromkeys(
        (
            "delivered",
            "late",
            "doubled",
            "lost",
            "queued",
            "misrouted",
            "undecidable",
            "missed",
            "deliveries",
        ),
        "deliveries",
    ),
    **dict.fromkeys(("messages", "dropped", "overflows"), "messages"),
    **dict.fromkeys(("p50_us", "p95_us", "p99_us", "worst_us"), "ms"),
    **dict.fromkeys(("begin", "end", "first", "last", "hour", "window_start"), "UTC"),
    "late_by_us": "s",
    "negative": "delays",
    "minutes": "min",
    "split": "number",
    "clients": "clients",
    "connects": "times",
    "worst_hour": "connects in an hour",
    "takeovers": "times",
    "nodes": "nodes",
    "per_message": "deliveries for a message",
    "widest": "deliveries of one message",
    "usual": "messages a minute",
    "deviations": "times its usual spread",
}
"""Of every column of a sheet that is a number or a time."""
_TITLES = {"late_by_us": "latest by", "per_message": "mean fan-out", "widest": "widest fan-out"}
_SCALE = {"ms": 1000, "s": 1_000_000}


def heading(column: str) -> tuple[str, str]:
    """What a column is called, and its unit; blank where it is text."""
    return _TITLES.get(column, column.removesuffix("_us").replace("_", " ")), UNITS.get(column, "")


def shown(value: Any, column: str = "") -> str:
    """A value as it is written, in the unit of its column."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column.endswith("_us"):
        value = value / _SCALE[UNITS[column]]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1 else f"{value:,.1f}"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)
