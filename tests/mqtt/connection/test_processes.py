"""Channels and listeners as processes: what falls, what stays, what comes back."""

import asyncio

import pytest

from gossamer.mqtt import ListenError, ReasonCode, mqtt_spec
from gossamer.mqtt.codec import packets as p
from gossamer.supervisor import StartFailed, Supervisor
from mqtt.harness import World


def pids(world, label):
    return [pid for pid in world.runtime.processes() if world.runtime.find(pid).label == label]


async def until(condition):
    for _ in range(200):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("did not come about")


async def test_a_killed_channel_ends_its_connection_only(world):
    one = await world.client("one", version=p.V5)
    two = await world.client("two")
    world.runtime.exit(one.channel.pid, "kill")
    await world.settle()
    assert one.closed
    two.send(p.Pingreq())
    assert await two.got() == [p.Pingresp()]
    assert len(pids(world, "mqtt_channel")) == 1


async def test_a_closed_connection_leaves_no_process(world):
    client = await world.client("one")
    client.send(p.Disconnect())
    await until(lambda: not pids(world, "mqtt_channel"))
    assert world.broker.channels == set()


async def test_a_killed_connection_supervisor_ends_its_connections_and_comes_back(world):
    client = await world.client("one")
    [channels] = pids(world, "mqtt_channels")
    world.runtime.exit(channels, "kill")
    await until(lambda: pids(world, "mqtt_channels") not in ([], [channels]))
    assert client.closed
    assert not (await world.client("two")).closed


async def test_a_killed_ticker_comes_back(world):
    [ticker] = pids(world, "mqtt_ticker")
    world.runtime.exit(ticker, "kill")
    await until(lambda: pids(world, "mqtt_ticker") not in ([], [ticker]))


async def test_a_bug_in_a_handler_ends_one_channel_and_is_reported(world, monkeypatch):
    one = await world.client("one")
    two = await world.client("two")
    monkeypatch.setattr(world.router, "subscribe", lambda *_: 1 / 0)
    one.send(p.Subscribe(packet_id=1, subscriptions=(p.Subscription("a"),)))
    await world.settle()
    assert one.closed
    assert not two.closed


async def test_a_stopping_node_says_so(world):
    client = await world.client("one", version=p.V5)
    await world.runtime.stop()
    [goodbye] = await client.got()
    assert goodbye.reason == ReasonCode.SERVER_SHUTTING_DOWN
    assert world.network.listening == {}


async def test_a_taken_port_is_a_clear_error():
    world = World()
    world.network.listening[1883] = None
    world.broker.ports["tcp:0"] = 1883
    with pytest.raises(
        StartFailed, match=r"cannot listen for MQTT on 127\.0\.0\.1:1883: Address already in use"
    ):
        await world.runtime.start(Supervisor, [mqtt_spec(world.broker)])
    error = ListenError(key="mqtt.server.listeners[0].port", address="h:1", why="w")
    assert "set mqtt.server.listeners[0].port to a free one" in str(error)


async def test_a_client_can_be_kicked(world):
    client = await world.client("one", version=p.V5)
    assert world.broker.kick("one")
    [goodbye] = await client.got()
    assert goodbye.reason == ReasonCode.ADMINISTRATIVE_ACTION
    assert world.broker.sessions == {}
    assert not world.broker.kick("one")


async def test_clients_are_described(world):
    await world.subscriber("one", "a", qos=1, version=p.V5, keep_alive=30)
    [info] = world.broker.clients()
    assert (info.client_id, info.connected, info.version, info.keep_alive, info.subscriptions) == (
        "one",
        True,
        5,
        30,
        1,
    )
    assert world.broker.stats()["connections"] == 1
