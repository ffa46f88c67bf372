"""Loop watch: measures the event loop's lag, and finds the code that blocks it.

A callback that blocks stops every process of the node. The server ticks and measures the delay of each
tick; a thread watches from outside, and when a tick is overdue it records the running process and its line of
code, which could not be found afterwards. The server reports late ticks, once per stall.

Others read ``watch.lag``, the delay of the last tick in seconds, or get each stall by ``tell``: gossip
includes it in its local health.

If the loop's time is not the system's (simulations), no thread is started and nothing is ever late.

Python's garbage collector also blocks the loop: ``tune_collector`` tunes it for a program of many small
long-lived objects, and measures its pauses.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable

import structlog

from gossamer.histogram import Histogram
from gossamer.supervisor.process.entry import ProcessEntry
from gossamer.supervisor.process.functions import send_after
from gossamer.supervisor.process.process import Process
from gossamer.supervisor.process.runtime import Runtime
from gossamer.supervisor.server.genserver import GenServer, NoReply, Stop
from gossamer.supervisor.values import Pid

log = structlog.get_logger(__name__)

_TICK = object()
"""Message that the server sends itself."""

_Seen = tuple[Pid | None, str | None, str | None]
"""Process that blocked the loop: pid, label, and line of code."""


class LoopWatch(GenServer):
    """Server that measures the event loop's lag and reports what blocks it; one per node."""

    lag: float
    """Delay of the last tick in seconds."""
    worst: float
    """Largest delay in seconds."""
    delays: Histogram
    """Histogram of all delays."""
    stalls: int
    """Number of ticks late enough to be reported."""

    async def init(
        self, *, interval: float = 0.25, stall: float = 0.1, tell: Callable[[float], None] | None = None
    ) -> None:
        """Tick every ``interval`` seconds; report ticks more than ``stall`` seconds late."""
        self._tell = tell
        self.lag = self.worst = self._peak = 0.0
        self.delays = Histogram()
        self.stalls = 0
        self._interval, self._stall = interval, stall
        loop = self.process.loop
        self._due = loop.time() + interval
        self._witness: _Witness | None = None
        if abs(loop.time() - time.monotonic()) < 1.0:
            self._witness = _Witness(self.process.runtime, interval + stall)
            self.process.on_release(self._witness.stop)
            self._witness.start()
        send_after(interval, self.process.pid, _TICK)

    def take_peak(self) -> float:
        """Return the largest lag since the last call."""
        peak, self._peak = self._peak, 0.0
        return peak

    async def handle_info(self, message: object) -> NoReply | Stop | None:
        if message is not _TICK:
            return await super().handle_info(message)
        now = self.process.loop.time()
        self.lag = max(0.0, now - self._due)
        self.worst = max(self.worst, self.lag)
        self._peak = max(self._peak, self.lag)
        self.delays.observe(self.lag)
        seen = None if self._witness is None else self._witness.tick()
        if self.lag > self._stall:
            self.stalls += 1
            if self._tell is not None:
                self._tell(self.lag)
            pid, label, where = seen or (None, None, None)
            log.warning(
                "loop_stalled",
                seconds=round(self.lag, 3),
                pid=None if pid is None else str(pid),
                label=label,
                where=where,
                advice="a callback blocked the loop; give such work to a thread",
            )
        self._due = now + self._interval
        send_after(self._interval, self.process.pid, _TICK)
        return None


class _Witness(threading.Thread):
    """Observer thread; it only reads, and tolerates concurrent changes."""

    def __init__(self, runtime: Runtime, lateness: float) -> None:
        super().__init__(name="loop-watch", daemon=True)
        self._runtime = runtime
        self._lateness = lateness
        self._loop_thread = threading.get_ident()
        self._ticked = threading.Event()
        self._over = False
        self._seen: _Seen | None = None

    def stop(self, entry: ProcessEntry) -> None:
        self._over = True
        self._ticked.set()

    def tick(self) -> _Seen | None:
        """Record that the loop runs; return what was seen while it did not."""
        seen, self._seen = self._seen, None
        self._ticked.set()
        return seen

    def run(self) -> None:
        while not self._over:
            if self._ticked.wait(self._lateness):
                self._ticked.clear()
            elif self._seen is None:
                self._seen = self._look()

    def _look(self) -> _Seen:
        frame = sys._current_frames().get(self._loop_thread)
        where = None
        if frame is not None:
            lines = traceback.extract_stack(frame)[-4:]
            where = " < ".join(f"{line.filename}:{line.lineno} {line.name}" for line in reversed(lines))
        try:
            task = asyncio.current_task(self._runtime.loop)
            for entry in tuple(self._runtime.table.values()):
                # A process that is being spawned is in the table before it has a task.
                if isinstance(entry, Process) and getattr(entry, "task", None) is task is not None:
                    return entry.pid, entry.label, where
        except RuntimeError:
            # The table changed during the read: the loop runs again.
            pass
        return None, None, where


THRESHOLDS = (50_000, 20, 50)
"""New objects between collections. With Python's default of 700 a start and stop of one of 1,000, 10,000 and
50,000 GenServers takes 27, 51 and 85 µs, with the collector off 26; off is no option, since users' code
creates cycles. With these, 100 times 1,000 children take 142 times the time."""

PAUSES = tuple(Histogram() for _ in THRESHOLDS)
"""Histograms of garbage collection times in seconds, one per generation."""


def tune_collector() -> None:
    """Collect garbage less often, and exempt objects loaded by now; called when a node starts."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    if _measure not in gc.callbacks:
        gc.callbacks.append(_measure)


_begun = 0.0


def _measure(phase: str, info: dict[str, int]) -> None:
    global _begun
    if phase == "start":
        _begun = time.perf_counter()
    else:
        PAUSES[info["generation"]].observe(time.perf_counter() - _begun)
