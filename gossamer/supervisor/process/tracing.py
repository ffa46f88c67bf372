"""Tracing of the messages and signals that a process receives and sends, as they happen.

A *tap* is called with an event and its subject, in the turn in which it happens:

======== =========================== ==============================================
in       ``receive``                 the message, a ``Cast`` or a ``Caller``
..       ``dropped``                 the same, but the mailbox is full
..       ``signal``                  an ``Exit`` or a ``Down``
..       ``answer`` ``failure``      ``Sent(from whom, value or reason)`` of a call
out      ``send`` ``call``           ``Sent(to whom, message)``
..       ``reply``                   ``Sent(to the caller, value)``
..       ``exit``                    ``Sent(to whom, reason)``
..       ``link`` ``unlink``         the pid
..       ``monitor`` ``demonitor``   whom, the reference
..       ``spawn``                   ``Sent(the child, its label)``
the end  ``end``                     the reason; the taps are then removed
======== =========================== ==============================================

Rules: 1. It costs nothing while it is off. A traced mailbox has its bound set to zero, so every delivery
takes the slow path in; and while anything of a runtime is traced, ``reach``, the senders' first lookup, is
empty, so every message takes the slow path out.  2. Any number of independent taps; one that raises is
removed and the process continues.  3. A tap sees live objects and must not change them; ``Trace`` formats
them as lines at once, bounded in number.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

import structlog
from msgspec import Struct

from gossamer.supervisor.errors import NoSuchProcess, TooManyTraces
from gossamer.supervisor.process.calls import Caller, Sent, Tracer
from gossamer.supervisor.process.entry import ProcessEntry
from gossamer.supervisor.process.process import Process
from gossamer.supervisor.process.runtime import Runtime
from gossamer.supervisor.rendering import SafeText, rendered
from gossamer.supervisor.values import Cast, Destination, Down, Exit, describe

log = structlog.get_logger(__name__)

BACKLOG = 1000
"""Maximum number of lines that wait for a reader; more are dropped and counted."""

TRACES = 16
"""Maximum number of readers of one runtime: each of them slows the node down."""


class _Taps(Struct, eq=False):
    """Taps of one process."""

    entry: ProcessEntry
    taps: list[Tracer] = []

    def __call__(self, event: str, about: object) -> None:
        for tap in tuple(self.taps):
            try:
                tap(event, about)
            except Exception:
                log.exception("tap_failed", pid=str(self.entry.pid), label=self.entry.label)
                detach(self.entry, tap)
        if event == "receive" and isinstance(about, Caller):
            about.follow(self)
        elif event == "end":
            clear(self.entry)


def attach(entry: ProcessEntry, tap: Tracer) -> None:
    """Call ``tap`` with the events of ``entry`` from now on."""
    taps = entry.tracer
    if not isinstance(taps, _Taps):
        taps = entry.tracer = _Taps(entry)
        entry.runtime.traced += 1
        entry.runtime.reach = {}
        if isinstance(entry, Process):
            entry.limit = 0
    taps.taps.append(tap)


def detach(entry: ProcessEntry, tap: Tracer) -> None:
    """Remove a tap; a second time does nothing."""
    taps = entry.tracer
    if not isinstance(taps, _Taps) or tap not in taps.taps:
        return
    taps.taps.remove(tap)
    if taps.taps:
        return
    entry.tracer = None
    if isinstance(entry, Process):
        entry.limit = entry.overflow
    runtime = entry.runtime
    runtime.traced -= 1
    if runtime.traced == 0:
        runtime.reach = runtime.table


def clear(entry: ProcessEntry) -> None:
    """Remove all taps."""
    taps = entry.tracer
    for tap in tuple(taps.taps) if isinstance(taps, _Taps) else ():
        detach(entry, tap)


class TraceLine(Struct, frozen=True):
    """Traced event as text; ``at`` is the reader's clock, ``way`` is in, out or empty."""

    at: float
    event: str
    way: str
    peer: str
    text: str


async def follow(
    runtime: Runtime,
    destination: Destination,
    *,
    now: Callable[[], float],
    seconds: float | None = None,
    limit: int | None = None,
    pulse: float | None = None,
) -> AsyncGenerator[TraceLine | None, None]:
    """Yield a local process's events as lines, until it ends, or ``seconds`` or ``limit`` is reached.

    The first line, ``tracing``, comes at once, the last is ``end`` or ``over``. None is yielded after
    ``pulse`` seconds without an event. Closing the iterator removes the tap.

    Raises:
        NoSuchProcess: there is no such process.
        TooManyTraces: too many others trace this runtime.
    """
    entry = runtime.find(destination)
    if entry is None:
        raise NoSuchProcess(destination, runtime.node)
    if runtime.traced >= TRACES:
        raise TooManyTraces(TRACES)
    reader = _Reader(now)
    attach(entry, reader.take)
    try:
        yield TraceLine(now(), "tracing", "", str(entry.pid), entry.label)
        until = None if seconds is None else runtime.loop.time() + seconds
        lines = 0
        while True:
            left = None if until is None else until - runtime.loop.time()
            if left is not None and left <= 0:
                yield TraceLine(now(), "over", "", "", f"after {seconds:g} s; the process lives on")
                return
            line = await reader.next(left if pulse is None else min(pulse, left or pulse))
            if line is None:
                yield None
                continue
            yield line
            if line.event == "end":
                return
            lines += 1
            if lines == limit:
                yield TraceLine(now(), "over", "", "", f"after {lines} lines; the process lives on")
                return
    finally:
        detach(entry, reader.take)


class _Reader:
    """Tap that turns events into lines, and buffers them for the reader."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lines: asyncio.Queue[TraceLine] = asyncio.Queue()
        self._lost = 0

    def take(self, event: str, about: object) -> None:
        if self._lines.qsize() >= BACKLOG and event != "end":
            self._lost += 1
            return
        if event == "end":
            self._note_lost()
        self._lines.put_nowait(_line(self._now(), event, about))

    async def next(self, timeout: float | None) -> TraceLine | None:
        if self._lines.empty():
            self._note_lost()
        try:
            async with asyncio.timeout(timeout):
                return await self._lines.get()
        except TimeoutError:
            return None

    def _note_lost(self) -> None:
        if self._lost:
            text = f"{self._lost} lines: they came faster than they were read"
            self._lines.put_nowait(TraceLine(self._now(), "lost", "", "", text))
            self._lost = 0


def _line(at: float, event: str, about: object) -> TraceLine:
    peer = ""
    if isinstance(about, Sent):
        peer, about = _whom(about.to), about.message
    elif isinstance(about, Caller):
        event = event if event == "dropped" else "call"
        peer, about = "" if about.pid is None else str(about.pid), about.request
        return TraceLine(at, event, "in", peer, rendered(about))
    elif isinstance(about, Exit):
        return TraceLine(at, "exit", "in", str(about.source), _reason(about.reason))
    elif isinstance(about, Down):
        return TraceLine(at, "down", "in", "" if about.pid is None else str(about.pid), _reason(about.reason))
    elif event in ("link", "unlink", "monitor", "demonitor"):
        return TraceLine(at, event, "out", _whom(about), "")
    if event == "end":
        return TraceLine(at, "end", "", "", _reason(about))
    if event in ("exit", "failure"):
        return TraceLine(at, event, "out" if event == "exit" else "in", peer, _reason(about))
    if isinstance(about, SafeText) and event in ("receive", "send"):
        return TraceLine(at, "bytes", "in" if event == "receive" else "out", "", rendered(about))
    way = "in" if event in ("receive", "dropped", "answer") else "out"
    if type(about) is Cast and event in ("receive", "send"):
        event, about = "cast", about.request
    return TraceLine(at, event, way, peer, rendered(about))


def _whom(destination: object) -> str:
    if isinstance(destination, tuple):
        return " on ".join(map(str, destination))
    return str(destination)


def _reason(reason: object) -> str:
    text = describe(reason)
    return text if len(text) <= 200 else text[:199] + "…"
