"""Thespian actors under our supervisors; each of Thespian's traps has its test."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from gossamer.supervisor import (
    CallFailed,
    ChildSpec,
    Crash,
    Down,
    Exit,
    OsProcess,
    Runtime,
    StartFailed,
    Supervisor,
    call,
    cast,
    exit,  # noqa: A004
    monitor,
    receive,
    trap_exit,
    whereis,
)
from gossamer.supervisor.thespian import Delivered, Publish, ThespianActor, ThespianSystem

pytest.importorskip("thespian")
pytestmark = pytest.mark.real

HERE = Path(__file__).parent
PATIENCE = 60.0


def actor(name):
    return f"thespian_actors.{name}"


def real(test):
    """Run the test as a process of a fresh runtime; nothing it started may be left."""

    def run():
        async def main():
            runtime = Runtime("test@host", 1)
            try:
                await runtime.run(test)
            finally:
                await runtime.stop()
            assert not runtime.table

        asyncio.run(main())
        assert not [p for p in psutil.Process().children(recursive=True) if is_alive(p.pid)]

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def start_system(**options):
    return await ThespianSystem.start_link(path=[HERE], name="thespian", **options)


async def until(condition):
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - processes of the system tell nobody
            await asyncio.sleep(0.02)


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def down():
    return await receive(PATIENCE, lambda m: isinstance(m, Down))


@real
async def test_ask_and_tell_and_an_orderly_end():
    await start_system()
    adder = await ThespianActor.start("thespian", actor("Adder"))
    assert await call(adder, 1) == 2
    pid, *_ = await call(adder, "pid")
    assert pid != os.getpid()
    monitor(adder)
    cast(adder, "exit")
    assert (await down()).reason == "normal"
    await until(lambda: not is_alive(pid))


@real
async def test_a_raising_handler_runs_once_and_its_reason_is_the_exit_reason():
    """Thespian would run it again, and let the actor live on."""
    await start_system()
    fragile = await ThespianActor.start("thespian", actor("Fragile"))
    monitor(fragile)
    record = HERE / f".ran-{os.getpid()}"
    try:
        cast(fragile, str(record))
        reason = (await down()).reason
        assert record.read_text() == "ran\n"
    finally:
        record.unlink(missing_ok=True)
    assert isinstance(reason, Crash)
    assert (reason.error, reason.message) == ("ValueError", "as asked")
    assert "thespian_actors.py" in reason.traceback


@real
async def test_a_killed_actor_says_by_what():
    await start_system()
    adder = await ThespianActor.start("thespian", actor("Adder"))
    monitor(adder)
    cast(adder, "kill")
    assert (await down()).reason == ("signal", "SIGKILL")


@real
async def test_an_actor_that_cannot_start_says_why():
    await start_system()
    with pytest.raises(StartFailed, match="RuntimeError: no luck"):
        await ThespianActor.start("thespian", actor("Stillborn"))
    with pytest.raises(StartFailed, match="not_created"):
        await ThespianActor.start("thespian", "no_such_module.Actor")
    with pytest.raises(StartFailed, match="start it before its actors"):
        await ThespianActor.start("nobody", actor("Adder"))


@real
async def test_restarts_count_and_too_many_end_the_supervisor():
    trap_exit(True)
    await start_system()
    spec = ChildSpec("adder", partial(ThespianActor.start_link, "thespian", actor("Adder"), name="adder"))
    sup = await Supervisor.start_link([spec], intensity=1, period=1000.0)
    first = whereis("adder")
    os.kill((await call(first, "pid"))[0], signal.SIGKILL)
    await until(lambda: whereis("adder") not in (None, first))
    os.kill((await call("adder", "pid", timeout=PATIENCE))[0], signal.SIGKILL)
    end = await receive(PATIENCE, lambda m: isinstance(m, Exit) and m.source == sup)
    assert end.reason == "shutdown"


@real
async def test_shutdown_leaves_no_process_children_of_actors_included():
    trap_exit(True)
    system = await start_system()
    parent = await ThespianActor.start("thespian", actor("Parent"))
    child, father, group = await call(parent, "child", timeout=PATIENCE)
    everybody = [p.pid for p in psutil.Process(group).children(recursive=True)] + [group]
    assert {child, father} <= set(everybody)
    exit(system, "shutdown")
    await receive(PATIENCE, lambda m: isinstance(m, Exit) and m.source == system)
    await until(lambda: not any(map(is_alive, everybody)))


@real
async def test_a_killed_proxy_takes_its_actor_along():
    await start_system()
    adder = await ThespianActor.start("thespian", actor("Adder"))
    pid, *_ = await call(adder, "pid")
    exit(adder, "kill")
    await until(lambda: not is_alive(pid))


@real
async def test_a_killed_host_ends_the_system_and_every_actor():
    trap_exit(True)
    system = await start_system()
    adder = await ThespianActor.start("thespian", actor("Adder"))
    pid, _, group = await call(adder, "pid")
    monitor(adder)
    os.kill(group, signal.SIGKILL)
    assert (await down()).reason[0] == "thespian_system"
    end = await receive(PATIENCE, lambda m: isinstance(m, Exit) and m.source == system)
    assert end.reason == ("thespian_host", ("signal", "SIGKILL"))
    await until(lambda: not is_alive(pid))


@real
async def test_a_killed_admin_ends_the_system_too():
    trap_exit(True)
    system = await start_system()
    adder = await ThespianActor.start("thespian", actor("Adder"))
    pid, admin, _ = await call(adder, "pid")
    os.kill(admin, signal.SIGKILL)
    end = await receive(PATIENCE, lambda m: isinstance(m, Exit) and m.source == system)
    assert end.reason == ("thespian_host", ("exit_status", 71))
    await until(lambda: not is_alive(pid))


NODE = """
import asyncio, sys
from gossamer.supervisor import Runtime, call
from gossamer.supervisor.thespian import ThespianActor, ThespianSystem
async def main():
    await ThespianSystem.start_link(path=[sys.argv[1]], name="thespian")
    parent = await ThespianActor.start("thespian", "thespian_actors.Parent")
    print(*await call(parent, "child", timeout=60), flush=True)
    await asyncio.sleep(3600)
asyncio.run(Runtime().run(main))
"""


def test_a_killed_node_leaves_no_process():
    """Thespian's children outlive their parents' SIGKILL."""
    with subprocess.Popen(
        [sys.executable, "-c", NODE, str(HERE)], stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
    ) as node:
        line = ""
        while len(line.split()) != 3 or not line[0].isdigit():
            line = node.stdout.readline()
            assert line or node.poll() is None
        group = int(line.split()[2])
        everybody = [group, *(p.pid for p in psutil.Process(group).children(recursive=True))]
        assert len(everybody) >= 5
        node.kill()
    deadline = time.monotonic() + PATIENCE
    while any(map(is_alive, everybody)):
        assert time.monotonic() < deadline, everybody
        time.sleep(0.02)


@real
async def test_a_port_in_use_is_refused_not_attached_to():
    """Thespian would attach to the admin that is there, with the code it was started from."""
    trap_exit(True)
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(StartFailed, match="refused: admin port"),
    ):
        await start_system(port=taken.getsockname()[1])
    first = await start_system()
    assert whereis("thespian") == first


@real
async def test_everything_listens_on_loopback_only():
    await start_system()
    adder = await ThespianActor.start("thespian", actor("Adder"))
    _, _, group = await call(adder, "pid")
    family = [psutil.Process(group), *psutil.Process(group).children(recursive=True)]
    listening = [c.laddr.ip for p in family for c in p.net_connections("inet") if c.status == "LISTEN"]
    assert len(listening) >= 3
    assert set(listening) == {"127.0.0.1"}


@real
async def test_answers_are_never_mixed_up():
    """Thespian gave 299 of 400 answers to the wrong thread."""
    await start_system()
    adders = [await ThespianActor.start("thespian", actor("Adder")) for _ in range(3)]

    async def caller(number):
        for turn in range(12):
            question = number * 1000 + turn
            assert await call(adders[number % 3], question, timeout=PATIENCE) == question + 1

    await asyncio.gather(*(caller(number) for number in range(9)))


@real
async def test_a_late_answer_is_not_the_next_ones():
    await start_system()
    adder = await ThespianActor.start("thespian", actor("Adder"), ask_timeout=0.3)
    with pytest.raises(CallFailed, match="no_answer"):
        await call(adder, ["slow", 1.0, "late"], timeout=PATIENCE)
    answers = []
    while not answers:
        try:
            answers.append(await call(adder, 41, timeout=PATIENCE))
        except CallFailed:
            # It still sleeps.
            continue
    assert answers == [42]


@real
async def test_values_that_are_not_plain_are_refused():
    await start_system()
    adder = await ThespianActor.start("thespian", actor("Adder"))
    with pytest.raises(CallFailed, match="expected plain data"):
        await call(adder, object())
    with pytest.raises(CallFailed, match="bytes"):
        await call(adder, b"x" * 200_000)
    assert await call(adder, 1) == 2


class FakeBroker:
    def __init__(self):
        self.published = []
        self.subscriptions = {}

    def publish(self, message):
        if not message.topic:
            raise ValueError("no topic")
        self.published.append(message)

    def subscribe(self, request, deliver):
        self.subscriptions[request.filter] = deliver
        return lambda: self.subscriptions.pop(request.filter)


@real
async def test_an_actor_subscribes_and_publishes_until_it_ends():
    broker = FakeBroker()
    await start_system(broker=broker)
    relay = await ThespianActor.start("thespian", actor("Relay"))
    cast(relay, "subscribe")
    await until(lambda: "in/#" in broker.subscriptions)
    broker.subscriptions["in/#"](Delivered("in/a", b"hello", 1))
    await until(lambda: broker.published)
    assert broker.published == [Publish("out/in/a", b"HELLO", 1)]
    exit(relay, "kill")
    await until(lambda: not broker.subscriptions)


def test_nothing_here_loads_thespian_into_the_node():
    code = "import sys, gossamer.supervisor.thespian; sys.exit('thespian' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@real
async def test_the_host_has_no_thread_loop_or_grpc_when_thespian_forks():
    """Forking beside gRPC's threads hangs; the host is a fresh interpreter that loads neither."""
    code = (
        "import sys, threading, gossamer.supervisor.thespian.host, thespian.system.multiprocTCPBase\n"
        "sys.exit('grpc' in sys.modules or threading.active_count() > 1)"
    )
    trap_exit(True)
    probe = await OsProcess.start_link([sys.executable, "-c", code], cwd=HERE.parents[2])
    end = await receive(PATIENCE, lambda m: isinstance(m, Exit) and m.source == probe)
    assert end.reason == "normal"


def test_the_example_runs_as_it_says():
    example = HERE.parents[2] / "examples" / "thespian_port.py"
    run = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, timeout=100, check=True
    )
    assert run.stdout.splitlines() == [
        "listening",
        "house/kitchen/heater on",
        "crashed: ValueError: could not convert string to float: b'warm'",
        "restarted, listening",
        "house/cellar/heater off",
        "done",
    ]
