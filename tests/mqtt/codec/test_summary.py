"""What a trace of a connection shows: names of packets, topics and lengths, and nothing that is a secret."""

from hypothesis import given
from hypothesis import strategies as st

from gossamer.mqtt.codec.encoder import encode
from gossamer.mqtt.codec.packets import V4, V5, Connect, Pingreq, Publish, Subscribe, Subscription
from gossamer.mqtt.codec.summary import glance
from gossamer.supervisor.process.tracing import attach


def test_packets_are_named_with_topic_and_length():
    publish = encode(
        Publish(topic=b"plant/1", payload=b"secret payload", qos=1, packet_id=7, retain=True), V4
    )
    line = glance(publish + b"\xc0\x00" + b"\x40\x02\x00\x07")
    assert line == f"PUBLISH plant/1 qos=1 retain {len(publish)} bytes, PINGREQ, PUBACK 4 bytes"


def test_a_connect_shows_no_name_and_no_password():
    packet = encode(Connect(client_id="c1", username="ann", password=b"hunter2"), V5)
    assert glance(packet) == f"CONNECT {len(packet)} bytes"


def test_many_packets_are_counted_and_partial_ones_said():
    assert glance(b"\xc0\x00" * 9 + b"\x30\x7f\x00") == ", ".join(
        ["PINGREQ"] * 5 + ["3 bytes of a PUBLISH", "… 4 more"]
    )
    assert glance(b"\xc0\x00" * 5000).endswith("… 1000 or more")
    assert glance(b"\x30\xff\xff\xff\xff\x01") == "6 bytes that are no packet"


@given(st.binary(max_size=300))
def test_any_bytes_make_a_line(data):
    assert len(glance(data)) < 1000


async def test_a_traced_connection_shows_its_packets_and_never_a_payload(world):
    """Also where a packet comes in pieces, whose middle could look like anything."""
    client = await world.client("one", version=V5)
    other = await world.client("two")
    other.send(Subscribe(packet_id=1, subscriptions=(Subscription("plant/#"),)))
    await other.got()
    lines = []
    entry = world.runtime.find(client.channel.pid)
    attach(entry, lambda event, about: lines.append((event, str(getattr(about, "message", about)))))
    payload = b"\x30\x0f\x00\x06secretsecretsecret" * 20
    packet = encode(Publish(topic=b"plant/1", payload=payload), V5)
    for at in range(0, len(packet), 50):
        client.channel.data_received(packet[at : at + 50])
    client.send(Pingreq())
    await client.got()
    world.runtime.exit(client.channel.pid, "kill")
    await world.settle()
    assert ("receive", f"PUBLISH plant/1 qos=0 {len(packet)} bytes") in lines
    assert ("receive", "PINGREQ") in lines
    assert ("send", "PINGRESP") in lines
    assert [event for event, _ in lines][-1] == "end"
    assert "secret" not in str(lines)
