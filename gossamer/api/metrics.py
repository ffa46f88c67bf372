"""Metrics as Prometheus reads them: the node's own, and those of its process.

The node keeps plain integers where things happen and hands them over when asked, so that counting costs an
addition and nothing below this package knows of Prometheus.

Rule: a scrape is cut into pieces of :data:`PIECE` families, and others get their turn of the loop between
them: the page of a large cluster takes longer to write than a message may wait.
"""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from gossamer.api.view import NodeView

PIECE = 12
"""Families that are written in one turn."""


class Exposition:
    """The page behind ``/metrics``: the node's numbers, and the memory, time and files of its process."""

    def __init__(self, view: NodeView) -> None:
        self._view = view
        self._numbers = ProcessNumbers()

    async def render(self) -> bytes:
        """The text format, version 1."""
        await self._view.count()
        if self._numbers.is_slow:
            parts = [await asyncio.to_thread(generate_latest, self._numbers)]
        else:
            parts = [generate_latest(self._numbers)]
        metrics = iter(self._view.metrics())
        while piece := [metric.family for metric in islice(metrics, PIECE)]:
            parts.append(generate_latest(_Given(piece)))
            await asyncio.sleep(0)
        return b"".join(parts)


class _Given(Collector):
    """Collector of given families."""

    def __init__(self, families: list[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


class ProcessNumbers(Collector):
    """Operating-system metrics of this process, with the usual names of Prometheus clients.

    ``proc`` is where ``/proc`` is mounted; without one there are no numbers. Not that client's own collector:
    it lists the open files one by one to count them, 25 ms where 10,000 clients are, and in a thread it holds
    the interpreter lock against the loop meanwhile. Since Linux 6.2 the size of ``/proc/self/fd`` is how many
    there are; where it says nothing, they are listed, and ``is_slow`` says so.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._files = proc / "self" / "fd"
        try:
            self._boot = next(
                float(line.split()[1])
                for line in (proc / "stat").read_text().splitlines()
                if line.startswith("btime ")
            )
            self._there = True
            self.is_slow = not self._files.stat().st_size
        except (OSError, StopIteration):
            self._there = self.is_slow = False

    def collect(self) -> Iterator[Family]:
        if not self._there:
            return
        # The name of the program may have spaces and brackets in it; behind it are the numbers.
        numbers = (self._proc / "self" / "stat").read_text().rpartition(")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        started = self._boot + float(numbers[19]) / ticks
        spent = float(numbers[11]) / ticks + float(numbers[12]) / ticks
        resident = float(numbers[21]) * resource.getpagesize()
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = float("inf") if soft == resource.RLIM_INFINITY else soft
        gauge, counter = GaugeMetricFamily, CounterMetricFamily
        yield gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", float(numbers[20]))
        yield gauge("process_resident_memory_bytes", "Resident memory size in bytes.", resident)
        yield gauge(
            "process_start_time_seconds", "Start time of the process since unix epoch in seconds.", started
        )
        yield counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", spent)
        yield gauge("process_open_fds", "Number of open file descriptors.", self._open_files())
        yield gauge("process_max_fds", "Maximum number of open file descriptors.", most)

    def _open_files(self) -> int:
        if self.is_slow:
            return len(os.listdir(self._files))  # noqa: PTH208 - 10,000 objects for nothing
        return self._files.stat().st_size
