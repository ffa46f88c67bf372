"""The picture of ``gossamer top``, as large as the terminal, drawn from a sample and a desk; pure."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gossamer.cli.render.output import printable, size_text
from gossamer.cli.top.view_state import COLUMNS, KEYS, Column, Desk, Rates, Sample, rows_of

__all__ = ["LINES", "columns_in", "picture", "room_in"]

LINES = 7
"""Lines that are no rows of nodes, where nothing is wrong."""
_BUSY = 12
Busy = Sequence[tuple[str, str, float, int]]
"""Processes: pid, what it is, reductions a second, mailbox."""


def columns_in(width: int) -> list[Column]:
    """The columns that there is room for."""
    return [column for column in COLUMNS if column.least <= width]


def room_in(height: int, alarms: int) -> int:
    """How many nodes are on a page."""
    return max(1, height - LINES - min(alarms, 3))


def alarms_of(sample: Sample) -> list[str]:
    """What lasts, each once."""
    return sorted(
        {alarm["text"] for pulse in sample["nodes"] for alarm in pulse["alarms"] if alarm["active"]}
    )


def picture(
    sample: Sample, rates: Rates, desk: Desk, *, width: int, height: int, busy: Busy | None = None
) -> RenderableType:
    """All of it, in at most ``height`` lines."""
    if desk.helping:
        return _help()
    alarms = alarms_of(sample)
    rows = rows_of(sample, rates, desk)
    room = room_in(height, len(alarms))
    pages = max(1, -(-len(rows) // room))
    page = min(desk.page, pages - 1)
    head = [_title(sample, rates, desk), _sums(sample, rates), Text()]
    foot = [Text(f"alarm: {printable(text)}", "bold red", no_wrap=True) for text in alarms[:3]]
    if len(alarms) > 3:
        foot[-1] = Text(f"and {len(alarms) - 2} more alarms: gossamer alarms", "bold red")
    foot += [Text(), _foot(desk, page, pages, len(rows))]
    if desk.detail and (row := _chosen(rows, desk)) is not None:
        body: RenderableType = _detail(row, sample, busy, height - LINES - len(alarms))
    else:
        body = nodes_table(rows[page * room : (page + 1) * room], desk, width=width)
    return Group(*head, body, *foot)


def nodes_table(rows: Sequence[Mapping[str, Any]], desk: Desk | None, *, width: int) -> Table:
    """A line for each node; without a desk as it is printed, not watched."""
    columns = columns_in(width)
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for at, column in enumerate(columns):
        title = Text(column.title)
        if desk is not None and at == desk.sort % len(columns):
            title.append("▲" if desk.turned != (at == 0) else "▼").stylize("reverse")
        table.add_column(title, justify="right" if at else "left", no_wrap=True)
    table.add_column("SEES", overflow="ellipsis" if desk else "fold", no_wrap=desk is not None)
    for row in rows:
        here = desk is not None and row["node"] == desk.chosen
        style = "reverse" if here else ""
        if "silent" in row:
            blanks = [""] * (len(columns) - 1)
            said = Text(f"silent: {printable(row['silent'])}", "red")
            table.add_row(Text(row["node"], "red"), *blanks, said, style=style)
            continue
        table.add_row(*(_cell(row, column.key) for column in columns), sight(row), style=style)
    return table


def _cell(row: Mapping[str, Any], key: str) -> Text:
    value = row[key]
    match key:
        case "node":
            return Text(value, "green" if row["state"] == "running" else "yellow")
        case _ if value is None:
            return Text()
        case "loop_lag":
            return Text(f"{value * 1000:.0f} ms", "red" if value > 0.1 else "")
        case "memory" | "queued_bytes" | "forwarded":
            return Text(size_text(int(value)))
        case "uptime":
            return Text(_span(value))
        case "dropped":
            return Text(f"{value:,.0f}", "red" if value >= 1 else "")
    return Text(f"{value:,.0f}")


def _span(seconds: float) -> str:
    """How long a node lives, coarse."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def _title(sample: Sample, rates: Rates, desk: Desk) -> Text:
    clock = time.strftime("%H:%M:%S", time.localtime(max(p["at"] for p in sample["nodes"])))
    nodes = len(sample["nodes"]) + len(sample["missing"])
    text = Text(f"gossamer top  {clock}  ", "bold", no_wrap=True, overflow="ellipsis")
    text.append(f"{len(sample['nodes'])} of {nodes} nodes answer, asked {sample['asked']}", "not bold")
    if desk.held:
        text.append("  held: Space goes on", "bold yellow")
    return text


def _sums(sample: Sample, rates: Rates) -> Text:
    clients = sum(pulse["connections"] for pulse in sample["nodes"])
    sums = {name: sum(row[name] for row in rates.values()) for name in ("received", "sent", "dropped")}
    text = Text(f"{clients:,} clients", no_wrap=True, overflow="ellipsis")
    if rates:
        text.append(f", {sums['received']:,.0f} in/s, {sums['sent']:,.0f} out/s, ")
        text.append(f"{sums['dropped']:,.0f} dropped/s", "red" if sums["dropped"] >= 1 else "")
    return text


def _foot(desk: Desk, page: int, pages: int, rows: int) -> Text:
    text = Text(style="dim", no_wrap=True, overflow="ellipsis")
    if desk.typing or desk.only:
        text.append(f"/{printable(desk.only)}{'▏' if desk.typing else ''}  ", "not dim bold")
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


def _chosen(rows: Sequence[Mapping[str, Any]], desk: Desk) -> Mapping[str, Any] | None:
    named = [row for row in rows if row["node"] == desk.chosen] or rows[:1]
    return named[0] if named else None


def _detail(row: Mapping[str, Any], sample: Sample, busy: Busy | None, lines: int) -> Group:
    """One node: what it counts, how it sees each other one, and which processes are busy."""
    if "silent" in row:
        return Group(Text(row["node"], "bold red"), Text(f"silent: {printable(row['silent'])}", "red"))
    facts = (
        f"{row['state']}, {row['version']}, up {_span(row['uptime'])}, "
        f"{row['sessions']:,} sessions, {row['filters']:,} filters, {row['retained']:,} retained, "
        f"{size_text(row['memory'])}, late {row['loop_lag'] * 1000:.0f} ms, autoheal {row['phase']}"
    )
    links = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("PEER", "SEEN AS", "LINK", "BYTES TO IT"):
        links.add_column(title, no_wrap=True, justify="right" if title == "BYTES TO IT" else "left")
    peers = [(name, seen) for name, seen in sorted(row["sees"].items()) if seen["link"] != "self"]
    some = max(1, min(len(peers), (lines - 4) // 2))
    for name, seen in peers[:some]:
        bad = seen["status"] != "online" or seen["link"] != "up"
        sent = size_text(row["forwarded_bytes"].get(name, 0))
        links.add_row(name, seen["status"], seen["link"], sent, style="red" if bad else "")
    parts: list[RenderableType] = [Text(row["node"], "bold"), Text(facts, no_wrap=True, overflow="ellipsis")]
    parts.append(links)
    left = lines - 3 - some
    if left > 1:
        parts.append(_busy(busy, left - 1))
    return Group(*parts)


def _busy(busy: Busy | None, lines: int) -> RenderableType:
    if busy is None:
        return Text("processes: asking …", "dim")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("PID", "REDUCTIONS/S", "MAILBOX", "PROCESS"):
        table.add_column(title, no_wrap=True, justify="left" if title == "PROCESS" else "right")
    for pid, what, rate, mailbox in busy[: min(lines, _BUSY)]:
        table.add_row(pid, f"{rate:,.0f}", f"{mailbox:,}", Text(printable(what), overflow="ellipsis"))
    return table


def sight(pulse: Mapping[str, Any]) -> Text:
    """Who is not seen well; all is well otherwise."""
    text = Text() if pulse["state"] == "running" else Text(f"{pulse['state']}  ", "yellow")
    for name, seen in pulse["sees"].items():
        if seen["link"] == "self" or seen["status"] == "left":
            continue
        if seen["status"] != "online" or seen["link"] != "up":
            style = "yellow" if seen["status"] in ("online", "suspect") else "red"
            text.append(f"{name} {seen['status']}, link {seen['link']}  ", style)
    return text if text else Text("all", "green")
