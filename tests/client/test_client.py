"""Clients of a simulated cluster: messages, actors, and the death of the node they are attached to."""

import asyncio

import pytest

from gossamer.client import NotAttachedError, TargetError, targets_of
from gossamer.gateway import WINDOW
from gossamer.routes import InvalidTopicFilter, InvalidTopicName
from gossamer.supervisor import CallFailed, GenServer, Reply


class Counter(GenServer):
    async def init(self):
        self.total = 0

    async def handle_call(self, request, caller):
        self.total += request
        return Reply(self.total)


async def take(subscription, number):
    async with asyncio.timeout(60):
        return [(await anext(subscription)).payload for _ in range(number)]


async def test_messages_cross_between_clients_of_different_nodes(cluster, client_of):
    one, two = await client_of(1), await client_of(2)
    for qos in (0, 1, 2):
        subscription = await two.subscribe(f"a/{qos}/+", qos=qos)
        await one.publish(f"a/{qos}/b", b"hello", qos=qos)
        async with asyncio.timeout(10):
            message = await anext(subscription)
        assert (message.topic, message.payload, message.qos) == (f"a/{qos}/b", b"hello", qos)
        subscription.close()


async def test_mqtt_clients_and_python_clients_share_topics(cluster, client_of):
    python, mqtt = await client_of(1), await cluster.client(2)
    subscription = await python.subscribe("up/#", qos=1)
    await mqtt.publish("up/x", b"1", qos=1)
    assert await take(subscription, 1) == [b"1"]
    await mqtt.subscribe("down/#", qos=1)
    await python.publish("down/x", "2", qos=1)
    await asyncio.sleep(1)
    assert mqtt.payloads() == [b"2"]


async def test_a_client_is_no_member(cluster, client_of):
    await client_of(1)
    await asyncio.sleep(1)
    assert list(cluster.differences()) == []
    assert len(cluster.nodes[1].distribution.nodes(hidden=True)) == 3


async def test_a_restart_of_the_membership_ends_no_client(cluster, client_of):
    client = await client_of(1)
    runtime = cluster.nodes[1].runtime
    before = runtime.whereis("membership")
    runtime.exit(before, "kill")
    await asyncio.sleep(1)
    assert runtime.whereis("membership") not in (before, None)
    (peer,) = [p for p in cluster.nodes[1].distribution.peers.values() if p.hidden]
    assert peer.up
    assert client.distribution.counts()["node1@10.0.0.1"].resets == 0


async def test_actors_of_any_node_are_called_and_watched(cluster, client_of):
    client = await client_of(1)
    for number in (1, 3):
        node = cluster.nodes[number]
        pid = await node.runtime.start(Counter, name="counter")
        assert await client.call(("counter", node.name), 2) == 2
        assert await client.call(pid, 3) == 5
        ended = await client.monitor(pid)
        assert await client.call(pid, 0) == 5
        node.runtime.exit(pid, "kill")
        assert await asyncio.wait_for(ended, 10) == "killed"
        with pytest.raises(CallFailed) as failure:
            await client.call(pid, 1)
        assert failure.value.reason == "noproc"
    assert await client.monitor(("nobody", "node1@10.0.0.1")) is not None


@pytest.mark.parametrize("how", ["kill", "silence"])
async def test_a_client_survives_the_death_of_its_node(cluster, client_of, how):
    client, other = await client_of(1, 2), await client_of(3)
    pid = await cluster.nodes[1].runtime.start(Counter)
    ended = await client.monitor(pid)
    subscription = await client.subscribe("t", qos=1)
    await other.publish("t", b"before", qos=1)
    assert await take(subscription, 1) == [b"before"]
    assert client.attached_to == "node1@10.0.0.1"
    cluster.crash(1, how)
    assert await asyncio.wait_for(ended, 60) == "noconnection"
    await client.publish("elsewhere", b"", qos=1)
    assert client.attached_to == "node2@10.0.0.2"
    await other.publish("t", b"after", qos=1)
    assert await take(subscription, 1) == [b"after"]


async def test_a_slow_consumer_is_held_to_a_window_and_loses_nothing_that_has_room(cluster, client_of):
    publisher, slow = await client_of(1), await client_of(2)
    subscription = await slow.subscribe("t", qos=1)
    total = WINDOW * 4
    for number in range(total):
        await publisher.publish("t", b"%d" % number)
    await publisher.publish("t", b"end", qos=1)
    await asyncio.sleep(5)
    assert len(subscription._buffer) == WINDOW
    assert await take(subscription, total + 1) == [b"%d" % n for n in range(total)] + [b"end"]
    assert subscription.dropped == 0


async def test_a_client_that_goes_leaves_no_subscription(cluster, client_of):
    client = await client_of(1)
    await client.subscribe("gone/#")
    assert any(filter_ == "gone/#" for filter_, _, _ in cluster.nodes[2].router.routes())
    await client.stop()
    await asyncio.sleep(30)
    assert not any(filter_ == "gone/#" for filter_, _, _ in cluster.nodes[2].router.routes())
    assert len(cluster.nodes[1].distribution.peers) == 2


async def test_a_subscription_that_the_next_node_will_not_have_does_not_end_in_silence(
    cluster, client_of, monkeypatch
):
    client, other = await client_of(1, 2), await client_of(3)
    subscription = await client.subscribe("t", qos=1)
    with monkeypatch.context() as patch:
        patch.setattr("gossamer.gateway.server.MAX_SUBSCRIPTIONS", 0)
        cluster.crash(1)
        with pytest.raises(NotAttachedError, match="may have 0 subscriptions"):
            while True:
                await client.publish("elsewhere", b"", qos=1)
    await client.publish("elsewhere", b"", qos=1)
    await other.publish("t", b"after", qos=1)
    assert await take(subscription, 1) == [b"after"]
    assert subscription.gaps == 1


async def test_bad_topics_are_refused_before_they_travel(cluster, client_of):
    client = await client_of(1)
    with pytest.raises(InvalidTopicName):
        await client.publish("a/#", b"")
    with pytest.raises(InvalidTopicFilter):
        await client.subscribe("a/#/b")


async def test_a_wrong_cookie_is_told(cluster, client_of):
    with pytest.raises(NotAttachedError):
        await client_of(1, cookie="wrong", timeout=20.0)


def test_targets_say_what_is_wrong_with_them(tmp_path):
    assert targets_of("127.0.0.1:4370") == ([("127.0.0.1", 4370)], None)
    assert targets_of(("h", 1)) == ([("h", 1)], None)
    assert targets_of(["h:1", ("i", 2)]) == ([("h", 1), ("i", 2)], None)
    for wrong in ("nothing", "h:x", "h:70000", [], tmp_path / "no.json"):
        with pytest.raises(TargetError):
            targets_of(wrong)
