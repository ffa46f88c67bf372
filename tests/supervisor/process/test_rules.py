"""Rules of OTP at the seams: between processes, links, servers and supervisors."""

from __future__ import annotations

import asyncio

import pytest

from gossamer.supervisor import (
    CallTimeout,
    Cast,
    ChildSpec,
    Down,
    DynamicSupervisor,
    Exit,
    ExitProcess,
    Ignore,
    StartFailed,
    StopInit,
    Supervisor,
    call,
    cast,
    exit,  # noqa: A004
    get_state,
    link,
    monitor,
    receive,
    register,
    resume,
    send,
    spawn,
    spawn_link,
    suspend,
    trap_exit,
    whereis,
)
from tests.supervisor.harness import Worker, settle, virtual
from tests.supervisor.supervise.test_supervisor import probe


async def forever():
    await receive(match=lambda _: False)


# Calls and casts.


@virtual
async def test_a_call_waits_five_seconds_unless_told_otherwise(rt):
    deaf = spawn(forever)
    begun = rt.loop.time()
    with pytest.raises(CallTimeout):
        await call(deaf, "?")
    assert rt.loop.time() - begun == pytest.approx(5.0)


@virtual
async def test_a_cast_always_succeeds(rt):
    gone = spawn(forever)
    exit(gone, "kill")
    await settle()
    for nobody in (gone, "no such name", ("name", "no such node")):
        assert cast(nobody, 1) is None


# Exit signals.


@virtual
async def test_kill_as_a_reason_of_a_link_is_a_reason_like_others(rt):
    """Only ``exit(pid, "kill")`` cannot be trapped; who ends *with* that reason passes it on as it is."""

    async def ends():
        await asyncio.sleep(1)
        raise ExitProcess("kill")

    trap_exit(True)
    victim = spawn(ends)
    link(victim)

    async def untrapped():
        link(victim)
        await forever()

    other = spawn_link(untrapped)
    assert await receive() == Exit(victim, "kill")
    assert await receive() == Exit(other, "kill")


@virtual
async def test_signals_of_one_sender_arrive_in_order_whatever_they_are(rt):
    got = []

    async def receiver():
        trap_exit(True)
        await asyncio.sleep(1)
        while len(got) < 5:
            got.append(await receive())

    pid = spawn(receiver)

    async def sender():
        link(pid)
        send(pid, 1)
        cast(pid, 2)
        exit(pid, "three")
        send(pid, 4)
        raise ExitProcess("five")

    source = spawn(sender)
    await rt.join(pid)
    assert got == [1, Cast(2), Exit(source, "three"), 4, Exit(source, "five")]


@virtual
async def test_a_monitor_by_name_watches_who_has_the_name_now(rt):
    async def named():
        register("name")
        await receive()

    first = spawn(named)
    await settle()
    ref = monitor("name")
    send(first, "end")
    await settle()
    second = spawn(named)
    await settle()
    assert whereis("name") == second
    assert await receive() == Down(ref, first, "normal")
    with pytest.raises(TimeoutError):
        await receive(timeout=1)
    exit(second, "kill")


# When terminate runs.


class Careful(Worker):
    async def init(self, ends, how=None):
        await super().init()
        self.ends = ends
        trap_exit(True)
        if how is not None:
            raise how

    async def terminate(self, reason):
        self.ends.append(reason)


@pytest.mark.parametrize("how", [Ignore(), StopInit("no"), ValueError("no")])
def test_terminate_does_not_run_after_a_failed_init(how):
    @virtual
    async def main(rt):
        ends = []
        with pytest.raises((Ignore, StartFailed)):
            await Careful.start(ends, how)
        assert ends == []

    main()


@virtual
async def test_terminate_does_not_run_on_kill(rt):
    ends = []
    pid = await Careful.start(ends)
    exit(pid, "kill")
    assert await rt.join(pid) == "killed"
    assert ends == []


# Supervisors.


class Unwanted(Supervisor):
    async def init(self, *args, **options):
        raise Ignore


@virtual
async def test_a_supervisor_that_ignores_stays_specified_and_can_be_asked_again(rt):
    spec = ChildSpec("below", Unwanted.start_link, type="supervisor")
    top = await Supervisor.start([spec])
    (info,) = await Supervisor.which_children(top)
    assert (info.id, info.pid, info.type) == ("below", None, "supervisor")
    assert await Supervisor.restart_child(top, "below") is None


@virtual
async def test_admin_requests_of_a_dynamic_supervisor_see_restarting_children(rt):
    fails = []
    sup = await DynamicSupervisor.start(intensity=10**6)
    pid = await DynamicSupervisor.start_child(sup, probe("a", [], fails=fails))
    fails.extend(["no"] * 10_000)
    exit(pid, "kill")
    await settle()
    (info,) = await DynamicSupervisor.which_children(sup)
    assert (info.id, info.pid) == ("a", "restarting")
    counts = await DynamicSupervisor.count_children(sup)
    assert (counts.specs, counts.active) == (1, 0)
    fails.clear()
    await settle()
    (info,) = await DynamicSupervisor.which_children(sup)
    assert info.pid == whereis("a")


@virtual
async def test_a_suspended_supervisor_restarts_after_it_is_resumed(rt):
    sup = await Supervisor.start([probe("a", [])], name="sup")
    await suspend("sup")
    exit(whereis("a"), "kill")
    await settle()
    assert whereis("a") is None
    await resume("sup")
    await settle()
    assert whereis("a") is not None
    assert (await get_state(sup))["_restarts"] == 1


@virtual
async def test_a_supervisor_ends_with_its_parents_reason_and_stops_its_children(rt):
    events = []

    async def parent():
        await Supervisor.start_link([probe("a", events)], name="sup")
        await receive()

    pid = spawn(parent)
    await settle()
    sup = whereis("sup")
    ended = rt.join(sup)
    exit(pid, "disaster")
    assert await ended == "disaster"
    assert events == ["+a", "-a"]


@virtual
async def test_messages_that_are_not_for_it_do_not_hurt_a_supervisor(rt):
    sup = await Supervisor.start([probe("a", [])])
    other = spawn(forever)
    send(sup, "what?")
    send(sup, Exit(other, "forged"))
    send(sup, Down(rt.new_ref(), other, "stale"))
    assert len(await Supervisor.which_children(sup)) == 1
