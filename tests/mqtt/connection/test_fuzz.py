"""Whatever a peer sends is survived, and no message of a client is lost or changed on its way.

What becomes of a client that sends anything at all is in ``spec/test_bad_input.py``.
"""

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gossamer.mqtt import encode
from gossamer.mqtt.codec import packets as p
from mqtt.harness import World

quiet = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@quiet
@given(
    st.binary(max_size=100)
    | st.lists(st.sampled_from([b"\x30", b"\x32", b"\x05", b"\0", b"\1", b"a", b"\x7f"])).map(b"".join)
)
def test_random_records_from_a_peer(data):
    async def body():
        async with World() as world:
            world.broker.ingest("peer", data)

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
        async with World() as world:
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

    asyncio.run(body())
