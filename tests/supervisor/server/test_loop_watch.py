"""The loop watch: who holds the loop."""

from __future__ import annotations

import asyncio
import gc
import time

from structlog.testing import capture_logs

from gossamer.supervisor import LoopWatch, Pid, Runtime, get_state, tune_collector
from gossamer.supervisor.process.process import Process
from tests.supervisor.harness import Worker


class Blocking(Worker):
    async def handle_cast(self, request):
        time.sleep(request)  # noqa: ASYNC251 - it must block


def test_a_blocking_callback_is_named():
    async def main():
        rt = Runtime()
        told = []
        watch = await rt.start(LoopWatch, interval=0.02, stall=0.02, tell=told.append)
        pid = await rt.start(Blocking, label="the culprit")
        with capture_logs() as logs:
            rt.cast(pid, 0.2)
            await rt.run(asyncio.sleep, 0.25)
        worst = (await rt.run(get_state, watch))["worst"]
        await rt.stop()
        assert max(told) == worst
        return pid, worst, [entry for entry in logs if entry["event"] == "loop_stalled"]

    pid, worst, reports = asyncio.run(main())
    assert worst > 0.1
    report = next(entry for entry in reports if entry["pid"] is not None)
    assert (report["pid"], report["label"]) == (str(pid), "the culprit")
    assert "handle_cast" in report["where"]


def test_a_process_that_is_just_being_spawned_does_not_end_the_watch():
    """It is in the table before it has a task, and the watch looks from another thread."""

    async def main():
        rt = Runtime()
        await rt.start(LoopWatch, interval=0.02, stall=0.02)
        half = Pid("n@h", 1, 10**6)
        rt.table = {half: Process.__new__(Process), **rt.table}
        pid = await rt.start(Blocking, label="the culprit")
        with capture_logs() as logs:
            for _ in range(2):
                rt.cast(pid, 0.2)
                await rt.run(asyncio.sleep, 0.25)
        del rt.table[half]
        await rt.stop()
        return str(pid), [entry["pid"] for entry in logs if entry["event"] == "loop_stalled"]

    pid, seen = asyncio.run(main())
    assert seen.count(pid) == 2


async def test_virtual_time_is_never_late(rt):
    watch = await LoopWatch.start()
    await asyncio.sleep(100)
    state = await get_state(watch)
    assert (state["lag"], state["worst"], state["_witness"]) == (0.0, 0.0, None)


def test_the_collector_is_tuned_and_can_be_put_back():
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 10)
        tune_collector()
        assert gc.get_threshold()[0] > 700
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
