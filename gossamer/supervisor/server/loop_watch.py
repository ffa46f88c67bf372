"""Loop watch: how late the event loop runs, and who holds it.

A callback that blocks stops every process of the node. The server ticks and measures by how much each
tick is late; a thread looks on from outside, and when a tick is overdue it notes which process runs and
at which line of code, which nobody could tell afterwards. Late ticks are reported by the server, once for
each stall.

Others read ``watch.lag``, the seconds by which the last tick was late, or are told of each stall by ``tell``:
gossip takes it into its local health.

Where the loop's time is not the system's (simulations), no thread is started and nothing is ever late.

What else holds the loop is Python's garbage collector: ``tune_collector`` sets it for a program of many small
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
from gossamer.supervisor.process.entry import Entry
from gossamer.supervisor.process.functions import send_after
from gossamer.supervisor.process.process import Process
from gossamer.supervisor.process.runtime import Runtime
from gossamer.supervisor.server.genserver import GenServer, NoReply, Stop
from gossamer.supervisor.values import Pid

log = structlog.get_logger(__name__)

_TICK = object()
"""The message that the server sends itself."""

_Seen = tuple[Pid | None, str | None, str | None]
"""Who held the loop: its pid, its label, and the line of code."""


class LoopWatch(GenServer):
    """A server that measures how late the event loop runs and reports what blocks it; one for each node."""

    lag: float
    """Seconds by which the last tick was late."""
    worst: float
    """The largest of them."""
    delays: Histogram
    """All of them."""
    stalls: int
    """Ticks that were late enough to be reported."""

    async def init(
        self, *, interval: float = 0.25, stall: float = 0.1, tell: Callable[[float], None] | None = None
    ) -> None:
        """Tick each ``interval`` seconds; report ticks that come more than ``stall`` seconds late."""
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
        """The largest lag since this was last called."""
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
    """The thread that looks on; it only reads, and reads what may change under it with care."""

    def __init__(self, runtime: Runtime, patience: float) -> None:
        super().__init__(name="loop-watch", daemon=True)
        self._runtime = runtime
        self._patience = patience
        self._loop_thread = threading.get_ident()
        self._ticked = threading.Event()
        self._over = False
        self._seen: _Seen | None = None

    def stop(self, entry: Entry) -> None:
        self._over = True
        self._ticked.set()

    def tick(self) -> _Seen | None:
        """The loop runs; gives back what was seen while it did not."""
        seen, self._seen = self._seen, None
        self._ticked.set()
        return seen

    def run(self) -> None:
        while not self._over:
            if self._ticked.wait(self._patience):
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
                # One that is just being spawned is in the table before it has a task.
                if isinstance(entry, Process) and getattr(entry, "task", None) is task is not None:
                    return entry.pid, entry.label, where
        except RuntimeError:
            # The table changed while it was read: the loop runs again.
            pass
        return None, None, where


THRESHOLDS = (50_000, 20, 50)
"""New objects between collections. With Python's own 700 a start and stop of one of 1,000, 10,000 and 50,000
GenServers takes 27, 51 and 85 µs, with the collector off 26; off is no choice, since users' code makes
cycles. With these, 100 times 1,000 children take 142 times the time."""

PAUSES = tuple(Histogram() for _ in THRESHOLDS)
"""Histograms of the seconds that garbage collections took, one for each generation."""


def tune_collector() -> None:
    """Collect garbage less often, and exempt what is loaded by now; to be called when a node starts."""
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
