import asyncio
import threading
import time

import pytest

from gossamer.testing import (
    DeadlockError,
    RealInputOutputError,
    RunawayError,
    VirtualTimeLoop,
)
from gossamer.testing.loop import PROCESS


def run(main, **options):
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(**options)) as runner:
        return runner.run(main())


def test_an_hour_of_sleep_takes_no_time():
    async def main():
        loop = asyncio.get_running_loop()
        await asyncio.sleep(3600)
        return loop.time()

    begun = time.perf_counter()
    assert run(main) == 3600
    assert time.perf_counter() - begun < 5


def test_timers_fire_at_their_exact_instant_in_order():
    async def main():
        loop = asyncio.get_running_loop()
        seen = []
        for when in (0.3, 0.1, 1e6 + 0.1, 0.2):
            loop.call_at(when, lambda when=when: seen.append((when, loop.time())))
        await asyncio.sleep(2e6)
        return seen

    assert run(main, max_time=1e7) == [(t, t) for t in (0.1, 0.2, 0.3, 1e6 + 0.1)]


def test_a_timeout_cancels_a_wait_at_its_deadline():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(7):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(main) == 7


def test_a_deadlock_names_who_waits_and_where():
    async def waits_for_nothing():
        await asyncio.Event().wait()

    async def main():
        await asyncio.create_task(waits_for_nothing(), name="stuck")

    with pytest.raises(DeadlockError) as caught:
        run(main)
    assert any(line.startswith("stuck in ") and "waits_for_nothing" in line for line in caught.value.waiting)
    assert "locks.py" in str(caught.value)


def test_spinning_without_time_is_stopped():
    async def main():
        while True:  # noqa: ASYNC110  what is tested
            await asyncio.sleep(0)

    with pytest.raises(RunawayError, match="turns without a moment"):
        run(main, max_turns=1000)


def test_running_past_the_end_of_time_is_stopped():
    async def main():
        while True:  # noqa: ASYNC110  what is tested
            await asyncio.sleep(60)

    with pytest.raises(RunawayError, match="3600 virtual seconds"):
        run(main, max_time=3600)


async def test_executors_run_inline_on_the_loops_thread(virtual_time):
    here = threading.get_ident()
    assert await virtual_time.run_in_executor(None, threading.get_ident) == here
    assert await asyncio.to_thread(threading.get_ident) == here
    with pytest.raises(ZeroDivisionError):
        await virtual_time.run_in_executor(None, lambda: 1 // 0)


async def test_real_sockets_and_names_are_refused(virtual_time):
    with pytest.raises(RealInputOutputError, match="SimNetwork"):
        await virtual_time.create_connection(asyncio.Protocol, "127.0.0.1", 1)
    with pytest.raises(RealInputOutputError):
        await virtual_time.getaddrinfo("example.org", 80)
    assert (await virtual_time.getaddrinfo("10.0.0.1", 80))[0][4] == ("10.0.0.1", 80)


async def test_other_tests_keep_the_system_loop():
    assert not isinstance(asyncio.get_running_loop(), VirtualTimeLoop)


def test_a_frozen_process_runs_nothing_and_then_everything_that_is_overdue():
    ran = {"a": [], "b": []}

    async def ticking(name):
        PROCESS.set(name)
        for _ in range(4):
            ran[name].append(asyncio.get_running_loop().time())
            await asyncio.sleep(1)

    async def main():
        loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(ticking(name)) for name in ran]
        await asyncio.sleep(1.5)
        loop.freeze("a")
        await asyncio.sleep(3)
        loop.thaw("a")
        await asyncio.wait(tasks)

    run(main)
    assert ran == {"a": [0.0, 1.0, 4.5, 5.5], "b": [0.0, 1.0, 2.0, 3.0]}


def test_what_wakes_a_frozen_process_waits_with_it():
    answered = []

    async def main():
        loop = asyncio.get_running_loop()
        signal = asyncio.Event()

        async def process():
            PROCESS.set("a")
            await signal.wait()
            answered.append(loop.time())

        task = asyncio.create_task(process())
        await asyncio.sleep(1)
        loop.freeze("a")
        signal.set()
        await asyncio.sleep(2)
        assert not answered
        loop.thaw("a")
        await task

    run(main)
    assert answered == [3.0]
