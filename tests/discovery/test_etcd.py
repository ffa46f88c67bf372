"""The etcd strategy against a real etcd, which is killed, frozen and restarted."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from discovery.etcds import Node, Server, eventually, free_port, keys
from gossamer.discovery import DiscoveryFailedError
from gossamer.discovery.etcd import addresses_of
from gossamer.discovery.etcd_client import Item


@pytest.fixture
def server(tmp_path: Path):
    with Server(tmp_path / "etcd") as server:
        yield server


def test_the_register_is_in_order_of_age_and_passes_over_what_is_not_ours() -> None:
    good = b'{"address":"10.0.0.%d","port":7946}'
    garbage = [
        b"",
        b"\xff",
        b"[]",
        b'{"address":"evil.example","port":1}',
        b'{"address":"10.0.0.9","port":0}',
    ]
    items = [Item("n/a", good % 1, 9), Item("n/b", good % 2, 7)]
    found = addresses_of([*items, *(Item(f"n/{n}", value, 1) for n, value in enumerate(garbage))])
    assert found == (("10.0.0.2", 7946), ("10.0.0.1", 7946))


async def test_nodes_find_each_other_oldest_first_and_are_forgotten_in_order(server: Server) -> None:
    one, two = await Node(server, 1).start(), await Node(server, 2).start()
    assert (await one.enter()).addresses == ()
    assert (await two.enter()).addresses == (one.member.endpoint,)
    await one.sees(1, 2)
    assert (await one.strategy.discover(one.member.endpoint)).addresses[0] == one.member.endpoint
    await two.stop()
    await one.sees(1)
    assert await keys(one.client) == ["g/test/nodes/node1"]
    await one.stop()


async def test_many_nodes_enter_one_after_another(server: Server) -> None:
    nodes = [await Node(server, number).start() for number in range(1, 9)]
    found = await asyncio.gather(*(node.enter() for node in nodes))
    assert sorted(len(one.addresses) for one in found) == list(range(8)), "each saw all before it"
    assert len(await keys(nodes[0].client)) == 8
    for node in nodes:
        await node.stop()


async def test_a_node_that_dies_with_the_lock_leaves_neither_lock_nor_key(server: Server) -> None:
    """Nor does it when etcd is killed and restarted meanwhile."""
    dead, alive = await Node(server, 1, ttl=3).start(), await Node(server, 2).start()
    await dead.enter()
    await dead.strategy.lock()
    dead.runtime.halt()
    await dead.client.close()
    server.kill()
    server.start()
    assert len(await keys(alive.client)) == 2
    await alive.enter()
    await eventually(lambda: _only(alive, "g/test/nodes/node2"))
    await alive.stop()


async def _only(node: Node, key: str) -> bool:
    return await keys(node.client) == [key]


async def test_who_was_frozen_beyond_its_lock_is_fenced_off(server: Server) -> None:
    slow, quick = Node(server, 1), Node(server, 2)
    await keys(slow.client)
    await slow.strategy.lock()
    await slow.client.revoke(slow.strategy._lock_lease)  # what time does to it while it is frozen
    await quick.strategy.lock()
    with pytest.raises(DiscoveryFailedError, match="lost before this node had registered"):
        await slow.strategy.register(slow.member)
    await quick.strategy.register(quick.member)
    await slow.strategy.unlock()
    assert f"g/test/lock/{quick.strategy._lock_lease:016x}" in await keys(quick.client)
    for node in (slow, quick):
        await node.strategy.release()


async def test_a_lock_that_another_holds_is_told_by_its_name(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gossamer.discovery.etcd.LOCK_WAIT", 0.3)
    holder, waiter = Node(server, 1), Node(server, 2)
    await keys(holder.client)
    await holder.strategy.lock()
    with pytest.raises(DiscoveryFailedError, match="held by node1"):
        await waiter.strategy.lock()
    await waiter.strategy.unlock()
    assert len(await keys(holder.client)) == 1
    for node in (holder, waiter):
        await node.strategy.release()


async def test_a_killed_etcd_loses_nothing_and_is_asked_again(server: Server) -> None:
    one, two = await Node(server, 1, ttl=60).start(), await Node(server, 2, ttl=60).start()
    await one.enter()
    await one.sees(1)
    for number in (3, 4):
        server.kill()
        await eventually(one.troubled)
        assert (await one.strategy.discover(one.member.endpoint)).addresses, "the last known stands"
        server.start()
        other = await Node(server, number).start()
        await other.enter()
        await one.sees(*{1, *range(3, number + 1)})
    await two.enter()
    await one.sees(1, 2, 3, 4)
    for node in (one, two):
        await node.stop()


async def test_a_frozen_etcd_is_a_problem_in_time_and_no_end(server: Server) -> None:
    one, two = await Node(server, 1, ttl=3.0).start(), await Node(server, 2).start()
    await one.enter()
    server.signal(signal.SIGSTOP)
    with pytest.raises(DiscoveryFailedError, match=r"no answer within 1 s|cannot be reached"):
        await two.strategy.lock()
    await two.strategy.unlock()
    server.signal(signal.SIGCONT)
    await two.enter()
    await one.strategy.discover(one.member.endpoint)
    # Should its lease have run out meanwhile, its loop registers again.
    if not one.strategy.registered:
        await one.enter()
    await two.sees(1, 2)
    for node in (one, two):
        await node.stop()


async def test_a_key_that_somebody_deleted_is_registered_again(server: Server) -> None:
    node = await Node(server, 1).start()
    await node.enter()
    await node.sees(1)
    await node.client.revoke(node.strategy._lease)
    await node.strategy.discover(node.member.endpoint)
    assert not node.strategy.registered
    await node.enter()
    await node.sees(1)
    await node.stop()


async def test_a_lease_that_is_gone_is_as_good_as_revoked(server: Server) -> None:
    client = server.client()
    assert await keys(client) == []
    lease = await client.grant(10.0)
    for _ in range(2):
        await client.revoke(lease)
    await client.close()


async def test_a_register_larger_than_a_page_is_read_whole_at_one_revision(server: Server) -> None:
    client = server.client()
    await keys(client)
    lease = await client.grant(60)
    for number in range(450):
        await client.create(f"g/test/nodes/n{number}", b"{}", lease)
    items = await client.range("g/test/nodes/")
    assert len({item.key for item in items}) == 450
    await client.close()


async def test_a_dead_endpoint_is_no_problem_and_all_dead_are_one(server: Server) -> None:
    """Lease and loop each go from endpoint to endpoint; what is told does not change with that."""
    dead = free_port(), free_port()
    node = await Node(server, 1, ttl=3, client=server.client(*dead)).start()
    await node.enter()
    await node.sees(1)
    # Long enough for the lease of 3 s to be renewed, too.
    assert await told_by(node) == {()}
    server.kill()
    await eventually(node.troubled)
    told = await told_by(node)
    ports = ", ".join(f"127.0.0.1:{port}" for port in (*dead, server.port))
    assert told == {((f"etcd {ports}", "cannot be reached; does etcd run there, does it want TLS?"),)}
    server.start()
    # On a machine with much to do, the lease has run out meanwhile; the loop would register again.
    await node.enter()
    await node.sees(1)
    await node.stop()


async def told_by(node: Node) -> set[tuple[tuple[str, str], ...]]:
    """Every problem that looks at one and a half seconds find."""
    told = set()
    for _ in range(30):
        told.add(tuple((await node.strategy.discover(node.member.endpoint)).problems.items()))
        await asyncio.sleep(0.05)
    return told


async def test_a_renewal_that_failed_is_tried_again_soon(server: Server) -> None:
    node = await Node(server, 1, ttl=60).start()
    await node.enter()
    server.signal(signal.SIGSTOP)
    assert await node.strategy.keep() < 10, "it is not left for a third of the lease"
    assert "frozen" in next(iter((await node.strategy.discover(node.member.endpoint)).problems.values()))
    server.signal(signal.SIGCONT)
    assert await node.strategy.keep() == 20
    assert (await node.strategy.discover(node.member.endpoint)).problems == {}
    await node.stop()
