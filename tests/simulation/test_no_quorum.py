"""Sessions that are copied, and whose quorum is out of reach, or must be waited for."""

import asyncio

import pytest

from gossamer.basekv import NotWrittenError
from gossamer.mqtt.client import RefusedError
from gossamer.raft import NotReadyError

from .clusters import heal, nodes, restart, until
from .copied import COPIED, STRICT, formed, having
from .flows import SESSION, gone, numbered, resumed, session


@nodes(3, seeds=2, **COPIED)
async def test_the_session_of_a_publisher_that_began_anew_is_copied(sim, cluster):
    """It subscribes to nothing, in neither of its sessions, and so is not waited for."""
    await formed(cluster)
    first = await cluster.client(1, "p", **SESSION)
    await first.publish("t", b"1", qos=2)
    await asyncio.sleep(1)
    cluster.crash(1)
    await asyncio.sleep(10)
    copies = cluster.nodes[3].broker.copies
    keys, copies._keys = copies._keys, OutOfReach(copies._keys)
    client = await cluster.client(3, "p", **SESSION, timeout=30)
    assert not client.session_present
    copies._keys = keys
    await until(lambda: copies.copy_of("p").state == "level", within=20)
    async with asyncio.timeout(5):
        await client.publish("t", b"2", qos=2)


class OutOfReach:
    """Ranges that do not answer."""

    def __init__(self, keys):
        self.range_of = keys.range_of

    async def write(self, operations, expected=()):
        raise NotWrittenError("no quorum has answered", unknown=True)

    async def scan(self, start, end):
        raise NotReadyError("read", "no quorum has answered")


@nodes(3, seeds=2, **COPIED)
async def test_what_a_copy_has_waits_until_a_client_that_began_anew_has_subscribed(sim, cluster):
    """No quorum could be read as it came; it subscribes to the same again, one by one."""
    await formed(cluster)
    await gone(cluster, 1, "c", "a", "b", qos=2)
    speaker = await cluster.client(2)
    for topic in ("a", "b"):
        await numbered(speaker, topic, 5, qos=2)
    await asyncio.sleep(1)
    cluster.crash(1)
    await asyncio.sleep(10)
    copies = cluster.nodes[3].broker.copies
    keys, copies._keys = copies._keys, OutOfReach(copies._keys)
    client = await cluster.client(3, "c", **SESSION, timeout=30)
    assert not client.session_present
    await asyncio.sleep(3)
    await client.subscribe("a", qos=2)
    copies._keys = keys
    await asyncio.sleep(1.5)
    await client.subscribe("b", qos=2)
    await asyncio.sleep(15)
    assert sorted(client.payloads()) == sorted(2 * [b"%d" % n for n in range(5)])
    await restart(cluster, 1, pause=15)
    assert len(client.payloads()) == 10


@nodes(3, seeds=3, **COPIED)
async def test_what_a_client_published_again_elsewhere_is_not_passed_on_by_the_node_before(sim, cluster):
    """That one had no quorum, and still holds its connection when it has one again."""
    await formed(cluster)
    listener = await session(cluster, 2, "listener", "t", qos=2)
    before = await cluster.client(1, "c", **SESSION)
    await before.publish("t", b"0", qos=2)
    cluster.partition([1], [2, 3])
    await asyncio.sleep(15)
    unanswered = asyncio.ensure_future(before.publish("t", b"1", qos=2))
    await asyncio.sleep(1)
    assert not unanswered.done()
    again = await resumed(cluster, 3, "c")
    await again.publish("t", b"1", qos=2)
    again.drop()
    await heal(cluster, pause=20)
    unanswered.cancel()
    assert listener.payloads() == [b"0", b"1"]
    assert having(cluster, "c") == [3]


@nodes(3, seeds=2, **COPIED)
async def test_without_a_quorum_a_session_is_served_by_its_node_and_copied_again_later(sim, cluster):
    await formed(cluster)
    client = await session(cluster, 1, "c", "t", qos=1)
    cluster.crash(2)
    cluster.crash(3)
    await asyncio.sleep(15)
    speaker = await cluster.client(1)
    sent = await numbered(speaker, "t", 5)
    await asyncio.sleep(1)
    assert client.payloads() == sent
    copies = cluster.nodes[1].broker.copies
    assert copies.behind > 0
    client.drop()
    more = await numbered(speaker, "t", 5, first=5)
    await restart(cluster, 2)
    await restart(cluster, 3)
    await until(lambda: copies.behind == 0, within=60)
    cluster.crash(1)
    client = await cluster.client(2, "c", **SESSION, timeout=30)
    assert client.session_present
    await asyncio.sleep(2)
    assert client.payloads() == more


@nodes(3, seeds=3, **STRICT)
async def test_without_a_quorum_no_client_is_served_with_a_session_that_may_be_stale(sim, cluster):
    """It is refused at the lone node, and goes on at the larger side with all that was acknowledged."""
    await formed(cluster)
    client = await session(cluster, 1, "c", "t/#", qos=1)
    speaker, lone = await cluster.client(2), await cluster.client(1)
    sent = await numbered(speaker, "t/1", 5)
    await asyncio.sleep(1)
    cluster.partition([1], [2, 3])
    await asyncio.sleep(15)
    # Nothing of it has changed: whoever has it from the quorum has all of it.
    assert not client.lost.done()
    await lone.publish("t/lone", b"changed", qos=1)
    await asyncio.wait_for(client.lost, 10)
    assert client.left == 0x89
    await lone.publish("t/lone", b"kept", qos=1)
    for version in (4, 5):
        with pytest.raises(RefusedError, match="0x88" if version == 5 else "0x03"):
            await cluster.client(1, "c", version=version, **SESSION)
    # At once, once one has waited.
    with pytest.raises(RefusedError, match="0x88"):
        await cluster.client(1, "another", clean_start=True, session_expiry=60, timeout=4)
    await cluster.client(1, "transient")
    sent += await numbered(speaker, "t/1", 5, first=5)
    again = await cluster.client(2, "c", **SESSION, timeout=30)
    assert again.session_present
    await asyncio.sleep(1)
    got = [m.payload for m in (*client.messages, *again.messages) if m.topic == b"t/1"]
    assert list(dict.fromkeys(got)) == sent
    await heal(cluster, pause=20)
    assert b"kept" in again.payloads()
    assert having(cluster, "c") == [2]
    again.drop()
    assert (await cluster.client(1, "c", **SESSION)).session_present


class Slow:
    """Ranges that take a while to answer."""

    def __init__(self, keys):
        self._keys, self.write, self.range_of = keys, keys.write, keys.range_of

    async def scan(self, start, end):
        await asyncio.sleep(0.5)
        return await self._keys.scan(start, end)


@nodes(3, seeds=2, **STRICT)
@pytest.mark.parametrize("insist", [False, True])
async def test_a_client_that_waits_for_a_quorum_keeps_its_session(sim, cluster, insist):
    """Another node asks for it meanwhile, for a connection of before."""
    await formed(cluster)
    await gone(cluster, 1, "c", "t", qos=2)
    await asyncio.sleep(1)
    broker = cluster.nodes[1].broker
    broker.copies._keys = Slow(broker.copies._keys)
    arrival = asyncio.create_task(cluster.client(1, "c", **SESSION, timeout=30))
    await asyncio.sleep(0.2)
    before = ("token", cluster.nodes[3].runtime.node, 1, 60.0, insist, [None])
    assert await broker.takeovers._freeze("c", *before) == "newer"
    client = await arrival
    assert client.session_present
    assert await numbered(await cluster.client(2), "t", 5, qos=2) == client.payloads()


@nodes(3, seeds=2, **STRICT)
async def test_a_client_whose_session_goes_while_it_waits_for_a_quorum_waits_for_it(sim, cluster):
    """A later connection at another node has it fetched, and is gone by then."""
    await formed(cluster)
    await gone(cluster, 1, "c", "t", qos=2)
    await asyncio.sleep(1)
    copies = cluster.nodes[1].broker.copies
    copies._keys = Slow(copies._keys)
    arrival = asyncio.create_task(cluster.client(1, "c", **SESSION, timeout=30))
    await asyncio.sleep(0.2)
    (await cluster.client(3, "c", **SESSION)).drop()
    client = await arrival
    assert client.session_present
    assert await numbered(await cluster.client(2), "t", 5, qos=2) == client.payloads()
    await asyncio.sleep(15)
    assert client.connected
    assert having(cluster, "c") == [1]


@nodes(3, seeds=2, **STRICT)
async def test_a_stale_session_is_replaced_before_its_client_is_served(sim, cluster):
    """By the node that was cut off, whose client went on elsewhere meanwhile, as soon as it has a quorum."""
    await formed(cluster)
    await gone(cluster, 1, "c", "t", qos=1)
    speaker = await cluster.client(2)
    cluster.partition([1], [2, 3])
    await asyncio.sleep(15)
    client = await resumed(cluster, 3, "c")
    await client.subscribe("later", qos=1)
    client.drop()
    sent = await numbered(speaker, "later", 5)
    cluster.heal()
    async with asyncio.timeout(60):
        while True:
            try:
                client = await cluster.client(1, "c", **SESSION)
            except (RefusedError, TimeoutError):
                await asyncio.sleep(0.2)
            else:
                break
    assert client.session_present
    await asyncio.sleep(5)
    assert client.payloads() == sent
