"""Timers on the loop that nodes run on."""

from __future__ import annotations

import asyncio

import pytest

from gossamer.supervisor import Runtime, cancel_timer, self_pid, send_after

uvloop = pytest.importorskip("uvloop")


@pytest.mark.parametrize("seconds", [0, -1, 3])
def test_a_timer_that_is_due_at_once_can_be_cancelled_on_uvloop_too(seconds: float) -> None:
    async def body() -> None:
        timer = send_after(seconds, self_pid(), "late")
        left = cancel_timer(timer)
        assert (left is None) == (seconds <= 0)
        assert cancel_timer(timer) is None

    async def main() -> None:
        runtime = Runtime(node="n@127.0.0.1")
        assert await runtime.join(runtime.spawn(body)) == "normal"
        await runtime.stop()

    with asyncio.Runner(loop_factory=uvloop.Loop) as runner:
        runner.run(main())
