"""What a node does that has too much to do, and what it does not let clients do."""

import pytest

from gossamer.mqtt import ReasonCode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.encoder import encode
from gossamer.mqtt.connection.limits import Shedding


def test_shedding_begins_at_the_limit_and_ends_below_half_of_it():
    shedding = Shedding(2.0)
    told = [(shedding.late(seconds), shedding.on) for seconds in (1.9, 2.1, 1.5, 3.0, 0.9, 1.5)]
    assert told == [(False, False), (True, True), (False, True), (False, True), (True, False), (False, False)]


def test_shedding_can_be_off():
    shedding = Shedding(None)
    assert not shedding.late(100.0)
    assert not shedding.on


@pytest.mark.parametrize(("version", "code"), [(p.V4, 3), (p.V5, ReasonCode.SERVER_BUSY)])
async def test_a_node_that_is_late_lets_nobody_else_in_and_serves_who_is_there(world, version, code):
    here = await world.client("here")
    world.broker.shedding.late(10.0)
    late = world.dial()
    assert (await late.connect("late", version=version)).reason == code
    assert late.closed
    assert world.broker.refused == {("tcp:0", "server_busy"): 1}
    # Nobody's message was lost.
    assert not world.broker.fanout.drops
    here.send(p.Pingreq())
    assert await here.got() == [p.Pingresp()]
    world.broker.shedding.late(0.0)
    await world.client("later")


async def test_other_topics_with_a_dollar_are_clients_own(world):
    client = await world.subscriber("c", "$app/x")
    client.publish("$app/x", b"1")
    client.publish("$app/x", b"2")
    assert [m.payload for m in await client.got()] == [b"1", b"2"]


async def test_the_connections_to_the_authentication_service_end_with_the_server(make_world):
    world = await make_world(auth={"http": {"url": "http://127.0.0.1:9/"}})
    client = world.dial()
    client.send(p.Connect(client_id="c", username="u", password=b"p"))
    callout = world.broker.access._callout
    for _ in range(1000):
        if callout._client is not None:
            break
        await world.settle()
    service = callout._client
    await world.stop()
    assert service.is_closed
    assert callout._client is None


async def test_connections_that_are_not_let_in_are_counted_by_reason(make_world):
    world = await make_world(anonymous=False, listener={"max_connections": 3}, connect_timeout="2s")
    world.dial()
    world.later(3)
    world.dial().raw(b"GET / HTTP/1.1\r\n\r\n")
    await world.dial().connect("nobody")
    newer = p.Connect(client_id="x")
    world.dial().raw(encode(newer, p.V4).replace(b"MQTT\4", b"MQTT\7"))
    for _ in range(4):
        world.dial()
    assert world.broker.refused == {
        ("tcp:0", "connect_timeout"): 1,
        ("tcp:0", "protocol_error"): 1,
        ("tcp:0", "not_authorized"): 1,
        ("tcp:0", "unsupported_protocol_version"): 1,
        ("tcp:0", "connections"): 1,
    }
    assert world.broker.stats()["connections_refused"] == 5
    # None of this is a message that was lost.
    assert not world.broker.fanout.drops


async def test_clients_that_the_node_disconnects_are_counted_by_reason(world):
    await world.client("silent", keep_alive=10)
    (await world.client("careless")).raw(b"\x36\x05\0\1a\0\1")
    leaves = await world.client("leaves")
    leaves.send(p.Disconnect())
    await world.client("kicked")
    world.broker.kick("kicked")
    world.later(16)
    assert world.broker.disconnected == {
        "keep_alive_timeout": 1,
        "malformed_packet": 1,
        "administrative_action": 1,
    }
    assert not world.broker.refused
