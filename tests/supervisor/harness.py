"""Tests that are processes: one that takes ``rt`` runs as a process of a runtime on virtual time.

One that takes ``real_rt`` runs as a process on asyncio's own loop. No test may leave anything behind.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import psutil
import pytest_asyncio

import gossamer.supervisor as otp


def pytest_itemcollected(item):
    for name in {"rt", "real_rt"}.intersection(getattr(item, "fixturenames", ())):
        item.obj = _as_process(item.obj, name)


def _as_process(test, name):
    @functools.wraps(test)
    async def run(**arguments):
        await arguments[name].run(test, **arguments)

    return run


def lost_in(loop):
    """What would vanish in the exception handler of ``loop``, from now on."""
    lost = []
    loop.set_exception_handler(lambda _, context: lost.append(context))
    return lost


@pytest_asyncio.fixture
async def rt(virtual_time):
    lost = lost_in(virtual_time)
    runtime = otp.Runtime("test@host", 7)
    yield runtime
    await _stop(runtime)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not lost


@pytest_asyncio.fixture
async def real_rt():
    runtime = otp.Runtime("test@host")
    yield runtime
    async with asyncio.timeout(20):
        await _stop(runtime)
        await until(lambda: not any(is_alive(p.pid) for p in psutil.Process().children(recursive=True)))


async def _stop(runtime):
    await runtime.stop()
    assert not [*runtime.table, *runtime.names, *runtime.pending_exits]


def is_alive(os_pid):
    """False when the system knows no such process, or it only waits to be reaped."""
    try:
        return psutil.Process(os_pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def until(condition, seconds=60.0):
    """Wait for what the operating system reports to nobody."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def ended(pid):
    """Return the reason with which a process ends."""
    ref = otp.monitor(pid)
    return (await otp.receive(match=lambda m: isinstance(m, otp.Down) and m.ref == ref)).reason


async def waits():
    """A body that ends with the first message."""
    await otp.receive()


async def linked(to):
    """A body that links itself, and ends with the first message."""
    otp.link(to)
    await otp.receive()


async def nothing_comes(seconds=1):
    """Nobody sends this process anything for so long."""
    try:
        message = await otp.receive(timeout=seconds)
    except TimeoutError:
        return
    raise AssertionError(f"got {message}")


async def settle(turns: int = 20) -> None:
    """Let everything that can run, run; no time passes."""
    for _ in range(turns):
        await asyncio.sleep(0)


class Worker(otp.GenServer):
    """Does as it is told, and remembers what it got."""

    async def init(self, *args: Any, **options: Any) -> None:
        self.args = args
        self.options = options
        self.got: list[Any] = []

    async def handle_call(self, request: Any, caller: Any) -> Any:
        match request:
            case ("echo", value):
                return otp.Reply(value)
            case ("stop", reason):
                return otp.Stop(reason, reply="stopping")
            case ("raise", error):
                raise error
            case "got":
                return otp.Reply(list(self.got))
            case "args":
                return otp.Reply(self.args)
        return otp.Reply(request)

    async def handle_cast(self, request: Any) -> Any:
        self.got.append(("cast", request))
        match request:
            case ("stop", reason):
                return otp.Stop(reason)
            case ("raise", error):
                raise error
        return None

    async def handle_info(self, message: Any) -> Any:
        self.got.append(message)


def crashed(reason: object, error: str) -> bool:
    return isinstance(reason, otp.Crash) and reason.error == error and not otp.is_clean(reason)
