"""Messages are counted by QoS, in and out, whichever way they take; bytes are counted once."""

import pytest

from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties


def counts(world):
    stats = world.broker.stats()
    found = []
    for way in ("received", "sent"):
        one, two = stats[f"messages_{way}_qos1"], stats[f"messages_{way}_qos2"]
        found.append((stats[f"messages_{way}"] - one - two, one, two))
    return tuple(found)


@pytest.mark.parametrize("user", [(), (("a", "b"),)], ids=["fast path", "with properties"])
async def test_messages_are_counted_by_qos(fake_world, user):
    subscribers = [await fake_world.client(f"s{qos}", version=5) for qos in range(3)]
    for qos, subscriber in enumerate(subscribers):
        await subscriber.subscribe("a", qos=qos)
    publisher = await fake_world.client("p", version=5)
    properties = Properties(user=user)
    for qos, times in ((0, 4), (1, 3), (2, 2)):
        for number in range(times):
            packet_id = 10 * qos + number if qos else None
            publisher.send(
                p.Publish(topic=b"a", payload=b"x", qos=qos, packet_id=packet_id, properties=properties)
            )
    await fake_world.settle()
    received, sent = counts(fake_world)
    assert received == (4, 3, 2)
    # The lesser of what was published and what was asked for: QoS 0 to all three, 1 to two of them, …
    assert sent == (4 * 3 + 3 + 2, 3 * 2 + 2, 2)


async def test_bytes_are_counted_as_they_come_however_they_are_cut(fake_world):
    client = await fake_world.client("p")
    before = fake_world.broker.stats()["bytes_received"]
    packet = bytes.fromhex("30 05 00 01") + b"abc" + b"\xc0"
    for piece in (packet[:1], packet[1:6], packet[6:], b"\x00"):
        client.raw(piece)
        await fake_world.settle()
    assert fake_world.broker.stats()["bytes_received"] - before == len(packet) + 1
