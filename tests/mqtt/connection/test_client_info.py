"""What a node tells of one client."""

from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties


def of(world, client_id):
    return world.broker.client(world.broker.sessions[client_id])


async def test_since_when_a_client_is_connected(world):
    world.clock.at += 5
    client = await world.client("c")
    assert of(world, "c").connected_at == world.clock.wall()
    assert of(world, "c").clean
    client.send(p.Disconnect())
    await client.got()
    world.clock.at += 5
    lasts = {"version": p.V5, "clean_start": False, "properties": Properties(session_expiry=60)}
    again = await world.client("d", **lasts)
    assert not of(world, "d").clean
    again.send(p.Disconnect())
    await again.got()
    assert of(world, "d").connected_at == 0.0


async def test_how_many_messages_for_a_client_were_dropped(world):
    await world.subscriber("s", "a", qos=1, version=p.V5, properties=Properties(maximum_packet_size=50))
    await world.subscriber("t", "a", qos=1)
    pub = await world.client("p")
    for n in range(3):
        pub.publish("a", b"x" * 100, qos=1, packet_id=n + 1)
    await pub.got()
    assert of(world, "s").dropped == 3
    assert of(world, "t").dropped == 0
    assert world.broker.fanout.drops["too_large"] == 3
