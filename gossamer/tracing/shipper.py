"""The thread that makes spans of rows and sends them to a collector.

Rules: 1. It takes what the loop left for it and touches nothing else of the node.  2. Spans that wait are
bounded; what a collector does not take within its time is lost and counted, and said once, not each time.
3. It ends within :data:`FAREWELL` when it is told to, whatever the collector does.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Protocol

import structlog

from gossamer.tracing.spans import Span, SpanBuilder
from gossamer.tracing.tape import TracedTape

log = structlog.get_logger(__name__)

EVERY = 0.25
"""Seconds between looks at what there is."""
BATCH = 256
"""Spans in a request."""
WAITING = 8_192
"""Spans that wait for the collector at most."""
SLICE = 500
"""Rows taken before others get a turn at the interpreter."""
FAREWELL = 3.0
"""Seconds for the last spans when the node stops."""


class Send(Protocol):
    """Sends spans; False: they did not arrive."""

    def __call__(self, spans: list[Span]) -> bool: ...

    def close(self) -> None:
        """Give up what is under way."""


class Shipper:
    """Thread that makes spans of the tape's rows, and exports them in batches.

    ``connect`` is called in the thread and returns the exporter; ``share`` returns the sampling ratio;
    ``failed`` is called in the thread if it ends with an error.
    """

    def __init__(
        self,
        tape: TracedTape,
        builder: SpanBuilder,
        *,
        connect: Callable[[], Send],
        share: Callable[[], float],
        counts: Counter[str],
        failed: Callable[[BaseException], None],
        endpoint: str,
    ) -> None:
        self._tape = tape
        self._builder = builder
        self._connect = connect
        self._share = share
        self._failed = failed
        self._endpoint = endpoint
        self._waiting: deque[Span] = deque()
        self._send: Send | None = None
        self._over = threading.Event()
        self._silent = False
        self.counts = counts
        """Spans by what became of them: exported, failed, overflow."""
        self.thread = threading.Thread(target=self._run, name="tracing", daemon=True)

    def end(self) -> None:
        """Send what there is, as far as there is time; blocks for :data:`FAREWELL` at most."""
        self._over.set()
        self.thread.join(FAREWELL)
        if self.thread.is_alive() and self._send is not None:
            self._send.close()

    def _run(self) -> None:
        try:
            self._send = self._connect()
            while not self._over.wait(EVERY):
                self.work()
            self.work(last=True)
            self._send.close()
        except Exception as error:  # noqa: BLE001 - told to the process that owns the thread, which crashes of it
            self._failed(error)

    def work(self, *, last: bool = False) -> None:
        """Make spans of what was noted and send those that are complete, or all of them."""
        rows = self._tape.rows
        self._builder.share = self._share()
        while rows:
            self._builder.feed(self._some(rows))
            # The loop first: mapping is work for the same interpreter.
            time.sleep(0)
        for span in self._builder.flush(None if last else self._tape.now()):
            if len(self._waiting) >= WAITING:
                self.counts["overflow"] += 1
            else:
                self._waiting.append(span)
        while self._waiting and self._ship():
            pass

    @staticmethod
    def _some(rows: deque[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [rows.popleft() for _ in range(min(SLICE, len(rows)))]

    def _ship(self) -> bool:
        assert self._send is not None  # noqa: S101
        batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
        done = self._send(batch)
        self.counts["exported" if done else "failed"] += len(batch)
        if done == self._silent:
            self._silent = not done
            if done:
                log.info("tracing_resumed", endpoint=self._endpoint, lost=self.counts["failed"])
            else:
                log.warning(
                    "tracing_fails",
                    endpoint=self._endpoint,
                    advice="spans are lost until the collector answers; messages are not",
                )
        return done
