"""What a supervisor tells the log: start_error, child_terminated, shutdown_error, shutdown, progress."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from gossamer.supervisor import (
    DynamicSupervisor,
    StartFailed,
    Supervisor,
    call,
    exit,  # noqa: A004
    whereis,
)
from tests.supervisor.harness import settle, virtual
from tests.supervisor.test_supervisor import probe

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


@virtual
async def test_a_child_that_starts_is_progress(rt):
    with capture_logs() as logs:
        await Supervisor.start([probe("a", [])], name="sup")
    (entry,) = [entry for entry in logs if entry["event"] == "progress"]
    assert (entry["supervisor"], entry["child"], entry["pid"]) == ("sup", "a", str(whereis("a")))


@virtual
async def test_a_start_that_fails_is_reported_with_its_reason(rt):
    sup = await Supervisor.start([], name="sup")
    with capture_logs() as logs, pytest.raises(StartFailed):
        await Supervisor.start_child(sup, probe("a", [], fails=["no disc"]))
    (entry,) = reports(logs)
    assert (entry["event"], entry["supervisor"], entry["reason"]) == ("start_error", "sup", "no disc")
    assert entry["offender"] == offender(None)


@pytest.mark.parametrize("kind", [Supervisor, DynamicSupervisor])
def test_an_end_and_the_last_straw_are_reported(kind):
    @virtual
    async def main(rt):
        sup = await kind.start(name="sup", intensity=1)
        await kind.start_child(sup, probe("a", []))
        first = whereis("a")
        with capture_logs() as logs:
            exit(first, "kill")
            await settle()
            second = whereis("a")
            exit(second, "kill")
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

    main()


@pytest.mark.parametrize("kind", [Supervisor, DynamicSupervisor])
@pytest.mark.parametrize(
    ("restart", "reason", "reported"),
    [
        ("temporary", "bad", True),
        ("temporary", "normal", False),
        ("temporary", "shutdown", False),
        ("transient", "bad", True),
        ("transient", ("shutdown", 1), False),
        ("permanent", "normal", True),
        ("permanent", "shutdown", True),
    ],
)
def test_which_ends_are_reported(kind, restart, reason, reported):
    @virtual
    async def main(rt):
        sup = await kind.start(intensity=5)
        await kind.start_child(sup, probe("a", [], restart=restart))
        with capture_logs() as logs:
            await call("a", ("stop", reason))
            await settle()
        assert [entry["event"] for entry in reports(logs)] == ["child_terminated"] * reported
        again = restart == "permanent" or (restart == "transient" and reason == "bad")
        assert (whereis("a") is not None) == again
        assert rt.alive(sup)

    main()


@virtual
async def test_a_child_that_had_to_be_killed_is_reported_with_what_to_do(rt):
    sup = await Supervisor.start([probe("a", [], stop_after=60, shutdown=2.0)])
    pid = whereis("a")
    with capture_logs() as logs:
        await Supervisor.terminate_child(sup, "a")
    (entry,) = reports(logs)
    assert (entry["event"], entry["reason"]) == ("shutdown_error", "killed")
    assert entry["offender"] == offender(pid, shutdown=2.0)
    assert "within its shutdown time of 2 s" in entry["advice"]


async def stop(rt, pid):
    """End it as its parent does."""
    ended = rt.join(pid)
    rt.table[pid].exit_signal(pid, "shutdown")
    return await ended


@virtual
async def test_many_children_that_fail_to_stop_are_one_report_a_reason(rt):
    sup = await DynamicSupervisor.start()
    for name in "abc":
        await DynamicSupervisor.start_child(sup, probe(name, [], stop_after=60, shutdown=2.0))
    with capture_logs() as logs:
        assert await stop(rt, sup) == "shutdown"
    found = [(entry["reason"], entry["children"]) for entry in logs if entry["event"] == "shutdown_error"]
    assert found == [("killed", 3)]
