"""The picture of ``gossamer top``, and how a reader looks at it: which rows, in which order; keys.

Pure: a key or a sample gives another :class:`ViewState`, from which the picture is drawn, as large as the
terminal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gossamer.cli.client import Row
from gossamer.cli.render.output import age_text, printable, size_text

Sample = Mapping[str, Any]
"""Event of ``GET /api/v1/live``, sent every second."""
Rates = dict[str, dict[str, float]]
"""Rate per second, by node and counter."""
Busy = Sequence[tuple[str, str, float, int]]
"""Processes: pid, what it is, reductions a second, mailbox."""

LINES = 7
"""Lines that are no rows of nodes, where nothing is wrong."""
_BUSY = 12
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


def _count(value: float) -> Text:
    return Text(f"{value:,.0f}")


def _size(value: float) -> Text:
    return Text(size_text(int(value)))


@dataclass(frozen=True, slots=True)
class Column:
    """Column of the table of nodes, also a sort key."""

    title: str
    key: str
    width: int = 0
    """Columns that a terminal must have for it to be shown."""
    text: Callable[[float], Text] = _count


COLUMNS = (
    Column("NODE", "node"),
    Column("CLIENTS", "connections"),
    Column("IN/S", "received"),
    Column("OUT/S", "sent"),
    Column("DROP/S", "dropped", 60, lambda rate: Text(f"{rate:,.0f}", "red" if rate >= 1 else "")),
    Column("LATE", "loop_lag", 68, lambda lag: Text(f"{lag * 1000:.0f} ms", "red" if lag > 0.1 else "")),
    Column("MEMORY", "memory", 78, _size),
    Column("QUEUED", "queued_bytes", 100, _size),
    Column("TO PEERS/S", "forwarded", 112, _size),
    Column("UP", "uptime", 120, lambda seconds: Text(age_text(seconds))),
)


@dataclass(frozen=True, slots=True)
class ViewState:
    """The state of the view: sort, cursor, filter, mode."""

    sort: int = 0
    turned: bool = False
    chosen: str = ""
    """Name of the node that the cursor is on; empty: the first."""
    detail: bool = False
    only: str = ""
    typing: bool = False
    held: bool = False
    helping: bool = False
    over: bool = False

    def press(self, key: str, *, shown: Sequence[str], columns: int, room: int) -> ViewState:
        """The view after ``key``; ``shown`` are all nodes in order, ``room`` of which are on a page."""
        if self.typing:
            return self._type(key)
        if self.helping:
            return replace(self, helping=False, over=key == "q")
        match key:
            case "q":
                return replace(self, over=True)
            case "left" | "right":
                step = 1 if key == "right" else -1
                return replace(self, sort=(self.sort + step) % columns, turned=False)
            case "r":
                return replace(self, turned=not self.turned)
            case "up" | "down" | "n" | "p" if shown:
                step = (1 if key in ("down", "n") else -1) * (room if key in ("n", "p") else 1)
                at = shown.index(self.chosen) if self.chosen in shown else 0
                return replace(self, chosen=shown[max(0, min(len(shown) - 1, at + step))])
            case "enter":
                return replace(self, detail=not self.detail)
            case "escape":
                return replace(self, detail=False) if self.detail else replace(self, only="")
            case "/":
                return replace(self, typing=True, only="", chosen="")
            case " ":
                return replace(self, held=not self.held)
            case "?":
                return replace(self, helping=True)
        return self

    def _type(self, key: str) -> ViewState:
        if key == "enter":
            return replace(self, typing=False)
        if key == "escape":
            return replace(self, typing=False, only="")
        if key == "backspace":
            return replace(self, only=self.only[:-1])
        return replace(self, only=self.only + key) if len(key) == 1 and key.isprintable() else self


def rates_of(before: Sample | None, now: Sample) -> Rates:
    """Return rates per second between two samples; none for a node that restarted."""
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


def rows_of(sample: Sample, rates: Rates, view: ViewState) -> list[Row]:
    """Return the filtered nodes in order; silent ones last, with the reason in ``silent``."""

    def is_wanted(name: str) -> bool:
        return view.only.lower() in name.lower()

    rows = [
        {"forwarded": None, **pulse, **dict.fromkeys(_COUNTERS), **rates.get(pulse["node"], {})}
        for pulse in sorted(sample["nodes"], key=lambda pulse: str(pulse["node"]))
        if is_wanted(pulse["node"])
    ]
    key = COLUMNS[view.sort].key
    if key != "node":
        # What is most is wanted first.
        rows.sort(key=lambda row: -1.0 if row[key] is None else float(row[key]), reverse=not view.turned)
    elif view.turned:
        rows.reverse()
    missing = sorted(sample["missing"].items())
    return [*rows, *({"node": name, "silent": why} for name, why in missing if is_wanted(name))]


# -- the picture


def columns_in(width: int) -> list[Column]:
    """The columns that there is room for."""
    return [column for column in COLUMNS if column.width <= width]


def room_in(height: int, alarms: int) -> int:
    """Return the number of nodes on a page."""
    return max(1, height - LINES - min(alarms, 3))


def alarms_of(sample: Sample) -> list[str]:
    """Return the texts of active alarms, each once."""
    return sorted(
        {alarm["text"] for pulse in sample["nodes"] for alarm in pulse["alarms"] if alarm["active"]}
    )


def picture(
    sample: Sample, rates: Rates, view: ViewState, *, width: int, height: int, busy: Busy | None = None
) -> RenderableType:
    """Draw everything in at most ``height`` lines."""
    if view.helping:
        return _help()
    alarms = alarms_of(sample)
    rows = rows_of(sample, rates, view)
    room = room_in(height, len(alarms))
    at = next((number for number, row in enumerate(rows) if row["node"] == view.chosen), 0)
    page, pages = at // room, max(1, -(-len(rows) // room))
    foot = [Text(f"alarm: {printable(text)}", "bold red", no_wrap=True) for text in alarms[:3]]
    if len(alarms) > 3:
        foot[-1] = Text(f"and {len(alarms) - 2} more alarms: gossamer alarms", "bold red")
    foot += [Text(), _foot(view, page, pages, len(rows))]
    if view.detail and rows:
        body: RenderableType = _detail(rows[at], busy, height - LINES - len(alarms))
    else:
        body = nodes_table(rows[page * room : (page + 1) * room], view, width=width)
    return Group(_title(sample, view), _sums(sample, rates), Text(), body, *foot)


def nodes_table(rows: Sequence[Row], view: ViewState | None, *, width: int) -> Table:
    """A line for each node; without a view as it is printed, not watched."""
    columns = columns_in(width)
    table = _table()
    for at, column in enumerate(columns):
        title = Text(column.title)
        if view is not None and at == view.sort % len(columns):
            title.append("▲" if view.turned != (at == 0) else "▼").stylize("reverse")
        table.add_column(title, justify="right" if at else "left", no_wrap=True)
    table.add_column("SEES", overflow="ellipsis" if view else "fold", no_wrap=view is not None)
    for row in rows:
        style = "reverse" if view is not None and row["node"] == view.chosen else ""
        if "silent" in row:
            blanks = [""] * (len(columns) - 1)
            table.add_row(Text(printable(row["node"]), "red"), *blanks, _silent(row), style=style)
            continue
        name = Text(printable(row["node"]), "green" if row["state"] == "running" else "yellow")
        values = ((column, row[column.key]) for column in columns[1:])
        cells = (Text() if value is None else column.text(value) for column, value in values)
        table.add_row(name, *cells, _sight(row), style=style)
    return table


def _table(*titles: str, right: Sequence[str] = (), rows: Iterable[Sequence[object]] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for title in titles:
        table.add_column(title, no_wrap=True, justify="right" if title in right else "left")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(printable(cell)) for cell in row))
    return table


def _line(text: str = "", style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _title(sample: Sample, view: ViewState) -> Text:
    clock = time.strftime("%H:%M:%S", time.localtime(max(pulse["at"] for pulse in sample["nodes"])))
    answer = len(sample["nodes"])
    text = _line(f"gossamer top  {clock}  ", "bold")
    text.append(
        f"{answer} of {answer + len(sample['missing'])} nodes answer, asked {sample['asked']}", "not bold"
    )
    if view.held:
        text.append("  held: Space goes on", "bold yellow")
    return text


def _sums(sample: Sample, rates: Rates) -> Text:
    text = _line(f"{sum(pulse['connections'] for pulse in sample['nodes']):,} clients")
    if rates:
        received, sent, dropped = (sum(row[name] for row in rates.values()) for name in _COUNTERS)
        text.append(f", {received:,.0f} in/s, {sent:,.0f} out/s, ")
        text.append(f"{dropped:,.0f} dropped/s", "red" if dropped >= 1 else "")
    return text


def _foot(view: ViewState, page: int, pages: int, rows: int) -> Text:
    text = _line(style="dim")
    if view.typing or view.only:
        text.append(f"/{printable(view.only)}{'▏' if view.typing else ''}  ", "not dim bold")
        if not rows:
            text.append("no node has that in its name  ", "not dim yellow")
    if pages > 1:
        text.append(f"page {page + 1} of {pages}  ", "not dim")
    return text.append("q ends, ? helps, ←→ sorts, ↑↓ Enter a node, / filters, Space holds")


def _help() -> Group:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(no_wrap=True, overflow="ellipsis")
    for key, says in KEYS:
        table.add_row(Text(key, "bold"), says)
    return Group(Text("Keys of gossamer top", "bold"), Text(), table, Text(), Text("any key: back", "dim"))


def _detail(row: Row, busy: Busy | None, lines: int) -> Group:
    """Draw one node: its counters, its view of each other one, and its busy processes."""
    if "silent" in row:
        return Group(Text(row["node"], "bold red"), _silent(row))
    facts = (
        f"{row['state']}, {row['version']}, up {age_text(row['uptime'])}, "
        f"{row['sessions']:,} sessions, {row['filters']:,} filters, {row['retained']:,} retained, "
        f"{size_text(row['memory'])}, late {row['loop_lag'] * 1000:.0f} ms, autoheal {row['phase']}"
    )
    peers = [(name, seen) for name, seen in sorted(row["sees"].items()) if seen["link"] != "self"]
    some = max(1, min(len(peers), (lines - 4) // 2))
    links = _table("PEER", "SEEN AS", "LINK", "BYTES TO IT", right=["BYTES TO IT"])
    for name, seen in peers[:some]:
        sent = size_text(row["forwarded_bytes"].get(name, 0))
        links.add_row(name, seen["status"], seen["link"], sent, style="" if _is_well(seen) else "red")
    left = lines - 3 - some
    below = [_busy(busy, left - 1)] if left > 1 else []
    return Group(Text(row["node"], "bold"), _line(facts), links, *below)


def _busy(busy: Busy | None, lines: int) -> RenderableType:
    if busy is None:
        return Text("processes: asking …", "dim")
    numbers = ("PID", "REDUCTIONS/S", "MAILBOX")
    rows = (
        (pid, f"{rate:,.0f}", f"{mailbox:,}", _line(printable(what)))
        for pid, what, rate, mailbox in busy[: min(lines, _BUSY)]
    )
    return _table(*numbers, "PROCESS", right=numbers, rows=rows)


def _silent(row: Row) -> Text:
    return Text(f"silent: {printable(row['silent'])}", "red")


def _is_well(seen: Mapping[str, str]) -> bool:
    return seen["status"] == "online" and seen["link"] == "up"


def _sight(pulse: Row) -> Text:
    """Return the peers in trouble in a node's view; otherwise that all is well."""
    text = Text() if pulse["state"] == "running" else Text(f"{pulse['state']}  ", "yellow")
    for name, seen in pulse["sees"].items():
        if seen["link"] != "self" and seen["status"] != "left" and not _is_well(seen):
            style = "yellow" if seen["status"] in ("online", "suspect") else "red"
            text.append(f"{name} {seen['status']}, link {seen['link']}  ", style)
    return text or Text("all", "green")
