"""What a reader of ``gossamer top`` looks at: which rows, in which order; and what a key changes.

Pure: a key or a sample gives another desk, and nothing is drawn here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["COLUMNS", "KEYS", "Column", "Desk", "Rates", "Sample", "rates_of", "rows_of"]

Sample = Mapping[str, Any]
Rates = dict[str, dict[str, float]]

_COUNTERS = ("received", "sent", "dropped")

KEYS = (
    ("q", "end"),
    ("← →", "sort by another column"),
    ("r", "turn the order round"),
    ("↑ ↓", "choose a node"),
    ("Enter", "look at that node: links and busy processes; again or Esc: back"),
    ("n p", "next page, page before"),
    ("/", "show only nodes whose name holds …; Enter keeps it, Esc drops it"),
    ("Space", "hold the picture; again: go on"),
    ("?", "this help"),
)


@dataclass(frozen=True, slots=True)
class Column:
    """What a node is shown by, and ordered by."""

    title: str
    key: str
    least: int = 0
    """Columns that a terminal must have for it to be shown."""


COLUMNS = (
    Column("NODE", "node"),
    Column("CLIENTS", "connections"),
    Column("IN/S", "received"),
    Column("OUT/S", "sent"),
    Column("DROP/S", "dropped", 60),
    Column("LATE", "loop_lag", 68),
    Column("MEMORY", "memory", 78),
    Column("QUEUED", "queued_bytes", 100),
    Column("TO PEERS/S", "forwarded", 112),
    Column("UP", "uptime", 120),
)


@dataclass(frozen=True, slots=True)
class Desk:
    """How somebody looks at the cluster."""

    sort: int = 0
    turned: bool = False
    chosen: str = ""
    """Name of the node that the cursor is on; empty: the first."""
    detail: bool = False
    page: int = 0
    only: str = ""
    typing: bool = False
    held: bool = False
    helping: bool = False
    over: bool = False

    def press(self, key: str, *, shown: Sequence[str], columns: int, room: int) -> Desk:
        """The desk after ``key``; ``shown`` are all nodes in order, ``room`` of which are on a page."""
        if self.typing:
            return self._type(key)
        if self.helping:
            return replace(self, helping=False, over=key == "q")
        match key:
            case "q":
                return replace(self, over=True)
            case "left" | "right":
                step = 1 if key == "right" else -1
                return replace(self, sort=(self.sort + step) % columns, turned=False, page=0)
            case "r":
                return replace(self, turned=not self.turned, page=0)
            case "up" | "down" if shown:
                at = shown.index(self.chosen) if self.chosen in shown else 0
                at = max(0, min(len(shown) - 1, at + (1 if key == "down" else -1)))
                return replace(self, chosen=shown[at], page=at // room)
            case "n" | "p":
                pages = max(1, -(-len(shown) // room))
                page = max(0, min(pages - 1, self.page + (1 if key == "n" else -1)))
                first = shown[page * room : page * room + 1]
                return replace(self, page=page, chosen=first[0] if first else "")
            case "enter":
                return replace(self, detail=not self.detail)
            case "escape":
                return replace(self, detail=False) if self.detail else replace(self, only="", page=0)
            case "/":
                return replace(self, typing=True, only="", page=0, chosen="")
            case " ":
                return replace(self, held=not self.held)
            case "?":
                return replace(self, helping=True)
        return self

    def _type(self, key: str) -> Desk:
        if key == "enter":
            return replace(self, typing=False)
        if key == "escape":
            return replace(self, typing=False, only="")
        if key == "backspace":
            return replace(self, only=self.only[:-1])
        return replace(self, only=self.only + key) if len(key) == 1 and key.isprintable() else self


def rates_of(before: Sample | None, now: Sample) -> Rates:
    """By node and counter, what came a second between two samples; nothing for a node that started anew."""
    then = {} if before is None else {pulse["node"]: pulse for pulse in before["nodes"]}
    rates: Rates = {}
    for pulse in now["nodes"]:
        old = then.get(pulse["node"])
        if old is None or old["creation"] != pulse["creation"] or pulse["at"] <= old["at"]:
            continue
        seconds = pulse["at"] - old["at"]
        row = {name: (pulse[name] - old[name]) / seconds for name in _COUNTERS}
        sent = sum(pulse["forwarded_bytes"].values()) - sum(old["forwarded_bytes"].values())
        rates[pulse["node"]] = {**row, "forwarded": max(0.0, sent / seconds)}
    return rates


def rows_of(sample: Sample, rates: Rates, desk: Desk) -> list[dict[str, Any]]:
    """All nodes that are wanted, in the order that is; those that are silent last, with ``silent``: why."""
    key = COLUMNS[desk.sort].key
    rows = [
        {"forwarded": None, **pulse, **dict.fromkeys(_COUNTERS), **rates.get(pulse["node"], {})}
        for pulse in sample["nodes"]
        if desk.only.lower() in pulse["node"].lower()
    ]
    rows.sort(key=lambda row: str(row["node"]))
    if key == "node":
        rows.sort(key=lambda row: str(row["node"]), reverse=desk.turned)
    else:
        # What is most is wanted first.
        rows.sort(key=lambda row: -1.0 if row[key] is None else float(row[key]), reverse=not desk.turned)
    silent = [
        {"node": name, "silent": why}
        for name, why in sorted(sample["missing"].items())
        if desk.only.lower() in name.lower()
    ]
    return [*rows, *silent]
