"""What goes wrong inside of one node: each fault has its outcome, and a report that names the process and
says what to do. Faults between nodes: ``tests/simulation/test_remote_faults.py``; a blocked loop:
``test_watch``.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from structlog.testing import capture_logs

from gossamer.supervisor import (
    BadChildSpec,
    CallFailed,
    CallingSelf,
    CallTimeout,
    ChildSpec,
    GenServer,
    MailboxFull,
    Reply,
    Stop,
    Supervisor,
    call,
    exit,  # noqa: A004
    monitor,
    receive,
    self_pid,
    send,
    spawn,
    trap_exit,
)
from tests.supervisor.harness import Worker, settle, virtual


class Faulty(GenServer):
    """Goes wrong as it is told."""

    async def init(self, **options: Any) -> None:
        self.options = options
        trap_exit(bool(options.get("hang")))

    async def handle_call(self, request: Any, caller: Any) -> Any:
        match request:
            case "raise":
                raise ValueError("no such account")
            case "shape":
                return 42
            case "self":
                return Reply(await call(self_pid(), "ping"))
            case "swallow":
                while not self.options["released"].is_set():
                    try:
                        await asyncio.sleep(1e9)
                    except asyncio.CancelledError:
                        continue
            case "stop":
                return Stop("done", reply="bye")
            case ("ask", other):
                return Reply(await call(other, ("ask", self_pid()), timeout=self.options.get("timeout", 5)))
        return Reply(request)

    async def terminate(self, reason: object) -> None:
        if self.options.get("hang"):
            await asyncio.get_running_loop().create_future()


def the(logs: list[Any], event: str) -> dict[str, Any]:
    (entry,) = [entry for entry in logs if entry["event"] == event]
    return entry


@virtual
async def test_a_handler_that_raises_ends_its_server_and_the_caller_hears_why(rt):
    pid = await Faulty.start(name="accounts", label="Accounts")
    with capture_logs() as logs, pytest.raises(CallFailed, match=rf"call to {pid} failed: ValueError: no su"):
        await call("accounts", "raise")
    report = the(logs, "crash")
    assert (report["pid"], report["name"], report["label"]) == (str(pid), "accounts", "Accounts")
    assert "handle_call" in report["traceback"]
    assert not rt.alive(pid)


@virtual
async def test_a_wrong_shape_names_the_callback_what_it_gave_and_what_it_may(rt):
    pid = await Faulty.start()
    with pytest.raises(
        CallFailed, match=rf"{pid} .*Faulty.handle_call returned int, expected Reply, NoReply or Stop"
    ):
        await call(pid, "shape")


@virtual
async def test_who_swallows_his_cancel_is_left_behind_as_a_zombie_and_named(rt):
    released = asyncio.Event()
    pid = await Faulty.start(label="Stubborn", name="stubborn", released=released)
    monitor(pid)
    asked = asyncio.ensure_future(call(pid, "swallow", timeout=None))
    await settle()
    with capture_logs() as logs:
        exit(pid, "kill")
        down = await receive()
    assert (down.pid, down.reason) == (pid, "killed")
    report = the(logs, "zombie")
    assert (report["pid"], report["label"]) == (str(pid), "Stubborn")
    assert "handle_call" in report["where"]
    assert "CancelledError" in report["advice"]
    # The name is free, callers are told, and the task is still held: nothing is lost.
    assert rt.whereis("stubborn") is None
    assert pid in rt.zombies
    with pytest.raises(CallFailed, match="killed"):
        await asked
    released.set()
    rt.zombies[pid].task.cancel()
    await settle()
    assert not rt.zombies


@virtual
async def test_a_terminate_that_never_ends_is_killed_by_its_supervisor_and_reported(rt):
    child = ChildSpec("hangs", lambda: Faulty.start_link(hang=True, name="hangs"), shutdown=3.0)
    supervisor = await Supervisor.start([child])
    with capture_logs() as logs:
        begun = rt.loop.time()
        stopped = asyncio.ensure_future(Supervisor.terminate_child(supervisor, "hangs"))
        await settle()
        (node,) = await rt.tree(root=rt.whereis("hangs"))
        assert node.status == "terminating"
        await stopped
    assert rt.loop.time() - begun == pytest.approx(3.0)
    report = the(logs, "shutdown_error")
    assert report["offender"]["id"] == "hangs"
    assert report["reason"] == "killed"
    assert "within its shutdown time of 3 s" in report["advice"]


@virtual
async def test_a_terminate_that_never_ends_without_a_supervisor_is_reported_with_its_line(rt):
    pid = await Faulty.start(hang=True, label="Hanging")
    with capture_logs() as logs, pytest.raises(CallTimeout, match="gossamer ps"):
        await call(pid, "stop", timeout=60)
    report = the(logs, "terminate_hangs")
    assert (report["pid"], report["label"]) == (str(pid), "Hanging")
    assert "test_faults.py" in report["where"]
    assert "kill" in report["advice"]
    exit(pid, "kill")


@virtual
async def test_a_full_mailbox_refuses_and_says_who_and_what_to_do(rt):
    pid = spawn(asyncio.sleep, 1e9, label="Slow", max_mailbox=2)
    with capture_logs() as logs:
        assert [send(pid, number) for number in range(4)] == [True, True, False, False]
    report = the(logs, "mailbox_full")
    assert (report["pid"], report["label"], report["bound"]) == (str(pid), "Slow", 2)
    assert "send_wait()" in report["advice"]
    with pytest.raises(MailboxFull, match=rf"the mailbox of Slow {pid} holds 2 messages.*send_wait\(\)"):
        await call(pid, "?")
    exit(pid, "kill")


@virtual
async def test_a_call_to_oneself_is_refused_at_once(rt):
    pid = await Faulty.start(label="Narcissus")
    with pytest.raises(CallFailed, match=rf"CallingSelf: Narcissus {pid} calls itself.*cast and go on"):
        await call(pid, "self")
    with pytest.raises(CallingSelf):
        await call(self_pid(), "?")


@virtual
async def test_two_that_call_each_other_end_by_their_time_limits_and_the_circle_is_named(rt):
    one = await Faulty.start(label="One", timeout=2)
    two = await Faulty.start(label="Two", timeout=9)
    begun = rt.loop.time()
    with capture_logs() as logs, pytest.raises(CallFailed) as caught:
        await call(one, ("ask", two))
    assert rt.loop.time() - begun == pytest.approx(2.0)
    assert caught.value.reason[0] == "timeout"
    said = [entry["traceback"] for entry in logs if entry["event"] == "crash" and entry["pid"] == str(one)]
    assert f"deadlock: Two {two} -> One {one} -> Two {two}; break the circle with a cast" in said[0]


@pytest.mark.parametrize(
    ("specs", "flags", "says"),
    [
        ([object()], {}, "expected a ChildSpec"),
        ([], {"strategy": "some"}, "'one_for_one', 'one_for_all' or 'rest_for_one'"),
        ([], {"intensity": -1}, "a number of restarts, 0 or more"),
        ([], {"period": 0}, "seconds, more than 0"),
    ],
)
def test_a_bad_supervisor_starts_nothing_and_names_the_key(specs, flags, says):
    @virtual
    async def main(rt):
        with capture_logs() as logs, pytest.raises(Exception, match=says):
            await Supervisor.start(specs, **flags, label="Bad")
        assert [entry["label"] for entry in logs if entry["event"] == "crash"] == ["Bad"]

    main()


def test_a_bad_specification_is_refused_where_it_is_made():
    with pytest.raises(BadChildSpec, match=r"'ledger'.*restart.*'permanent', 'transient' or 'temporary'"):
        ChildSpec("ledger", Worker.start_link, restart="often")  # type: ignore[arg-type]


@virtual
async def test_nobody_there_says_what_to_do(rt):
    with pytest.raises(CallFailed, match=r"call to 'ledger' failed: noproc; nobody is there.*by its name"):
        await call("ledger", 1)
    with pytest.raises(CallFailed, match=r"noconnection; its node is not connected; see `gossamer nodes`"):
        await call(("ledger", "elsewhere@host"), 1)


@virtual
async def test_no_parked_process_is_lost_to_the_collector(rt):
    """Processes that nothing but the table refers to live on through forced collections, and answer."""

    async def parked(home):
        # The future is reachable from this frame only, a cycle that the collector would take.
        frame = weakref.ref(asyncio.current_task())
        message = await receive()
        send(home, (message, frame() is not None))

    pids = [spawn(parked, self_pid()) for _ in range(50)]
    servers = [await Worker.start() for _ in range(50)]
    for _ in range(3):
        await settle()
        gc.collect()
    assert all(map(rt.alive, pids + servers))
    for pid in pids:
        send(pid, pid)
    assert [await receive() for _ in pids] == [(pid, True) for pid in pids]
    assert [await call(pid, number) for number, pid in enumerate(servers)] == list(range(50))
    # And those that ended are not kept.
    ended = weakref.ref(rt.table[servers[0]].behaviour)
    exit(servers[0], "kill")
    await settle()
    gc.collect()
    assert ended() is None
