"""Processes that call, link and watch each other across nodes, on virtual time."""

import asyncio
import pickle

import pytest

from gossamer.distribution import (
    RemoteProcesses,
    TermError,
    connect_node,
    node,
    nodes,
)
from gossamer.supervisor import (
    CallTimeout,
    Crash,
    Down,
    Exit,
    GenServer,
    NoReply,
    Pid,
    Reply,
    call,
    demonitor,
    exit,  # noqa: A004
    link,
    monitor,
    receive,
    trap_exit,
    unlink,
)
from gossamer.supervisor.process.signals import ExitSignal

from .conftest import failure, idle


class Counter(GenServer):
    async def init(self):
        self.total = 0

    async def handle_call(self, request, caller):
        match request:
            case "total":
                return Reply(self.total)
            case "who":
                return Reply(caller.pid)
            case "crash":
                raise ValueError("as asked")
            case "silence":
                return NoReply()
            case "object":
                return Reply(object())
            case _:
                return Reply((request, self.process.pid))

    async def handle_cast(self, request):
        self.total += request


async def remote_pair(net, **options):
    """Two nodes with remote processes, and a server on b."""
    a, b = await net.pair(**options)
    RemoteProcesses(a)
    RemoteProcesses(b)
    server = await b.runtime.start(Counter, name="counter")
    return a, b, server


async def test_a_call_that_fails_says_how(net):
    a, b, server = await remote_pair(net)
    assert await failure(a.runtime.call(Pid("b", 0, server.number), 1)) == "noproc"
    with pytest.raises(CallTimeout):
        await a.runtime.call(server, "silence", 1.0)
    reason = await failure(a.runtime.call(server, "crash"))
    assert isinstance(reason, Crash)
    assert reason.error == "ValueError"
    assert not b.runtime.alive(server)


async def test_a_lost_node_ends_calls_links_and_monitors(net):
    a, b, server = await remote_pair(net)
    target = b.runtime.spawn(idle)
    seen = []

    async def watcher():
        trap_exit()
        ref = monitor(target)
        named = monitor(("counter", "b"))
        link(target)
        while len(seen) < 3:
            seen.append(await receive())
        assert {m.ref for m in seen if isinstance(m, Down)} == {ref, named}

    async def caller():
        return await failure(call(server, "silence"))

    watching = a.runtime.spawn(watcher)
    calling = asyncio.ensure_future(a.runtime.run(caller))
    await asyncio.sleep(1)
    net.reset()
    await asyncio.sleep(1)
    # A link that breaks and comes back ends nothing.
    assert seen == []
    a.disconnect("b", "failed")
    await asyncio.sleep(0)
    assert await calling == "noconnection"
    await asyncio.sleep(0.1)
    assert {type(m) for m in seen} == {Down, Exit}
    assert {m.reason for m in seen} == {"noconnection"}
    assert not a.runtime.remote_calls
    assert not a.runtime.alive(watching)
    # b's process was linked to a's: once b hears of it, it ends too.
    a.connect("b", 1, ("b", 4370))
    await asyncio.sleep(10)
    assert not b.runtime.alive(target)


async def test_exit_signals_cross_and_untie(net):
    a, b, _ = await remote_pair(net)
    target = b.runtime.spawn(idle)
    reasons = []

    async def linked():
        trap_exit()
        link(target)
        ref = monitor(target)
        await asyncio.sleep(0.1)
        exit(target, ("custom", ("reason", 1)))
        reasons.extend([await receive(), await receive()])
        assert Down(ref, target, ("custom", ("reason", 1))) in reasons
        assert Exit(target, ("custom", ("reason", 1))) in reasons
        link(target)
        assert await receive() == Exit(target, "noproc")
        assert (await receive(timeout=1) if monitor(target) else None).reason == "noproc"

    await a.runtime.run(linked)
    assert not b.runtime.alive(target)


async def test_an_unlinked_and_demonitored_process_is_not_told(net):
    a, b, _ = await remote_pair(net)
    target = b.runtime.spawn(idle)

    async def body():
        trap_exit()
        link(target)
        ref = monitor(target)
        named = monitor(target)
        unlink(target)
        demonitor(ref)
        exit(target, "kill")
        assert await receive() == Down(named, target, "killed")
        with pytest.raises(TimeoutError):
            await receive(timeout=2)

    await a.runtime.run(body)


@pytest.mark.parametrize("ends", ["here", "there"])
async def test_whoever_of_two_linked_processes_ends_takes_the_other_along(net, ends):
    a, b, _ = await remote_pair(net)
    target = b.runtime.spawn(idle)

    async def body():
        link(target)
        await idle()

    pid = a.runtime.spawn(body)
    await asyncio.sleep(0.1)
    a.runtime.exit(pid, "boom") if ends == "here" else b.runtime.exit(target, "boom")
    await asyncio.sleep(0.1)
    assert not a.runtime.alive(pid)
    assert not b.runtime.alive(target)


async def test_ties_of_ended_processes_are_forgotten(net):
    a, _, server = await remote_pair(net)

    async def brief():
        monitor(server)
        link(server)

    await a.runtime.run(brief)
    await asyncio.sleep(0.1)
    assert not a.runtime.remote_links["b"]


async def test_what_may_not_travel_is_refused_where_it_can_be_seen(net):
    a, _, server = await remote_pair(net, config={"max_frame": 100_000, "retention": 1_000_000})
    with pytest.raises(TermError, match="object"):
        await a.runtime.call(server, object())
    with pytest.raises(TermError):
        a.runtime.send(server, object())
    assert (await failure(a.runtime.call(server, "object")))[0] == "unsendable"
    # Nobody was hurt.
    assert await a.runtime.call(server, "total") == 0


async def test_an_exit_reason_that_cannot_travel_becomes_text(net):
    a, b, _ = await remote_pair(net)
    target = b.runtime.spawn(idle)

    async def body():
        monitor(target)
        await asyncio.sleep(0.1)
        b.runtime.exit(target, ("odd", object()))
        return (await receive()).reason

    reason = await a.runtime.run(body)
    assert reason[0] == "unsendable"
    assert "odd" in reason[1]


async def test_a_peer_speaks_for_its_own_processes_only(net):
    a, b, _ = await remote_pair(net)
    target = b.runtime.spawn(idle)
    for forged in (Pid("c", 1, 1), Pid("a", 9, 1), Pid("b", 1, 1)):
        a.runtime.remote.route(ExitSignal("b", target, forged, "kill", linked=False))
    await asyncio.sleep(1)
    assert b.runtime.alive(target)
    assert b.runtime.remote.counts.stale == 3
    a.runtime.remote.route(ExitSignal("b", target, Pid("a", 1, 1), "kill", linked=False))
    await asyncio.sleep(1)
    assert not b.runtime.alive(target)


class Explosive:
    """What would run code where it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


async def test_bytes_that_are_no_signal_are_counted_and_hurt_nobody(net):
    a, b, server = await remote_pair(net)
    for junk in (b"", b"\xc1", b"\x81\xa4type\xa4send", bytes(1000), pickle.dumps(Explosive())):
        a.send("b", "control", junk)
    await asyncio.sleep(1)
    assert b.runtime.remote.counts.unreadable == 5
    assert await a.runtime.call(server, "total") == 0


async def test_a_process_sees_nodes(net):
    a, _, _ = await remote_pair(net)

    async def body():
        assert node() == "a"
        assert nodes() == ["b"]
        assert await connect_node("b")
        assert not await connect_node("z", timeout=1)
        a.disconnect("b", "failed")
        assert nodes() == []

    await a.runtime.run(body)
