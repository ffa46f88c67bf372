"""Thespian actors under our supervisors; each of Thespian's traps has its test."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

import gossamer.supervisor as otp
from gossamer.supervisor.thespian import Delivered, Publish, ThespianActor, ThespianSystem
from tests.supervisor.harness import is_alive, until

pytest.importorskip("thespian")
pytestmark = pytest.mark.real

HERE = Path(__file__).parent
PATIENCE = 60.0


def actor(name):
    return f"thespian_actors.{name}"


async def start_system(**options):
    return await ThespianSystem.start_link(path=[HERE], name="thespian", **options)


async def started(name="Adder", **options):
    """An actor of that class, in an actor system of its own."""
    await start_system()
    return await ThespianActor.start("thespian", actor(name), **options)


async def down():
    return await otp.receive(PATIENCE, lambda m: isinstance(m, otp.Down))


async def test_ask_and_tell_and_an_orderly_end(real_rt):
    adder = await started()
    assert await otp.call(adder, 1) == 2
    pid, *_ = await otp.call(adder, "pid")
    assert pid != os.getpid()
    otp.monitor(adder)
    otp.cast(adder, "exit")
    assert (await down()).reason == "normal"
    await until(lambda: not is_alive(pid))


async def test_a_raising_handler_runs_once_and_its_reason_is_the_exit_reason(real_rt):
    """Thespian would run it again, and let the actor live on."""
    fragile = await started("Fragile")
    otp.monitor(fragile)
    record = HERE / f".ran-{os.getpid()}"
    try:
        otp.cast(fragile, str(record))
        reason = (await down()).reason
        assert record.read_text() == "ran\n"
    finally:
        record.unlink(missing_ok=True)
    assert isinstance(reason, otp.Crash)
    assert (reason.error, reason.message) == ("ValueError", "as asked")
    assert "thespian_actors.py" in reason.traceback


async def test_a_killed_actor_says_by_what(real_rt):
    adder = await started()
    otp.monitor(adder)
    otp.cast(adder, "kill")
    assert (await down()).reason == ("signal", "SIGKILL")


async def test_an_actor_that_cannot_start_says_why(real_rt):
    await start_system()
    with pytest.raises(otp.StartFailed, match="RuntimeError: no luck"):
        await ThespianActor.start("thespian", actor("Stillborn"))
    with pytest.raises(otp.StartFailed, match="not_created"):
        await ThespianActor.start("thespian", "no_such_module.Actor")
    with pytest.raises(otp.StartFailed, match="start it before its actors"):
        await ThespianActor.start("nobody", actor("Adder"))


async def test_restarts_count_and_too_many_end_the_supervisor(real_rt):
    otp.trap_exit(True)
    await start_system()
    spec = otp.ChildSpec("adder", partial(ThespianActor.start_link, "thespian", actor("Adder"), name="adder"))
    sup = await otp.Supervisor.start_link([spec], intensity=1, period=1000.0)
    first = otp.whereis("adder")
    os.kill((await otp.call(first, "pid"))[0], signal.SIGKILL)
    await until(lambda: otp.whereis("adder") not in (None, first))
    os.kill((await otp.call("adder", "pid", timeout=PATIENCE))[0], signal.SIGKILL)
    end = await otp.receive(PATIENCE, lambda m: isinstance(m, otp.Exit) and m.source == sup)
    assert end.reason == "shutdown"


async def test_shutdown_leaves_no_process_children_of_actors_included(real_rt):
    otp.trap_exit(True)
    system = await start_system()
    parent = await ThespianActor.start("thespian", actor("Parent"))
    child, father, group = await otp.call(parent, "child", timeout=PATIENCE)
    everybody = [p.pid for p in psutil.Process(group).children(recursive=True)] + [group]
    assert {child, father} <= set(everybody)
    otp.exit(system, "shutdown")
    await otp.receive(PATIENCE, lambda m: isinstance(m, otp.Exit) and m.source == system)
    await until(lambda: not any(map(is_alive, everybody)))


async def test_a_killed_proxy_takes_its_actor_along(real_rt):
    adder = await started()
    pid, *_ = await otp.call(adder, "pid")
    otp.exit(adder, "kill")
    await until(lambda: not is_alive(pid))


@pytest.mark.parametrize(
    ("victim", "status"), [("host", ("signal", "SIGKILL")), ("admin", ("exit_status", 71))]
)
async def test_a_killed_host_or_admin_ends_the_system_and_every_actor(real_rt, victim, status):
    otp.trap_exit(True)
    system = await start_system()
    adder = await ThespianActor.start("thespian", actor("Adder"))
    pid, admin, group = await otp.call(adder, "pid")
    otp.monitor(adder)
    os.kill(group if victim == "host" else admin, signal.SIGKILL)
    assert (await down()).reason[0] == "thespian_system"
    end = await otp.receive(PATIENCE, lambda m: isinstance(m, otp.Exit) and m.source == system)
    assert end.reason == ("thespian_host", status)
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


async def test_everything_listens_on_loopback_only(real_rt):
    adder = await started()
    _, _, group = await otp.call(adder, "pid")
    family = [psutil.Process(group), *psutil.Process(group).children(recursive=True)]
    listening = [c.laddr.ip for p in family for c in p.net_connections("inet") if c.status == "LISTEN"]
    assert len(listening) >= 3
    assert set(listening) == {"127.0.0.1"}


async def test_answers_are_never_mixed_up(real_rt):
    """Thespian gave 299 of 400 answers to the wrong thread."""
    await start_system()
    adders = [await ThespianActor.start("thespian", actor("Adder")) for _ in range(3)]

    async def caller(number):
        for turn in range(12):
            question = number * 1000 + turn
            assert await otp.call(adders[number % 3], question, timeout=PATIENCE) == question + 1

    await asyncio.gather(*(caller(number) for number in range(9)))


async def test_a_late_answer_is_not_the_next_ones(real_rt):
    adder = await started(ask_timeout=0.3)
    with pytest.raises(otp.CallFailed, match="no_answer"):
        await otp.call(adder, ["slow", 1.0, "late"], timeout=PATIENCE)
    answers = []
    while not answers:
        try:
            answers.append(await otp.call(adder, 41, timeout=PATIENCE))
        except otp.CallFailed:
            # It still sleeps.
            continue
    assert answers == [42]


async def test_values_that_are_not_plain_are_refused(real_rt):
    adder = await started()
    with pytest.raises(otp.CallFailed, match="expected plain data"):
        await otp.call(adder, object())
    with pytest.raises(otp.CallFailed, match="bytes"):
        await otp.call(adder, b"x" * 200_000)
    assert await otp.call(adder, 1) == 2


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


async def test_an_actor_subscribes_and_publishes_until_it_ends(real_rt):
    broker = FakeBroker()
    await start_system(broker=broker)
    relay = await ThespianActor.start("thespian", actor("Relay"))
    otp.cast(relay, "subscribe")
    await until(lambda: "in/#" in broker.subscriptions)
    broker.subscriptions["in/#"](Delivered("in/a", b"hello", 1))
    await until(lambda: broker.published)
    assert broker.published == [Publish("out/in/a", b"HELLO", 1)]
    otp.exit(relay, "kill")
    await until(lambda: not broker.subscriptions)


def test_nothing_here_loads_thespian_into_the_node():
    code = "import sys, gossamer.supervisor.thespian; sys.exit('thespian' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_the_host_has_no_thread_loop_or_grpc_when_thespian_forks(real_rt):
    """Forking beside gRPC's threads hangs; the host is a fresh interpreter that loads neither."""
    code = (
        "import sys, threading, gossamer.supervisor.thespian.host, thespian.system.multiprocTCPBase\n"
        "sys.exit('grpc' in sys.modules or threading.active_count() > 1)"
    )
    otp.trap_exit(True)
    probe = await otp.OsProcess.start_link([sys.executable, "-c", code], cwd=HERE.parents[2])
    end = await otp.receive(PATIENCE, lambda m: isinstance(m, otp.Exit) and m.source == probe)
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
