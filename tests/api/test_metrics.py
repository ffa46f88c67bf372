"""What the operating system knows of the process, told as every Prometheus client tells it."""

import os
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector

from gossamer.api import ProcessNumbers

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")


def told(collector):
    return {
        family.name: (family.type, family.documentation, family.samples[0].value)
        for family in collector.collect()
    }


def test_the_numbers_are_those_of_every_prometheus_client():
    ours, theirs = told(ProcessNumbers()), told(ProcessCollector(registry=CollectorRegistry()))
    assert {name: family[:2] for name, family in ours.items()} == {
        name: family[:2] for name, family in theirs.items()
    }
    for name in ("process_start_time_seconds", "process_max_fds"):
        assert ours[name] == theirs[name]
    for name in ("process_resident_memory_bytes", "process_virtual_memory_bytes"):
        assert ours[name][2] == pytest.approx(theirs[name][2], rel=0.2)
    assert ours["process_cpu_seconds"][2] <= theirs["process_cpu_seconds"][2]


def test_open_files_are_counted_whether_the_kernel_counts_them_or_not():
    numbers = ProcessNumbers()
    for slow in (True, numbers.is_slow):
        numbers.is_slow = slow
        before = told(numbers)["process_open_fds"][2]
        held = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]
        try:
            assert told(numbers)["process_open_fds"][2] == before + 20
        finally:
            for file in held:
                os.close(file)


def test_without_proc_there_are_no_numbers(tmp_path):
    numbers = ProcessNumbers(tmp_path)
    assert not numbers.is_slow
    assert told(numbers) == {}
