"""The system's clock, as the loop that runs has it."""

import asyncio

import pytest

from gossamer.clock import SystemClock


def test_a_clock_follows_whichever_loop_runs():
    clock = SystemClock()

    async def both():
        return clock.monotonic(), asyncio.get_running_loop().time()

    for _ in range(2):
        read, told = asyncio.run(both())
        assert read <= told
    with pytest.raises(RuntimeError):
        clock.monotonic()
