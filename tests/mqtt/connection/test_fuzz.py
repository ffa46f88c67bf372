"""Whatever a client sends, its own connection ends at worst, in good order; no message is lost on the way."""

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gossamer.mqtt import encode
from gossamer.mqtt.codec import packets as p
from gossamer.supervisor import Crash
from mqtt.harness import World
from mqtt.strategies import packets

quiet = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


async def play(stream: bytes, version: int, cuts: list[int]) -> None:
    world = World(max_packet_size="4KiB")
    await world.start()
    ends = []
    try:
        witness = await world.client("witness")
        await witness.subscribe("witness", qos=1)
        client = await world.client("fuzz", version=version)
        world.runtime.join(client.channel.pid).add_done_callback(lambda done: ends.append(done.result()))
        at = 0
        for cut in [*sorted(c % (len(stream) + 1) for c in cuts), len(stream)]:
            client.raw(stream[at:cut])
            at = cut
            await world.settle()
        assert not any(isinstance(reason, Crash) for reason in ends), ends
        world.broker.publish("witness", b"alive", qos=1)
        assert b"alive" in [x.payload for x in await witness.got() if isinstance(x, p.Publish)]
    finally:
        await world.stop()


cuts = st.lists(st.integers(0, 1 << 16), max_size=4)
versions = st.sampled_from([p.V4, p.V5])


@quiet
@given(st.binary(max_size=200), versions, cuts)
def test_random_bytes(stream, version, where):
    asyncio.run(play(stream, version, where))


@quiet
@given(versions.flatmap(lambda v: st.tuples(st.just(v), st.lists(packets(v), max_size=8))), cuts, st.data())
def test_random_packets_one_of_them_damaged(case, where, data):
    version, sent = case
    stream = bytearray(b"".join(encode(packet, version) for packet in sent))
    if stream and data.draw(st.booleans()):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    asyncio.run(play(bytes(stream), version, where))


@quiet
@given(
    st.binary(max_size=100)
    | st.lists(st.sampled_from([b"\x30", b"\x32", b"\x05", b"\0", b"\1", b"a", b"\x7f"])).map(b"".join)
)
def test_random_records_from_a_peer(data):
    async def body():
        world = World()
        await world.start()
        try:
            world.broker.ingest("peer", data)
        finally:
            await world.stop()

    asyncio.run(body())


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"a", b"a/b", b"c"]),
            st.integers(0, 300),
            st.integers(0, 2),
            st.sampled_from([p.V4, p.V5]),
        ),
        max_size=30,
    ),
    st.integers(1, 400),
)
def test_every_publish_arrives_once_and_in_order_however_it_is_cut(messages, size):
    async def body():
        world = World()
        await world.start()
        try:
            subs = [await world.client(f"s{version}", version=version) for version in (p.V4, p.V5)]
            for sub in subs:
                await sub.subscribe("#", qos=2)
            pubs = {version: await world.client(f"p{version}", version=version) for version in (p.V4, p.V5)}
            streams = {p.V4: b"", p.V5: b""}
            want = {p.V4: [], p.V5: []}
            for n, (topic, length, qos, version) in enumerate(messages, 1):
                payload = b"%d:%d:" % (version, n) + b"x" * length
                packet = p.Publish(topic=topic, payload=payload, qos=qos, packet_id=n if qos else None)
                streams[version] += encode(packet, version)
                want[version].append((topic, payload, qos))
            for version, stream in streams.items():
                for at in range(0, len(stream), size):
                    pubs[version].raw(stream[at : at + size])
            for sub in subs:
                got = [(x.topic, x.payload, x.qos) for x in await sub.got()]
                assert got == want[p.V4] + want[p.V5]
        finally:
            await world.stop()

    asyncio.run(body())
