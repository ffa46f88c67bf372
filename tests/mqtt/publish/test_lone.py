"""Packets alone in their read: the kernel does with them what the way in Python does, and stays in order."""

import asyncio
import contextlib
import socket

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gossamer.mqtt import Framer, decode, encode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.connection.channel import Channel
from gossamer.mqtt.publish import lone
from gossamer.routes import KERNEL_REASON
from mqtt.harness import Client, MemoryTransport, World
from mqtt.listening import broker_with

compiled = pytest.mark.skipif(bool(KERNEL_REASON), reason=KERNEL_REASON)
TOPICS = (b"a", b"b", b"$x", b"long/" + b"y" * 150)
FILTERS = ("a", "b", "+", "#", "$share/g/a", "long/#")


class Piped(MemoryTransport):
    """A transport over a socket, which may be written to beside it."""

    def __init__(self):
        super().__init__()
        self.near, self.far = socket.socketpair()
        for end in (self.near, self.far):
            end.setblocking(False)
        self.stream = bytearray()

    def write(self, data):
        if not self.closing:
            self.near.sendall(data)

    def drain(self):
        with contextlib.suppress(BlockingIOError):
            while data := self.far.recv(1 << 16):
                self.stream += data
        return bytes(self.stream)


async def outcome(steps):
    """Streams of all clients, and the broker's counts."""
    async with World() as world:
        [port, *_] = world.broker.ports.values()
        pipes, clients = [], []
        for number, version in enumerate((p.V4, p.V4, p.V5)):
            transport = Piped()
            channel = transport.protocol = world.network.listening[port]()
            channel.connection_made(transport)
            channel.descriptor = transport.near.fileno()
            client = Client(world, transport)
            client.version = version
            client.send(p.Connect(client_id=f"c{number}", version=version))
            client.taken, client.framer = 0, Framer()
            pipes.append(transport)
            clients.append(client)
        try:
            for who, what, detail in steps:
                client = clients[who]
                if what == "acks":
                    for packet in decoded(client):
                        if isinstance(packet, p.Publish) and packet.qos == 1:
                            client.send(p.Puback(packet.packet_id))
                elif what == "packets":
                    client.send(*detail)
                elif what == "raw":
                    client.raw(detail)
                else:
                    await world.settle()
                    world.clock.at += detail
            await world.settle()
            stats = world.broker.stats()
            inflight = {name: dict(one.inflight) for name, one in world.broker.sessions.items()}
            return [pipe.drain() for pipe in pipes], [one.closed for one in clients], stats, inflight
        finally:
            for pipe in pipes:
                pipe.near.close()
                pipe.far.close()


def decoded(client):
    """What has come since the last time."""
    stream = client.transport.drain()
    new, client.taken = stream[client.taken :], len(stream)
    return [decode(first, body, client.version) for first, body in client.framer.feed(new)]


publishes = st.builds(
    lambda topic, size, qos, number: p.Publish(
        topic=topic, payload=b"x" * size, qos=qos, packet_id=number if qos else None
    ),
    st.sampled_from(TOPICS),
    st.sampled_from([0, 1, 100, 300, 20_000]),
    st.sampled_from([0, 0, 1, 1, 1, 2]),
    st.sampled_from([1, 2, 256, 65535]),
)
subscribes = st.builds(
    lambda topic_filter, qos: p.Subscribe(packet_id=9, subscriptions=(p.Subscription(topic_filter, qos),)),
    st.sampled_from(FILTERS),
    st.sampled_from([0, 1, 1, 2]),
)
alone = st.one_of(publishes, publishes, subscribes, st.builds(p.Puback, st.sampled_from([1, 2, 3])))
steps = st.tuples(st.integers(0, 2), st.just("packets"), st.lists(alone, min_size=1, max_size=1))
several = st.tuples(st.integers(0, 2), st.just("packets"), st.lists(publishes, min_size=2, max_size=4))
raw = st.tuples(
    st.integers(0, 2),
    st.just("raw"),
    st.one_of(
        st.binary(min_size=1, max_size=12),
        st.binary(max_size=8).map(lambda tail: b"\x32" + bytes((len(tail),)) + tail),
        st.sampled_from(
            [b"\x30\x83\0\0\1a", b"\x30\x80\1\0\1a", b"\x40\2\0\0", b"\x32\5\0\1a\0\0", b"\x30\2\0\0"]
        ),
    ),
)
acks = st.tuples(st.integers(0, 2), st.just("acks"), st.none())
pauses = st.tuples(st.just(0), st.just("pause"), st.sampled_from([0.0, 0.01]))


@compiled
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(steps, steps, steps, several, acks, pauses, raw), max_size=40))
def test_the_kernel_does_what_the_way_in_python_does(taken):
    """Every client is sent the same bytes, and the same is counted and in flight."""
    ours = asyncio.run(outcome(taken))
    kernel = Channel.data_received
    try:
        Channel.data_received = lone.ways[0]
        expected = asyncio.run(outcome(taken))
    finally:
        Channel.data_received = kernel
    assert ours == expected


@compiled
async def test_what_is_alone_is_written_at_once_and_what_follows_in_the_turn_together():
    async with World() as world:
        [port, *_] = world.broker.ports.values()
        transport = Piped()
        channel = transport.protocol = world.network.listening[port]()
        channel.connection_made(transport)
        channel.descriptor = transport.near.fileno()
        subscriber = Client(world, transport)
        subscriber.send(
            p.Connect(client_id="s"), p.Subscribe(packet_id=1, subscriptions=(p.Subscription("a", 0),))
        )
        await world.settle()
        publisher = await world.client("p")
        # The first finds no route in the cache, and is not taken.
        publisher.publish("a")
        await world.settle()
        transport.drain()
        transport.stream.clear()
        first, second, third = (encode(p.Publish(topic=b"a", payload=b"%d" % n), p.V4) for n in range(3))
        for packet in (first, second, third):
            publisher.raw(packet)
        assert transport.drain() == first
        await world.settle()
        assert transport.drain() == first + second + third
        assert channel.session.written == world.clock.at
        transport.near.close()
        transport.far.close()


@compiled
def test_only_classes_with_these_slots_are_taken():
    with pytest.raises(TypeError, match="has no slot"):
        lone.bind(type("Plain", (), {"data_received": None, "phase": 1}), *[object] * 5)


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("size", [10, 5_000, 200_000])
def test_what_a_full_socket_does_not_take_comes_later_and_in_order(qos, size):
    """The subscriber reads nothing until the sockets are full; packets are cut anywhere then."""
    messages = max(60, min(3000, 6_000_000 // size))

    async def body():
        async with broker_with({"type": "tcp"}, limits={"max_write_buffer": 64 << 20}) as broker:
            port = broker.ports["tcp:0"]
            subscriber = await joined(
                port, "s", p.Subscribe(packet_id=1, subscriptions=(p.Subscription("t", qos),))
            )
            publisher = await joined(port, "p")
            sending = asyncio.create_task(publish(publisher, qos, size, messages))
            # Until nobody gets on, or all is sent: by then the sockets are as full as they get.
            before = -1
            while before != broker.fanout.received and not sending.done():
                before = broker.fanout.received
                await asyncio.sleep(0.2)
            got = await asyncio.wait_for(received(subscriber, qos, messages), 60)
            await sending
            assert got == [(number, size) for number in range(messages)]
            for _, writer in (subscriber, publisher):
                writer.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(body())


async def joined(port, name, *packets):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
    writer.write(encode(p.Connect(client_id=name), p.V4))
    assert await reader.readexactly(4) == b"\x20\2\0\0"
    for packet in packets:
        writer.write(encode(packet, p.V4))
        await reader.readexactly(5)
    return reader, writer


async def publish(connection, qos, size, messages):
    """One packet a write, and with QoS 1 one in flight."""
    reader, writer = connection
    for number in range(messages):
        payload = number.to_bytes(4, "big").ljust(size, b"x")
        packet_id = number % 65535 + 1 if qos else None
        writer.write(encode(p.Publish(topic=b"t", payload=payload, qos=qos, packet_id=packet_id), p.V4))
        await writer.drain()
        if qos:
            assert await reader.readexactly(4) == b"\x40\2" + packet_id.to_bytes(2, "big")


async def received(connection, qos, messages):
    reader, writer = connection
    framer, got = Framer(), []
    while len(got) < messages:
        data = await reader.read(1 << 16)
        assert data, f"closed after {len(got)} messages"
        for first, body in framer.feed(data):
            packet = decode(first, body, p.V4)
            got.append((int.from_bytes(packet.payload[:4], "big"), len(packet.payload)))
            if qos:
                writer.write(encode(p.Puback(packet.packet_id), p.V4))
    return got
