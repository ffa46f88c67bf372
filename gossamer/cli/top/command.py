"""``gossamer top``: what every node does now, once a second, until it is stopped.

Rules: 1. One node is asked, and tells of all.  2. A node that does not answer has a line that says so.  3.
Piped, each sample is printed below the last; with ``--json`` it is one line of JSON.  4. Processes are asked
for while somebody looks at a node, of that node, every few seconds: a walk over them is work for it.
"""

from __future__ import annotations

import json as jsonlib
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import typer
from rich.live import Live

from gossamer.cli.client import DEFAULT_API, ApiClient
from gossamer.cli.command import Api, Json
from gossamer.cli.render.keyboard import Keyboard
from gossamer.cli.render.table import make_console
from gossamer.cli.root import example
from gossamer.cli.top.view import Busy, alarms_of, columns_in, nodes_table, picture, room_in
from gossamer.cli.top.view_state import Desk, Rates, Sample, rates_of, rows_of
from gossamer.errors import GossamerError

__all__ = ["top"]

PATIENCE = 15.0
"""Seconds without a sample after which the node is gone."""
LOOK = 0.25
"""Seconds at most between a sample or another size of the terminal, and the picture of it."""
PROCESSES = 3.0
"""Seconds between two looks at the processes of a node."""


@example("", "--samples 1 --json")
def top(
    api: Api = DEFAULT_API,
    json: Json = False,
    samples: Annotated[
        int | None, typer.Option("--samples", min=1, help="Stop after so many (default: never).")
    ] = None,
) -> None:
    """Watch all nodes: clients, message rates, queues, loop lag, memory, and who sees whom."""
    with ApiClient(api) as client:
        stream = islice(client.events("live", silence=PATIENCE), samples)
        try:
            if json:
                for sample in stream:
                    sys.stdout.write(jsonlib.dumps(sample) + "\n")
                    sys.stdout.flush()
            elif make_console().is_terminal and sys.stdin.isatty():
                _watch(stream, api)
            else:
                _print(stream)
        except KeyboardInterrupt:
            # The way to stop it.
            pass


def _print(stream: Iterator[Sample]) -> None:
    console = make_console()
    before: Sample | None = None
    for sample in stream:
        console.print(nodes_table(rows_of(sample, rates_of(before, sample), Desk()), None, width=10_000))
        for text in alarms_of(sample):
            console.print(f"alarm: {text}", markup=False)
        before = sample


class _Latest:
    """The last sample, read by a thread of its own, so that keys are answered at once."""

    def __init__(self, stream: Iterator[Sample]) -> None:
        self.last: tuple[int, Sample, Rates] | None = None
        """Its number, itself, and what came a second since the one before."""
        self.error: BaseException | None = None
        self.over = threading.Event()
        self._stream = stream
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            before: Sample | None = None
            for number, sample in enumerate(self._stream):
                self.last = (number, sample, rates_of(before, sample))
                before = sample
        except Exception as error:  # noqa: BLE001 - told by the thread that draws
            self.error = error
        self.over.set()


class _Processes:
    """Which processes of a node work most, between two looks at them."""

    def __init__(self, api: str) -> None:
        self._api = api
        self._wanted = threading.Event()
        self._node = ""
        self._before: tuple[float, dict[str, int]] = (0.0, {})
        self.busy: Busy | None = None
        threading.Thread(target=self._read, daemon=True).start()

    def look_at(self, node: str) -> None:
        """At this node from now on; at none with an empty name."""
        if node != self._node:
            self.busy, self._before = None, (0.0, {})
        self._node = node
        if node:
            self._wanted.set()
        else:
            self._wanted.clear()

    def _read(self) -> None:
        while True:
            self._wanted.wait()
            node = self._node
            try:
                with ApiClient(self._api, node=node) as client:
                    found = list(_flat(client.rows("processes", {"fold": 5})))
            except GossamerError as error:
                found, self.busy = [], [("", str(error), 0.0, 0)]
            if found and node == self._node:
                self._compare(found)
            time.sleep(PROCESSES)

    def _compare(self, found: list[dict[str, Any]]) -> None:
        now, (then, before) = time.monotonic(), self._before
        if before:
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


def _flat(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        yield row
        yield from _flat(row["children"])


def _watch(stream: Iterator[Sample], api: str) -> None:
    latest, desk = _Latest(stream), Desk()
    processes: _Processes | None = None
    console = make_console()
    seen: object = None
    held: tuple[int, Sample, Rates] | None = None
    with Keyboard() as keyboard, Live(console=console, auto_refresh=False, screen=True) as live:
        while not desk.over:
            key = keyboard.read(LOOK)
            look = held or latest.last
            if look is None:
                if latest.over.is_set() or key == "q":
                    break
                continue
            number, sample, rates = look
            width, height = console.size
            room = room_in(height, len(alarms_of(sample)))
            if key:
                shown = [row["node"] for row in rows_of(sample, rates, desk)]
                desk = desk.press(key, shown=shown, columns=len(columns_in(width)), room=room)
                held = look if desk.held else None
            if desk.detail and processes is None:
                processes = _Processes(api)
            if processes is not None:
                first = desk.chosen or next((row["node"] for row in rows_of(sample, rates, desk)), "")
                processes.look_at(first if desk.detail and not desk.held else "")
            busy = processes.busy if processes is not None else None
            now = (number, desk, width, height, id(busy))
            if now != seen:
                live.update(picture(sample, rates, desk, width=width, height=height, busy=busy), refresh=True)
                seen = now
            if latest.over.is_set():
                break
    if latest.error is not None and not desk.over:
        raise latest.error
