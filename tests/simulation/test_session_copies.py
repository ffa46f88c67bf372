"""A session goes on at another node while its own is down, with everything that was acknowledged."""

import asyncio

import pytest

from gossamer.basekv import KINDS, NotWrittenError
from gossamer.mqtt.client import RefusedError
from gossamer.raft import NotReadyError
from gossamer.testing.traffic import Flow

from .clusters import heal, nodes, restart, until
from .flows import SESSION, gone, new_session, numbered, resumed, session, stop

COPIED = {"discs": True, "sessions": {"replication": "auto"}}
STRICT = {"discs": True, "sessions": {"replication": "auto", "on_no_quorum": "refuse"}}


async def formed(cluster):
    """Wait until all nodes copy their sessions, and each range has a leader."""
    copies = [node.broker.copies for node in cluster.nodes.values()]
    await until(lambda: all(one.begun() for one in copies), within=90, pause=0.5)
    led = set()
    async with asyncio.timeout(60):
        while not led >= set(KINDS):
            for node in cluster.nodes.values():
                groups = await node.runtime.call("raft", "status")
                led |= {group["kind"] for group in groups if group["role"] == "leader"}
            await asyncio.sleep(0.5)


def having(cluster, client_id):
    """Numbers of the nodes that have a client's session."""
    return [number for number, node in cluster.nodes.items() if client_id in node.broker.sessions]


@nodes(3, seeds=3, **COPIED)
@pytest.mark.parametrize("qos", [1, 2])
async def test_a_session_goes_on_elsewhere_while_its_node_is_down(sim, cluster, qos):
    """With what was queued before its node died, and what came since; and nothing twice once that is back."""
    await formed(cluster)
    await gone(cluster, 1, "c", "t/#", qos=qos)
    speaker = await cluster.client(2)
    sent = await numbered(speaker, "t/1", 20, qos=qos)
    cluster.crash(1)
    # Before the other nodes know that it is down, and after.
    sent += await numbered(speaker, "t/1", 20, qos=qos, first=20, pause=0.3)
    client = await resumed(cluster, 3, "c", pause=2)
    assert client.payloads() == sent
    sent += await numbered(speaker, "t/1", 5, qos=qos, first=40)
    await asyncio.sleep(1)
    assert client.payloads() == sent
    await restart(cluster, 1, pause=15)
    assert client.payloads() == sent
    assert having(cluster, "c") == [3]


@nodes(3, seeds=4, **COPIED)
@pytest.mark.parametrize("qos", [1, 2])
async def test_its_node_dies_while_messages_flow_and_nothing_is_lost_or_doubled(sim, cluster, qos):
    await formed(cluster)
    flows = [Flow(await cluster.client(n), f"t/{n}", qos=qos, pause=0.01) for n in (2, 3)]
    lives = [await session(cluster, 1, "c", "t/#", qos=qos)]
    for flow in flows:
        flow.start()
    await asyncio.sleep(sim.rng("death").uniform(0.5, 2))
    cluster.crash(1)
    lives.append(await cluster.client(2, "c", **SESSION, timeout=30))
    assert lives[-1].session_present
    await asyncio.sleep(2)
    await stop(flows)
    await restart(cluster, 1, pause=15)
    got = [m for life in lives for m in life.messages]
    for flow in flows:
        assert len(flow.acknowledged) > 50
        mine = [m.payload for m in got if m.topic == flow.topic.encode()]
        assert not set(flow.acknowledged) - set(mine)
        first = [m.payload for m in got if m.topic == flow.topic.encode() and not m.dup]
        if qos == 2:
            assert len(first) == len(set(first))
        order = list(dict.fromkeys(mine))
        assert order == sorted(order, key=flow.sent.index)


@nodes(3, seeds=2, **COPIED)
async def test_a_session_goes_on_from_node_to_node_as_one_after_the_other_dies(sim, cluster):
    await formed(cluster)
    await gone(cluster, 1, "c", "t", qos=2)
    speaker = await cluster.client(3)
    sent = await numbered(speaker, "t", 5, qos=2)
    cluster.crash(1)
    client = await resumed(cluster, 2, "c", pause=2)
    assert client.payloads() == sent
    client.drop()
    await restart(cluster, 1, pause=10)
    later = await numbered(speaker, "t", 5, qos=2, first=5)
    cluster.crash(2)
    client = await cluster.client(1, "c", **SESSION, timeout=30)
    assert client.session_present
    await asyncio.sleep(2)
    assert client.payloads() == later
    await restart(cluster, 2, pause=15)
    assert client.payloads() == later
    assert having(cluster, "c") == [1]


@nodes(3, seeds=2, **COPIED)
async def test_a_message_that_fits_no_value_is_in_the_copy_too(sim, cluster):
    await formed(cluster)
    await gone(cluster, 1, "c", "large/#", qos=1)
    speaker = await cluster.client(2)
    for number in range(3):
        await speaker.publish(f"large/{number}", b"%d" % number * 350_000, qos=1)
    cluster.crash(1)
    client = await cluster.client(3, "c", **SESSION, timeout=30)
    assert client.session_present
    await asyncio.sleep(3)
    assert client.payloads() == [b"%d" % number * 350_000 for number in range(3)]


@nodes(3, seeds=2, **COPIED)
async def test_a_clean_start_elsewhere_ends_what_was_copied(sim, cluster):
    await formed(cluster)
    await gone(cluster, 1, "c", "t", qos=1)
    speaker = await cluster.client(2)
    await numbered(speaker, "t", 5)
    cluster.crash(1)
    await asyncio.sleep(10)
    (await cluster.client(3, "c")).drop()
    await asyncio.sleep(2)
    client = await new_session(cluster, 2, "c", "other", qos=1)
    await asyncio.sleep(2)
    assert client.messages == []


@nodes(3, seeds=2, **COPIED)
async def test_all_die_and_the_node_of_a_session_stays_away(sim, cluster):
    await formed(cluster)
    await gone(cluster, 1, "c", "t", qos=1)
    speaker = await cluster.client(2)
    sent = await numbered(speaker, "t", 5)
    for number in (1, 2, 3):
        cluster.crash(number)
    await asyncio.sleep(5)
    await asyncio.gather(cluster.restart(2), cluster.restart(3))
    await until(lambda: all(node.broker.copies.begun() for node in cluster.nodes.values()), within=60)
    await asyncio.sleep(10)
    client = await cluster.client(3, "c", **SESSION, timeout=30)
    assert client.session_present
    await asyncio.sleep(2)
    assert client.payloads() == sent


@nodes(3, seeds=3, **COPIED)
async def test_a_client_of_the_smaller_side_of_a_cut_goes_on_at_the_larger(sim, cluster):
    """What was acknowledged on either side comes in the end, QoS 2 once."""
    await formed(cluster)
    await gone(cluster, 1, "c", "t/#", qos=2)
    inside, outside = await cluster.client(1), await cluster.client(2)
    await numbered(inside, "t/in", 5, qos=2)
    cluster.partition([1], [2, 3])
    await asyncio.sleep(15)
    await numbered(inside, "t/in", 5, qos=2, first=5)
    await numbered(outside, "t/out", 5, qos=2)
    client = await resumed(cluster, 3, "c", pause=2)
    assert client.payloads() == [b"%d" % n for n in (*range(5), *range(5))]
    await heal(cluster, pause=20)
    assert sorted(client.payloads()) == sorted(b"%d" % n for n in (*range(10), *range(5)))


@nodes(3, seeds=3, **COPIED)
@pytest.mark.parametrize("qos", [1, 2])
async def test_what_was_on_its_way_to_the_node_before_when_it_came_back_arrives(sim, cluster, qos):
    """Its node is back while its session is being adopted, and so gets what is sent until it is; of that,
    some comes after the node knows that its session has gone."""
    await formed(cluster)
    await gone(cluster, 1, "c", "t/#", qos=qos)
    speaker = await cluster.client(2)
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    await until(lambda: cluster.nodes[3].distribution.nodes() == [cluster.nodes[2].name])
    arrival = asyncio.create_task(resumed(cluster, 3, "c"))
    await until(lambda: cluster.nodes[3].broker.takeovers.adoptions.over("c") is not None)
    cluster.heal()
    await until(lambda: len(cluster.nodes[2].distribution.nodes()) == 2)
    await numbered(speaker, "t/1", 5, qos=qos)
    cluster.cut(1, 2)
    sent = asyncio.create_task(numbered(speaker, "t/1", 5, qos=qos, first=5))
    client = await arrival
    await asyncio.sleep(0.3)
    cluster.heal()
    await sent
    await asyncio.sleep(5)
    got = client.payloads()
    assert set(got) == {b"%d" % n for n in range(10)}
    assert qos == 1 or len(got) == 10


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


@nodes(5, seeds=2, discs=True, sessions={"replication": 5})
async def test_of_five_copies_three_are_enough(sim, cluster):
    await formed(cluster)

    async def voters():
        groups = [
            group for node in cluster.nodes.values() for group in await node.runtime.call("raft", "status")
        ]
        led = [group for group in groups if group["role"] == "leader" and group["kind"] in KINDS]
        return {len([member for member in group["members"] if member["voter"]]) for group in led}

    async with asyncio.timeout(60):
        while await voters() != {5}:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
    await gone(cluster, 1, "c", "t", qos=2)
    speaker = await cluster.client(3)
    sent = await numbered(speaker, "t", 10, qos=2)
    cluster.crash(1)
    cluster.crash(2)
    sent += await numbered(speaker, "t", 10, qos=2, first=10, pause=0.3)
    client = await resumed(cluster, 4, "c", pause=2)
    assert client.payloads() == sent
