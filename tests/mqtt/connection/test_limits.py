"""What one listener takes: connections, messages a second, bytes a packet."""

from collections import Counter

import pytest
import structlog

from gossamer.config import ListenerConfig
from gossamer.mqtt import ReasonCode, encode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.connection.limits import Entrance, Room
from gossamer.mqtt.flow.backpressure import Bucket


class Counting(Entrance):
    """An entrance at one moment, which says why it lets nobody in."""

    def __init__(self, room=None, **options):
        self.why = Counter()
        config = ListenerConfig(**options)
        room = room or Room()
        super().__init__(
            config, "tcp", room, max_packet=1, now=lambda: 0.0, refusals=self.why, decisions=Counter()
        )

    def enter(self, newcomer=None):
        self.why.clear()
        self.let_in(newcomer or Newcomer())
        return next((reason for _, reason in self.why), None)


class Newcomer:
    """A connection of an address, also as the transport that it came by."""

    def __init__(self, host="192.0.2.1"):
        self.host = host
        self.transport = self
        self.gone = False

    def get_extra_info(self, _name):
        return self.host, 40000

    def crowd_out(self):
        self.gone = True

    abort = crowd_out


def test_listeners_share_the_descriptors_of_their_process():
    """And leave some: the node needs them for itself."""
    assert [Room(n).limit for n in (None, 100, 1024, 20_000)] == [None, 50, 512, 19_488]
    room = Room(8)
    one, other = Counting(room), Counting(room)
    assert [limits.enter() for limits in (one, other, one, other, one, other)] == [
        *[None] * 4,
        *["descriptors"] * 2,
    ]
    other.leave(Newcomer())
    assert one.enter() is None
    assert other.enter() == "descriptors"


def test_newcomers_that_sent_most_make_room_for_those_that_sent_little():
    room = Room(max_early=100)
    small, large, larger = Newcomer(), Newcomer(), Newcomer()
    assert room.hold(small, 10)
    assert room.hold(large, 50)
    assert room.hold(small, 5)
    assert not room.hold(larger, 60)
    assert [one.gone for one in (small, large, larger)] == [False, False, True]
    assert room.hold(larger, 30)
    assert room.hold(small, 10)
    assert [one.gone for one in (small, large)] == [False, True]
    for one in (small, large, larger):
        room.free(one)
    assert (room.early_bytes, room._early) == (0, {})


def early(kind):
    """What a client sends of a CONNECT that never ends, ``kind`` by ``kind``."""
    body = b"\x10\xff\xff\x0e" + b"\0\4MQTT\4\2\0\0" + b"x" * 100_000
    if kind == "tcp":
        return body
    handshake = (
        b"GET /mqtt HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
    )
    return handshake + b"\x82\xff" + (900_000).to_bytes(8, "big") + b"\0" * 4 + body


@pytest.mark.parametrize("kind", ["tcp", "ws"])
async def test_crowds_that_are_not_let_in_hold_a_bounded_memory_and_keep_nobody_out(make_world, kind):
    world = await make_world(listener={"type": kind}, listeners=2, max_connecting_bytes=1024**2)
    room = world.broker.room
    with structlog.testing.capture_logs() as logs:
        for number in range(100):
            port = list(world.broker.ports.values())[number % 2]
            transport = world.network.dial(port)
            transport.protocol.data_received(early(kind))
            assert room.early_bytes <= 1024**2
        await world.settle()
    assert len(world.broker.channels) <= 11
    refused = sum(n for (_, why), n in world.broker.refused.items() if why == "connecting_bytes")
    assert refused == 100 - len(world.broker.channels)
    assert [line["event"] for line in logs].count("newcomer_crowded_out") == 2
    if kind == "tcp":
        client = world.dial()
        for byte in encode(p.Connect(client_id="slow"), 4):
            client.raw(bytes((byte,)))
        assert [type(packet) for packet in await client.got()] == [p.Connack]


async def test_whoever_is_let_in_or_gone_counts_no_more(world):
    await world.client("c")
    half = world.dial()
    half.raw(b"\x10\xff\x01abc")
    assert world.broker.room.early_bytes == 6
    await half.drop()
    assert (world.broker.room.early_bytes, world.broker.room._early) == (0, {})


def test_a_bucket_lends_no_more_than_a_second():
    bucket = Bucket(10)
    assert [bucket.admit(0.0) for _ in range(11)] == [True] * 10 + [False]
    assert bucket.admit(0.1)
    assert not bucket.admit(0.1)
    assert bucket.take(25, 10.0) == pytest.approx(1.5)


def test_a_listener_counts_out_whom_it_counted_in():
    limits = Counting(max_connections=3, max_pending=2, max_connect_rate=4)
    first, second, third, fourth = (Newcomer() for _ in range(4))
    assert [limits.enter(one) for one in (first, second, third)] == [None, None, "pending"]
    limits.admitted(first)
    assert [limits.enter(third), limits.enter(fourth)] == [None, "connections"]
    limits.leave(first)
    limits.leave(second)
    assert [limits.enter(fourth), limits.enter()] == [None, "pending"]
    limits.leave(third)
    assert limits.enter() == "connect_rate"
    # Whom the rate kept out holds no place.
    assert len(limits._pending) == 1


def test_an_address_that_holds_all_places_of_those_not_let_in_keeps_nobody_else_out():
    limits = Counting(max_pending=4)
    crowd = [Newcomer() for _ in range(4)]
    assert [limits.enter(one) for one in crowd] == [None] * 4
    assert limits.enter(Newcomer()) == "pending"
    other = Newcomer("192.0.2.2")
    # The reason is that of who had to go.
    assert limits.enter(other) == "pending"
    assert [one.gone for one in (*crowd, other)] == [True, False, False, False, False]
    limits.leave(crowd[0])
    assert (limits.connections, len(limits._pending)) == (4, 4)


async def test_who_sends_too_fast_is_read_from_more_slowly(make_world):
    world = await make_world(listener={"max_message_rate": 5})
    client = await world.client("c")
    for _ in range(5):
        client.publish("a")
    assert not client.transport.paused
    client.raw(b"\x30\x04\0\x01ab" * 6)
    assert client.transport.paused
    assert world.broker.stats()["slowed"] == 1
    assert world.broker.stats()["messages_received"] == 11


async def test_a_listener_may_take_smaller_packets_than_the_node(make_world):
    """[MQTT-3.2.2-15]"""
    world = await make_world(listener={"max_packet_size": "2KiB"})
    client = world.dial()
    assert (await client.connect(version=p.V5)).properties.maximum_packet_size == 2048
    client.raw(b"\x30\xfd\x0f")
    client.raw(bytes(10))
    assert not client.closed
    other = await world.client("o", version=p.V5)
    other.raw(b"\x30\x80\x10")
    [goodbye] = await other.got()
    assert goodbye.reason == ReasonCode.PACKET_TOO_LARGE
