"""What the dispatcher owes across nodes: order, no doubles, an acknowledgement that means what it says."""

import asyncio
from dataclasses import replace

import pytest

from gossamer.testing.traffic import Flow

from .clusters import nodes
from .flows import doubled, in_order, lost, stop, subscriber


def forwarding(cluster, mode):
    """Have the nodes of a cluster that was not started forward ``sync`` or ``async``."""
    configure = cluster._config

    def configured(number):
        config = configure(number)
        return config.model_copy(update={"mqtt": config.mqtt.model_copy(update={"forwarding": mode})})

    cluster._config = configured


@nodes(3, start=False)
@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_links_that_break_and_come_back_cost_neither_order_nor_copies(sim, cluster, mode):
    forwarding(cluster, mode)
    await cluster.start()
    await cluster.settled()
    listeners = [await cluster.client(number) for number in (2, 3)]
    for listener in listeners:
        await listener.subscribe("f/#", qos=1)
    flows = []
    for name in "ab":
        speaker = await cluster.client(1)
        flows += [Flow(speaker, f"f/{name}/{qos}", qos=qos, pause=0.01).start() for qos in (1, 2)]
    rng = sim.rng("links")
    for _ in range(4):
        await asyncio.sleep(rng.uniform(0.1, 0.4))
        cluster.cut(1, rng.choice((2, 3)))
        # Shorter than it takes to declare a node down: frames are sent again, on a new connection.
        await asyncio.sleep(rng.uniform(0.1, 0.8))
        cluster.heal()
    await asyncio.sleep(1)
    await stop(flows)
    await asyncio.sleep(20)
    for listener in listeners:
        assert not doubled(listener)
        for flow in flows:
            assert len(flow.acknowledged) > 20
            assert not lost(flow, listener)
            assert in_order(listener, flow.topic)


@nodes(2, seeds=2, start=False)
@pytest.mark.parametrize(("mode", "answered"), [("sync", False), ("async", True)])
async def test_an_acknowledgement_waits_for_the_peer_or_for_this_node_alone(sim, cluster, mode, answered):
    forwarding(cluster, mode)
    await cluster.start()
    await cluster.settled()
    listener = await subscriber(cluster, 2, "t", qos=1)
    speaker = await cluster.client(1)
    await speaker.publish("t", b"before", qos=1)
    cluster.cut(1, 2)
    flow = Flow(speaker, "t", qos=1).start(1)
    await asyncio.sleep(0.5)
    assert bool(flow.acknowledged) is answered
    cluster.heal()
    await flow.finish()
    await asyncio.sleep(10)
    assert listener.payloads() == [b"before", b"t 0"]


@nodes(2, seeds=2)
async def test_what_a_failed_peer_did_not_get_is_counted_with_the_reason(sim, cluster):
    await subscriber(cluster, 2, "t", qos=1)
    speaker = await cluster.client(1)
    await speaker.publish("t", b"before", qos=1)
    cluster.crash(2, "silence")
    flow = Flow(speaker, "t", qos=1, pause=0.2).start(5)
    await asyncio.wait_for(flow.finish(), 60)
    assert len(flow.acknowledged) == 5, "its subscribers are gone with it, so nobody waits for ever"
    assert cluster.nodes[1].router.stats()["forward_dropped_peer_down"] >= 1


@nodes(3, seeds=2, start=False)
@pytest.mark.parametrize("qos", [1, 2])
async def test_time_that_a_message_waits_at_a_cut_link_is_taken_from_its_expiry(sim, cluster, qos):
    """MQTT-3.3.2-6 and -5: what is passed on is what is left, and what has none left is not delivered."""
    # As links between real nodes do, a connection gives up after 15 s without an answer.
    sim.limits = replace(sim.limits, give_up_after=15.0)
    await cluster.start()
    await cluster.settled()
    listener = await subscriber(cluster, 2, "t/#", qos=2, version=5)
    speaker = await cluster.client(1, version=5)
    await speaker.publish("t/before", qos=qos)
    # The third node reaches both, so neither is declared down: the link keeps what is for the other.
    cluster.cut(1, 2)
    flow = [
        asyncio.create_task(speaker.publish(f"t/{name}", qos=qos, expiry=expiry))
        for name, expiry in (("short", 5), ("long", 100), ("ever", None))
    ]
    await asyncio.sleep(40)
    assert [message.topic for message in listener.messages] == [b"t/before"]
    cluster.heal()
    await asyncio.wait_for(asyncio.gather(*flow), 60)
    await asyncio.sleep(1)
    got = {message.topic: message.properties.message_expiry for message in listener.messages}
    assert set(got) == {b"t/before", b"t/long", b"t/ever"}
    assert got[b"t/ever"] is None
    assert 30 <= got[b"t/long"] <= 61
