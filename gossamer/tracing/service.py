"""Traces, as a node has them: what is told of messages goes to a thread that sends spans to a collector.

Rules: 1. Off, nothing is there: no thread, no list, no question asked of any message.  2. Tracing never ends
its node: when its thread cannot be kept alive, tracing is over, logged and seen in the metrics, and messages
go on.  3. While messages are recorded too, the recorder's sample says which may be traced; else this one's.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import structlog

from gossamer.audit import Auditor
from gossamer.config import TracingConfig
from gossamer.errors import UnavailableError, how_to_install
from gossamer.supervisor import ChildSpec, GenServer, Pid, Reason, Supervisor, describe
from gossamer.tracing.shipper import FAREWELL, Send, Shipper
from gossamer.tracing.spans import SpanBuilder
from gossamer.tracing.traced_buffer import TracedBuffer

log = structlog.get_logger(__name__)

TRACING = "tracing"


class Tracing:
    """Tracing of one node: owns the exporting thread; ``buffer`` is the flow recorder's."""

    def __init__(self, config: TracingConfig, *, auditor: Auditor, buffer: TracedBuffer) -> None:
        self.config = config
        self.buffer = buffer
        self._auditor = auditor
        self.connect: Callable[[], Send] = partial(_otlp, config, auditor.runtime.node)
        """Makes what sends spans, in the thread that does."""
        self.builder = SpanBuilder(auditor.runtime.node, deliveries=config.deliveries)
        self.counts: Counter[str] = Counter()
        """Spans by what became of them: exported, failed, overflow."""

    def check(self) -> None:
        """Check that the OpenTelemetry SDK is installed.

        Raises:
            UnavailableError: it cannot.
        """
        if not (find_spec("opentelemetry") and find_spec("opentelemetry.exporter")):
            raise UnavailableError(
                "tracing.enable: got true, but the OpenTelemetry SDK is not installed; "
                f"switch it off, or {how_to_install('otel')}"
            )

    def spec(self) -> ChildSpec:
        """The subtree that traces, for the node's supervisor."""
        return ChildSpec(
            TRACING, self._start, restart="temporary", shutdown=FAREWELL + 5.0, type="supervisor"
        )

    def share(self) -> float:
        """Return the share of the noted messages that is traced."""
        recorded = self._auditor.config.sample if self._auditor.recording else self.config.sample
        return min(1.0, self.config.sample / recorded) if recorded else 0.0

    def numbers(self) -> dict[str, int]:
        """Spans by what became of them, and rows and messages that came to nothing."""
        return {
            "exported": 0,
            "failed": 0,
            "overflow": 0,
            **self.counts,
            "rows_lost": self.buffer.rows_lost,
            "crowded": self.builder.crowded,
            "forgotten": self.builder.forgotten,
        }

    async def _start(self) -> Pid:
        child = ChildSpec(
            "tracing_shipper",
            partial(_Server.start_link, self, name="tracing_shipper", label="tracing_shipper"),
            shutdown=FAREWELL + 2.0,
        )
        pid = await Supervisor.start_link([child], intensity=5, period=60.0, name=TRACING, label=TRACING)
        self._auditor.trace(self.buffer, share=self.config.sample)
        self._auditor.runtime.join(pid).add_done_callback(self._ended)
        return pid

    def _ended(self, joined: asyncio.Future[Reason]) -> None:
        self._auditor.trace(None)
        reason = joined.result()
        if reason != "shutdown":
            log.error("tracing_ended", reason=describe(reason), advice="restart the node to trace again")


class _Server(GenServer):
    """Owns the thread: crashes when it does, ends it when the node stops."""

    kind = "tracing"

    async def init(self, tracing: Tracing) -> None:
        loop, runtime, me = self.process.loop, self.process.runtime, self.process.pid

        def failed(error: BaseException) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(runtime.exit, me, ("tracing", repr(error)))

        self._shipper = Shipper(tracing, failed)
        self._shipper.thread.start()

    async def terminate(self, reason: Reason) -> None:
        await self.process.loop.run_in_executor(None, self._shipper.end)


def _otlp(config: TracingConfig, node: str) -> Send:
    # Here, since the SDK takes a while to import: the thread that exports does.
    from gossamer.tracing.otlp import OtlpSender

    return OtlpSender(config, node)
