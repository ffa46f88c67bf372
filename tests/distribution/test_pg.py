"""Process groups over nodes that come, go and lose sight of each other."""

import asyncio

import pytest

from gossamer.distribution import RemoteProcesses
from gossamer.distribution.remote.pg import PG, Groups, Pg, join, leave
from gossamer.errors import UsageError

from .conftest import idle


async def start(node):
    RemoteProcesses(node)
    node.groups = Groups()
    await node.runtime.start(Pg, node, node.groups, name=PG)


async def pg_pair(net):
    a, b = await net.pair()
    await start(a)
    await start(b)
    await asyncio.sleep(1)
    return a, b


async def joined(node, group, number=1):
    pids = [node.runtime.spawn(idle) for _ in range(number)]
    await node.runtime.run(join, group, pids)
    return pids


async def test_every_node_sees_the_members_of_all(net):
    a, b = await pg_pair(net)
    here, there = await joined(a, "pool", 2), await joined(b, "pool")
    await asyncio.sleep(0.1)
    for node in (a, b):
        assert sorted(node.groups.members("pool")) == sorted(here + there)
        assert node.groups.of_node("a") == {"pool": here}
    await a.runtime.run(leave, "pool", here[0])
    await asyncio.sleep(0.1)
    assert sorted(b.groups.members("pool")) == sorted([here[1], *there])


async def test_a_member_that_ends_leaves(net):
    a, b = await pg_pair(net)
    (pid,) = await joined(a, "pool")
    await asyncio.sleep(0.1)
    assert b.groups.members("pool") == [pid]
    a.runtime.exit(pid, "kill")
    await asyncio.sleep(0.1)
    assert a.groups.names() == b.groups.names() == []


async def test_a_late_server_learns_what_was_before(net):
    a, b = await net.pair()
    await start(a)
    (pid,) = await joined(a, "pool")
    await asyncio.sleep(1)
    await start(b)
    await asyncio.sleep(1)
    assert b.groups.members("pool") == [pid]


async def test_a_lost_node_takes_its_members_and_brings_them_back(net):
    a, b = await pg_pair(net)
    (here,), (there,) = await joined(a, "pool"), await joined(b, "pool")
    await asyncio.sleep(0.1)
    a.disconnect("b", "failed")
    await asyncio.sleep(0.1)
    assert a.groups.members("pool") == [here]
    a.connect("b", 1, ("b", 4370))
    await asyncio.sleep(10)
    for node in (a, b):
        assert sorted(node.groups.members("pool")) == sorted([here, there])


async def test_a_server_that_restarts_keeps_its_members(net):
    a, b = await pg_pair(net)
    (pid,) = await joined(a, "pool")
    a.runtime.exit(a.runtime.whereis(PG), "kill")
    await asyncio.sleep(0.1)
    await a.runtime.start(Pg, a, a.groups, name=PG)
    await asyncio.sleep(1)
    assert a.groups.members("pool") == b.groups.members("pool") == [pid]
    a.runtime.exit(pid, "kill")
    await asyncio.sleep(0.1)
    assert b.groups.members("pool") == []


async def test_only_live_local_processes_join(net):
    a, b = await pg_pair(net)
    remote = b.runtime.spawn(idle)
    with pytest.raises(UsageError, match="live process of node a"):
        await a.runtime.run(join, "pool", remote)
