"""What the operating system knows of this process, under the names that every Prometheus client gives it.

Not that client's own collector: it lists the open files one by one to count them, 25 ms where 10,000 clients
are, and in a thread it holds the interpreter lock against the loop meanwhile. Since Linux 6.2 the size of
``/proc/self/fd`` is how many there are; where it says nothing, they are listed, and ``is_slow`` says so.

Where there is no ``/proc``, there are no numbers.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

__all__ = ["ProcessNumbers"]


class ProcessNumbers(Collector):
    """Prometheus collector of this process's resources; ``proc`` is where ``/proc`` is mounted."""

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

    def collect(self) -> Iterator[Metric]:
        if not self._there:
            return
        # The name of the program may have spaces and brackets in it; behind it are the numbers.
        numbers = (self._proc / "self" / "stat").read_text().rpartition(")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        yield GaugeMetricFamily(
            "process_virtual_memory_bytes", "Virtual memory size in bytes.", float(numbers[20])
        )
        yield GaugeMetricFamily(
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            float(numbers[21]) * resource.getpagesize(),
        )
        yield GaugeMetricFamily(
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            self._boot + float(numbers[19]) / ticks,
        )
        yield CounterMetricFamily(
            "process_cpu_seconds_total",
            "Total user and system CPU time spent in seconds.",
            (float(numbers[11]) + float(numbers[12])) / ticks,
        )
        yield GaugeMetricFamily("process_open_fds", "Number of open file descriptors.", self._open_files())
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        yield GaugeMetricFamily(
            "process_max_fds",
            "Maximum number of open file descriptors.",
            float("inf") if soft == resource.RLIM_INFINITY else soft,
        )

    def _open_files(self) -> int:
        if self.is_slow:
            return len(os.listdir(self._files))  # noqa: PTH208 - 10,000 objects for nothing
        return self._files.stat().st_size
