"""``gossamer top``: live activity of every node, once a second, until it is stopped.

Rules: 1. One node is asked, and tells of all.  2. A node that does not answer has a line that says so.  3.
Piped, each sample is printed below the last; with ``--json`` it is one line of JSON.  4. Processes are asked
for while somebody looks at a node, of that node, every few seconds: a walk over them is work for it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice

from rich.live import Live

from gossamer.cli.client import DEFAULT_API, ApiClient, Row
from gossamer.cli.command import Api, Json, option
from gossamer.cli.render.output import json_text, make_console, print_line, printable
from gossamer.cli.render.top_view import (
    Busy,
    Rates,
    Sample,
    ViewState,
    alarms_of,
    columns_in,
    nodes_table,
    picture,
    rates_of,
    room_in,
    rows_of,
)
from gossamer.cli.render.watch import Keyboard
from gossamer.cli.root import example
from gossamer.errors import GossamerError

SILENCE = 15.0
"""Seconds without a sample after which the node is gone."""
LOOK = 0.25
"""Seconds at most between a sample or another size of the terminal, and the picture of it."""
PROCESSES = 3.0
"""Seconds between two looks at the processes of a node."""

_Look = tuple[int, Sample, Rates]
"""The number of a sample, itself, and what came a second since the one before."""


@example("", "--samples 1 --json")
def top(
    api: Api = DEFAULT_API,
    json: Json = False,
    samples: int | None = option(None, "--samples", "Stop after so many (default: never).", min=1),
) -> None:
    """Watch all nodes: clients, message rates, memory, and who sees whom."""
    with ApiClient(api) as client:
        stream: Iterator[Sample] = islice(client.events("live", silence=SILENCE), samples)
        try:
            if json:
                for sample in stream:
                    print_line(json_text(sample))
            elif make_console().is_terminal and sys.stdin.isatty():
                _watch(_looks(stream), api)
            else:
                console = make_console()
                for _, sample, rates in _looks(stream):
                    rows = rows_of(sample, rates, ViewState())
                    console.print(nodes_table(rows, None, width=console.width))
                    for text in alarms_of(sample):
                        console.print(f"alarm: {printable(text)}", markup=False)
        except KeyboardInterrupt:
            # The way to stop it.
            pass


def _looks(stream: Iterator[Sample]) -> Iterator[_Look]:
    before: Sample | None = None
    for number, sample in enumerate(stream):
        yield number, sample, rates_of(before, sample)
        before = sample


class _Latest:
    """The last sample, read by a thread of its own, so that keys are answered at once."""

    def __init__(self, looks: Iterator[_Look]) -> None:
        self.last: _Look | None = None
        self.error: BaseException | None = None
        self.over = threading.Event()
        self._looks = looks
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for look in self._looks:
                self.last = look
        except Exception as error:  # noqa: BLE001 - told by the thread that draws
            self.error = error
        self.over.set()


class _Processes:
    """Which processes of a node work most, between two looks at them, each in a thread of its own."""

    def __init__(self, api: str) -> None:
        self._api = api
        self._node = ""
        self._next = 0.0
        self._before: tuple[float, dict[str, int]] | None = None
        self.busy: Busy | None = None

    def look_at(self, node: str) -> None:
        """At this node now, unless that was lately; at none with an empty name."""
        if node != self._node:
            self._node, self._next, self._before, self.busy = node, 0.0, None, None
        if node and time.monotonic() >= self._next:
            self._next = time.monotonic() + PROCESSES
            threading.Thread(target=self._read, args=(node,), daemon=True).start()

    def _read(self, node: str) -> None:
        try:
            with ApiClient(self._api, node=node) as client:
                found = list(_flat(client.rows("processes", {"fold": 5})))
        except GossamerError as error:
            found, self.busy = [], [("", str(error), 0.0, 0)]
        now = time.monotonic()
        if not found or node != self._node:
            return
        if self._before is not None:
            then, before = self._before
            rates = [
                (
                    row["pid"].strip("<>").rpartition(".")[2],
                    " ".join(filter(None, (row["name"] or row["label"], row["note"]))),
                    max(0, row["reductions"] - before.get(row["pid"], row["reductions"])) / (now - then),
                    row["mailbox"],
                )
                for row in found
            ]
            self.busy = sorted(rates, key=lambda row: (-row[2], -row[3], row[1]))
        self._before = (now, {row["pid"]: row["reductions"] for row in found})


def _flat(rows: list[Row]) -> Iterator[Row]:
    for row in rows:
        yield row
        yield from _flat(row["children"])


def _watch(looks: Iterator[_Look], api: str) -> None:
    latest, processes, view = _Latest(looks), _Processes(api), ViewState()
    console = make_console()
    drawn: object = None
    held: _Look | None = None
    with Keyboard() as keyboard, Live(console=console, auto_refresh=False, screen=True) as live:
        while not view.over:
            key = keyboard.read(LOOK)
            look = held or latest.last
            if look is None:
                if latest.over.is_set() or key == "q":
                    break
                continue
            number, sample, rates = look
            width, height = console.size
            shown = [row["node"] for row in rows_of(sample, rates, view)]
            if key:
                room = room_in(height, len(alarms_of(sample)))
                view = view.press(key, shown=shown, columns=len(columns_in(width)), room=room)
                held = look if view.held else None
            at = view.chosen or next(iter(shown), "")
            processes.look_at(at if view.detail and not view.held else "")
            busy = processes.busy
            now = (number, view, width, height, id(busy))
            if now != drawn:
                live.update(picture(sample, rates, view, width=width, height=height, busy=busy), refresh=True)
                drawn = now
            if latest.over.is_set():
                break
    if latest.error is not None and not view.over:
        raise latest.error
