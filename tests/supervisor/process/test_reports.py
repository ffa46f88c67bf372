"""What supervisors and crashing processes tell the log."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

import gossamer.supervisor as otp
from tests.supervisor.harness import settle
from tests.supervisor.supervise.children import Probe, probe

REPORTS = ("start_error", "child_terminated", "shutdown_error", "shutdown")


def reports(logs):
    return [entry for entry in logs if entry["event"] in REPORTS]


def offender(pid, restarts=0, **changes):
    return {
        "pid": None if pid is None else str(pid),
        "id": "a",
        "start": "probe.<locals>.start",
        "restart": "permanent",
        "significant": False,
        "shutdown": 5.0,
        "type": "worker",
        "restarts": restarts,
    } | changes


async def test_a_child_that_starts_is_progress(rt):
    with capture_logs() as logs:
        await otp.Supervisor.start([probe("a", [])], name="sup")
    (entry,) = [entry for entry in logs if entry["event"] == "progress"]
    assert (entry["supervisor"], entry["child"], entry["pid"]) == ("sup", "a", str(otp.whereis("a")))


async def test_a_start_that_fails_is_reported_with_its_reason(rt):
    sup = await otp.DynamicSupervisor.start(name="sup")
    with capture_logs() as logs, pytest.raises(otp.StartFailed):
        await otp.DynamicSupervisor.start_child(sup, probe("a", [], fails=["no disc"]))
    (entry,) = reports(logs)
    assert (entry["event"], entry["supervisor"], entry["reason"]) == ("start_error", "sup", "no disc")
    assert entry["offender"] == offender(None)


async def test_a_start_that_fails_below_supervisors_is_raised_once_and_not_reported_at_each(rt):
    inner = otp.ChildSpec(
        "inner", lambda: otp.Supervisor.start_link([probe("a", [], fails=["no disc"])]), type="supervisor"
    )
    with capture_logs() as logs:
        with pytest.raises(otp.StartFailed, match="no disc"):
            await otp.Supervisor.start([inner], name="sup")
        sup = await otp.Supervisor.start([], name="sup")
        with pytest.raises(otp.StartFailed, match="no disc"):
            await otp.Supervisor.start_child(sup, inner)
    assert reports(logs) == []


@pytest.mark.parametrize("kind", [otp.Supervisor, otp.DynamicSupervisor])
async def test_an_end_and_the_last_straw_are_reported(rt, kind):
    sup = await kind.start(name="sup", intensity=1)
    await kind.start_child(sup, probe("a", []))
    first = otp.whereis("a")
    with capture_logs() as logs:
        otp.exit(first, "kill")
        await settle()
        second = otp.whereis("a")
        otp.exit(second, "kill")
        await settle()
    assert [(entry["event"], entry["reason"]) for entry in reports(logs)] == [
        ("child_terminated", "killed"),
        ("child_terminated", "killed"),
        ("shutdown", "reached_max_restart_intensity"),
    ]
    assert [entry["offender"]["restarts"] for entry in reports(logs)] == [0, 1, 2]
    assert reports(logs)[0]["offender"] == offender(first)
    assert reports(logs)[1]["offender"] == offender(second, 1)
    assert not rt.alive(sup)


async def test_a_child_that_had_to_be_killed_is_reported_with_what_to_do(rt):
    sup = await otp.Supervisor.start([probe("a", [], stop_after=60, shutdown=2.0)])
    pid = otp.whereis("a")
    with capture_logs() as logs:
        stopped = asyncio.ensure_future(otp.Supervisor.terminate_child(sup, "a"))
        await settle()
        assert [node.status for node in await rt.tree(root=pid)] == ["terminating"]
        await stopped
    (entry,) = reports(logs)
    assert (entry["event"], entry["reason"]) == ("shutdown_error", "killed")
    assert entry["offender"] == offender(pid, shutdown=2.0)
    assert "within its shutdown time of 2 s" in entry["advice"]


async def test_a_terminate_that_never_ends_without_a_supervisor_is_reported_with_its_line(rt):
    pid = await Probe.start("hanging", [], 1e9, label="Hanging")
    with capture_logs() as logs, pytest.raises(otp.CallTimeout, match="gossamer ps"):
        await otp.call(pid, ("stop", "over"), timeout=60)
    (entry,) = [entry for entry in logs if entry["event"] == "terminate_hangs"]
    assert (entry["pid"], entry["label"]) == (str(pid), "Hanging")
    assert "terminate" in entry["where"]
    assert "kill" in entry["advice"]
    otp.exit(pid, "kill")


async def stop(rt, pid):
    """End it as its parent does."""
    ended = rt.join(pid)
    rt.table[pid].exit_signal(pid, "shutdown")
    return await ended


async def test_many_children_that_fail_to_stop_are_one_report_a_reason(rt):
    sup = await otp.DynamicSupervisor.start()
    for name in "abc":
        await otp.DynamicSupervisor.start_child(sup, probe(name, [], stop_after=60, shutdown=2.0))
    with capture_logs() as logs:
        assert await stop(rt, sup) == "shutdown"
    found = [(entry["reason"], entry["children"]) for entry in logs if entry["event"] == "shutdown_error"]
    assert found == [("killed", 3)]


class Ledger(otp.GenServer):
    """Crashes on what it does not know."""

    async def init(self):
        self.accounts = {"ann": 10.0}
        self.api_token = "s3cret"
        self.history = list(range(1000))

    async def handle_call(self, request, caller):
        if request == "nonsense":
            return 7
        if request == "stop":
            return otp.Stop("out of paper")
        return otp.Reply(self.accounts[request])

    async def handle_cast(self, request):
        self.accounts[request["to"]] += 1

    async def handle_info(self, message):
        raise RuntimeError("what?")


async def crash_of(how, to):
    """The report of a process that ends on being asked, cast or sent something."""
    with capture_logs() as logs:
        if how is otp.call:
            with pytest.raises(otp.CallFailed):
                await otp.call(*to)
        else:
            how(*to)
            await settle()
    (entry,) = [entry for entry in logs if entry["event"] == "crash"]
    return entry


async def test_a_crash_report_says_what_it_was_doing_and_what_it_held(rt):
    pid = await Ledger.start(name="ledger")
    entry = await crash_of(otp.cast, (pid, {"to": "bob", "password": "hunter2"}))
    assert (entry["pid"], entry["name"], entry["label"]) == (str(pid), "ledger", "Ledger")
    assert entry["reason"] == "KeyError: 'bob'"
    assert entry["handling"] == "cast: {'to': 'bob', 'password': ***}"
    assert entry["state"] == ("accounts={'ann': 10.0}, api_token=***, history=[0, 1, 2, 3, 4, 5, … 994 more]")
    # The framework's frames in front of the user's are left out.
    lines = entry["traceback"].splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "in handle_cast" in lines[1]
    assert lines[-1] == "KeyError: 'bob'"
    assert "hunter2" not in str(entry)


@pytest.mark.parametrize(
    ("how", "message", "reason", "handling"),
    [
        pytest.param(otp.call, "bob", "KeyError: 'bob'", "call from {me}: 'bob'", id="its caller"),
        pytest.param(otp.send, ("who", 1), "RuntimeError: what?", "('who', 1)", id="a message"),
        pytest.param(
            otp.call,
            "nonsense",
            "BadReturn: Ledger.handle_call returned int",
            "call from {me}: 'nonsense'",
            id="a wrong shape",
        ),
        pytest.param(otp.call, "stop", "out of paper", "", id="a stop, which handles nothing any more"),
    ],
)
async def test_a_crash_report_names(rt, how, message, reason, handling):
    entry = await crash_of(how, (await Ledger.start(), message))
    assert entry["reason"].startswith(reason)
    assert entry["handling"] == handling.format(me=otp.self_pid())
    assert entry["state"].startswith("accounts=")


class Machine(otp.StateMachine):
    async def init(self):
        return otp.Next("idle")

    async def handle_event(self, event, state):
        if isinstance(event, otp.Cast):
            raise ValueError("no such order")


async def test_a_crash_of_a_state_machine_says_the_event_and_the_state(rt):
    entry = await crash_of(otp.cast, (await Machine.start(), "go"))
    assert entry["handling"] == "cast: 'go'"
    assert "state='idle'" in entry["state"]
    assert "in handle_event" in entry["traceback"].splitlines()[1]
