"""Ctrl-C ends what runs, once, and lets it clean up."""

import asyncio
import os
import signal

import pytest

from gossamer.cli.local.interrupt import interruptible


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_ends_what_runs_and_a_second_does_not_end_its_cleaning(number):
    done = []
    with interruptible() as interrupt:
        try:
            os.kill(os.getpid(), number)
            await asyncio.sleep(60)
            done.append("went on")
        finally:
            os.kill(os.getpid(), number)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            done.append("cleaned")
    assert interrupt.came
    assert done == ["cleaned"]
    # Nothing of it is left: the next wait is not cancelled.
    await asyncio.sleep(0)


async def test_what_nobody_interrupts_goes_on_and_is_not_said_to_be():
    with interruptible() as interrupt:
        await asyncio.sleep(0)
    assert not interrupt.came


async def test_a_cancellation_of_another_cause_is_passed_on():
    async def body():
        with interruptible():
            await asyncio.sleep(60)

    task = asyncio.create_task(body())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
