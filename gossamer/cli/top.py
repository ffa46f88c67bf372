"""``gossamer top``: what every node does now, once a second, until it is stopped.

Rules: 1. One node is asked, and tells of all.  2. A node that does not answer has a line that says so.  3.
Piped, each sample is printed below the last; with ``--json`` it is one line of JSON.
"""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gossamer.cli.client import DEFAULT_API, ApiClient
from gossamer.cli.options import Api, Json
from gossamer.cli.output import printable, size_text
from gossamer.config import format_duration

__all__ = ["rates_of", "top"]

PATIENCE = 15.0
"""Seconds without a sample after which the node is gone."""
_UNLIMITED = 10_000
_WIDE = 110
"""Columns of a terminal from which on there is room for more."""
_COUNTERS = ("received", "sent", "dropped")
Sample = Mapping[str, Any]
Rates = dict[str, dict[str, float]]


def top(
    api: Api = DEFAULT_API,
    json: Json = False,
    samples: Annotated[
        int | None, typer.Option("--samples", min=1, help="Stop after so many (default: never).")
    ] = None,
) -> None:
    """Watch all nodes: clients, messages a second, queues, lateness, memory, and who sees whom."""
    with ApiClient(api) as client:
        stream = islice(client.events("/api/v1/live", patience=PATIENCE), samples)
        try:
            if json:
                for sample in stream:
                    sys.stdout.write(jsonlib.dumps(sample) + "\n")
                    sys.stdout.flush()
            else:
                _show(stream)
        except KeyboardInterrupt:
            # The way to stop it.
            pass


def _show(stream: Iterator[Sample]) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _UNLIMITED)
    before: Sample | None = None
    if not console.is_terminal:
        for sample in stream:
            console.print(_screen(sample, rates_of(before, sample), wide=True))
            before = sample
        return
    with Live(console=console, auto_refresh=False, screen=False) as live:
        for sample in stream:
            wide = console.width >= _WIDE
            live.update(_screen(sample, rates_of(before, sample), wide=wide), refresh=True)
            before = sample


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


def _screen(sample: Sample, rates: Rates, *, wide: bool) -> Group:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    table.add_column("NODE", no_wrap=True)
    columns = ["CLIENTS", "IN/S", "OUT/S", "DROP/S", "LATE", "MEMORY"]
    if wide:
        columns += ["QUEUED", "TO PEERS/S", "UP"]
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("SEES", overflow="fold")
    for pulse in sorted(sample["nodes"], key=lambda row: str(row["node"])):
        rate = rates.get(pulse["node"], {})
        late = pulse["loop_lag"]
        cells: list[Text | str] = [
            f"{pulse['connections']:,}",
            *(f"{rate[name]:,.0f}" if rate else "" for name in _COUNTERS),
            Text(f"{late * 1000:.0f} ms", "red" if late > 0.1 else ""),
            size_text(pulse["memory"]),
        ]
        if wide:
            cells += [
                size_text(pulse["queued_bytes"]),
                size_text(int(rate["forwarded"])) if rate else "",
                format_duration(float(int(pulse["uptime"]))),
            ]
        style = "green" if pulse["state"] == "running" else "yellow"
        table.add_row(Text(pulse["node"], style), *cells, _sight(pulse))
    for name, why in sorted(sample["missing"].items()):
        table.add_row(Text(name, "red"), *[""] * len(columns), Text(f"silent: {printable(why)}", "red"))
    alarms = {alarm["text"] for pulse in sample["nodes"] for alarm in pulse["alarms"] if alarm["active"]}
    return Group(table, *(Text(f"alarm: {printable(text)}", "bold red") for text in sorted(alarms)))


def _sight(pulse: Mapping[str, Any]) -> Text:
    """Who is not seen well; all is well otherwise."""
    text = Text() if pulse["state"] == "running" else Text(f"{pulse['state']}  ", "yellow")
    for name, seen in pulse["sees"].items():
        if seen["link"] == "self" or seen["status"] == "left":
            continue
        if seen["status"] != "online" or seen["link"] != "up":
            style = "yellow" if seen["status"] in ("online", "suspect") else "red"
            text.append(f"{name} {seen['status']}, link {seen['link']}  ", style)
    return text if text else Text("all", "green")
