"""The thread that makes spans of rows and sends them to a collector.

Rules: 1. It takes what the loop left for it and touches nothing else of the node.  2. Spans that wait are
bounded; what a collector does not take within its time is lost and counted, and said once, not each time.
3. It ends within :data:`FAREWELL` when it is told to, whatever the collector does.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import structlog

from gossamer.audit import Row
from gossamer.tracing.spans import Span

if TYPE_CHECKING:
    from gossamer.tracing.service import Tracing

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
    """Thread that makes spans of the buffer's rows, and exports them in batches.

    ``tracing`` has the buffer and the rest; ``failed`` is called in the thread if it ends with an error.
    """

    def __init__(self, tracing: Tracing, failed: Callable[[BaseException], None]) -> None:
        self._tracing = tracing
        self._failed = failed
        self._waiting: deque[Span] = deque()
        self._send: Send | None = None
        self._over = threading.Event()
        self._silent = False
        self.thread = threading.Thread(target=self._run, name="tracing", daemon=True)

    def end(self) -> None:
        """Send what there is, as far as there is time; blocks for :data:`FAREWELL` at most."""
        self._over.set()
        self.thread.join(FAREWELL)
        if self.thread.is_alive() and self._send is not None:
            self._send.close()

    def _run(self) -> None:
        try:
            self._send = self._tracing.connect()
            while not self._over.wait(EVERY):
                self.work()
            self.work(last=True)
            self._send.close()
        except Exception as error:  # noqa: BLE001 - told to the process that owns the thread, which crashes of it
            self._failed(error)

    def work(self, *, last: bool = False) -> None:
        """Make spans of what was noted and send those that are complete, or all of them."""
        buffer, builder = self._tracing.buffer, self._tracing.builder
        rows = buffer.rows
        builder.share = self._tracing.share()
        while rows:
            builder.feed(self._some(rows))
            # The loop first: mapping is work for the same interpreter.
            time.sleep(0)
        for span in builder.flush(None if last else buffer.now()):
            if len(self._waiting) >= WAITING:
                self._tracing.counts["overflow"] += 1
            else:
                self._waiting.append(span)
        while self._waiting and self._ship():
            pass

    @staticmethod
    def _some(rows: deque[Row]) -> list[Row]:
        return [rows.popleft() for _ in range(min(SLICE, len(rows)))]

    def _ship(self) -> bool:
        assert self._send is not None  # noqa: S101
        batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
        done = self._send(batch)
        counts, endpoint = self._tracing.counts, self._tracing.config.endpoint
        counts["exported" if done else "failed"] += len(batch)
        if done == self._silent:
            self._silent = not done
            if done:
                log.info("tracing_resumed", endpoint=endpoint, lost=counts["failed"])
            else:
                log.warning(
                    "tracing_fails",
                    endpoint=endpoint,
                    advice="spans are lost until the collector answers; messages are not",
                )
        return done
