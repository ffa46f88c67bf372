"""The event loop's lag, as ``/metrics`` shows it."""

import asyncio
import time

from gossamer.node.metrics import LOOP_WATCH
from gossamer.node.metrics.readings import loop
from gossamer.supervisor import LoopWatch, Runtime


def numbers(runtime):
    found = [metric.family for metric in loop(runtime) if "_loop_" in metric.name]
    return {one.name: one.value for family in found for one in family.samples if not one.labels}


def test_a_held_loop_shows_in_the_metrics():
    async def main():
        runtime = Runtime()
        assert numbers(runtime) == {}
        await runtime.start(LoopWatch, interval=0.01, stall=0.1, name=LOOP_WATCH)
        watch = runtime.names[LOOP_WATCH].behaviour
        before = numbers(runtime)
        assert set(before) == {
            "gossamer_loop_lag_seconds",
            "gossamer_loop_lag_worst_seconds",
            "gossamer_loop_stalls_total",
            "gossamer_loop_delay_seconds_count",
            "gossamer_loop_delay_seconds_sum",
        }
        ticks = watch.process.reductions
        time.sleep(0.3)  # noqa: ASYNC251 - it must block
        async with asyncio.timeout(30):
            while watch.process.reductions == ticks:  # noqa: ASYNC110
                await asyncio.sleep(0)
        held = numbers(runtime)
        await runtime.stop()
        return held

    held = asyncio.run(main())
    assert held["gossamer_loop_lag_seconds"] > 0.2
    assert held["gossamer_loop_lag_worst_seconds"] >= held["gossamer_loop_lag_seconds"]
    assert held["gossamer_loop_stalls_total"] >= 1
    assert held["gossamer_loop_delay_seconds_count"] >= 1
