"""Global names over nodes that come, go and lose sight of each other."""

import asyncio
import itertools

import pytest

from gossamer.distribution import (
    NameConflict,
    register_name,
    register_resolver,
    registered_names,
    remote_services,
    unregister_name,
    whereis_name,
)
from gossamer.distribution.remote.names import GLOBAL
from gossamer.distribution.remote.resolvers import resolve_conflict
from gossamer.errors import UsageError
from gossamer.supervisor import Pid, Supervisor, receive, self_pid

from .conftest import idle


async def cluster(net, names="ab"):
    nodes = [await net.start(name) for name in names]
    for node in nodes:
        await node.runtime.start(Supervisor, [remote_services(node)])
    net.connect(*nodes)
    await asyncio.sleep(2)
    return nodes


async def where(node, name="x"):
    async def ask():
        return whereis_name(name)

    return await node.runtime.run(ask)


async def given(node, name="x", **options):
    pid = node.runtime.spawn(idle)
    return pid, await node.runtime.run(register_name, name, pid, **options)


async def test_a_name_is_known_on_every_node_and_given_once(net):
    a, b = await cluster(net)
    pid, done = await given(b)
    assert done
    await asyncio.sleep(0.1)
    assert await where(a) == await where(b) == pid
    for node in (a, b):
        assert not (await given(node))[1]
    assert not await a.runtime.run(unregister_name, "x")
    assert await b.runtime.run(unregister_name, "x")
    await asyncio.sleep(0.1)
    assert await where(a) is None
    assert (await given(a))[1]


async def test_of_registrations_at_the_same_time_one_wins(net):
    nodes = await cluster(net, "abc")
    results = await asyncio.gather(*(given(node) for node in nodes))
    (winner,) = [pid for pid, done in results if done]
    await asyncio.sleep(0.5)
    assert {await where(node) for node in nodes} == {winner}
    assert all(node.runtime.alive(pid) for node, (pid, _) in zip(nodes, results, strict=True))


async def test_a_process_that_ends_and_a_node_that_is_lost_free_their_names(net):
    a, b = await cluster(net)
    pid, _ = await given(b)
    await given(b, "y")
    await asyncio.sleep(0.1)
    b.runtime.exit(pid, "kill")
    await asyncio.sleep(0.1)
    assert await where(a) is None
    assert await where(a, "y") is not None
    a.disconnect("b", "down")
    await asyncio.sleep(0.1)

    async def names():
        return registered_names()

    assert await a.runtime.run(names) == []


def by_number(name, older, younger):
    """A user's rule: the greater process number keeps the name."""
    return max(older, younger, key=lambda pid: pid.number)


def broken(name, older, younger):
    raise RuntimeError("no rule today")


def stranger(name, older, younger):
    return Pid("nowhere", 1, 1)


register_resolver("by_number", by_number)
register_resolver("broken", broken)
register_resolver("stranger", stranger)


@pytest.mark.parametrize(
    ("resolve", "keeps", "kills"),
    [
        ("exit", "older", True),
        ("notify", "older", False),
        ("random_exit", "by lot", True),
        ("random_notify", "by lot", False),
        ("notify_all", "nobody", False),
        ("by_number", "younger", False),
        ("broken", "older", True),
        ("stranger", "older", True),
    ],
)
async def test_a_conflict_ends_as_the_registration_says(net, resolve, keeps, kills):
    a, b = await cluster(net)
    net.cut("a", "b")
    a.disconnect("b", "down")
    b.disconnect("a", "down")
    told = {}

    async def listen():
        told[self_pid()] = await receive()
        await idle()

    older = a.runtime.spawn(listen)
    for _ in range(20):
        younger = b.runtime.spawn(listen)
    assert await a.runtime.run(register_name, "x", older)
    assert await b.runtime.run(register_name, "x", younger, resolve=resolve)
    net.heal()
    net.connect(a, b)
    await asyncio.sleep(10)
    holder = await where(a)
    assert holder == await where(b)
    if keeps == "by lot":
        assert holder in (older, younger)
    else:
        assert holder == {"older": older, "younger": younger, "nobody": None}[keeps]
    losers = {older, younger} - {holder}
    alive = {pid for node in (a, b) for pid in node.runtime.processes()}
    assert losers & alive == (set() if kills else losers)
    assert told == ({} if kills else {pid: NameConflict("x", holder) for pid in losers})
    # Whoever lost it may not give it back, and the name goes on as any other.
    if holder is None:
        assert (await given(a))[1]


async def test_the_lot_falls_on_either(net):
    pids = [Pid("a", 1, number) for number in range(20)]
    kept = [resolve_conflict("random_exit", "x", Pid("b", 1, 1), pid).keeps == pid for pid in pids]
    assert 0 < sum(kept) < len(pids)


async def test_a_resolver_that_nobody_knows_is_refused_at_the_registration(net):
    a, _ = await cluster(net)
    with pytest.raises(UsageError, match="random_exit"):
        await given(a, resolve="my rule")
    for taken in ("exit", "by_number"):
        with pytest.raises(UsageError, match="not taken"):
            register_resolver(taken, lambda *_: None)


async def test_three_holders_end_as_one(net):
    nodes = await cluster(net, "abc")
    for one, two in itertools.combinations(nodes, 2):
        one.disconnect(two.runtime.node, "down")
        two.disconnect(one.runtime.node, "down")
    net.cut(*"abc")
    held = [await given(node, resolve="random_notify") for node in nodes]
    assert all(done for _, done in held)
    net.heal()
    net.connect(*nodes)
    await asyncio.sleep(30)
    (holder,) = {await where(node) for node in nodes}
    assert holder in [pid for pid, _ in held]


async def test_a_server_that_restarts_keeps_its_names(net):
    a, b = await cluster(net)
    pid, _ = await given(b)
    b.runtime.exit(b.runtime.whereis(GLOBAL), "kill")
    await asyncio.sleep(1)
    assert await where(a) == await where(b) == pid
    b.runtime.exit(pid, "kill")
    await asyncio.sleep(1)
    assert await where(a) is await where(b) is None


async def test_only_a_live_local_process_gets_a_name(net):
    a, b = await cluster(net)
    with pytest.raises(UsageError, match="live process of node a"):
        await a.runtime.run(register_name, "x", b.runtime.spawn(idle))
