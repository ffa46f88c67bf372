"""The read loop finds what a framer finds, whatever stands beside it and however a read ends."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from gossamer.mqtt import Framer, decode, encode
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import NONE, Properties
from gossamer.mqtt.publish.runs import PUBACK, QOS0, QOS1, runs

PLANS = {b"a": "one", b"b": "one", b"long/topic": "other"}
ROUTES = {
    topic: SimpleNamespace(plan=SimpleNamespace(groups=(), peers=(), breadth=1, name=name))
    for topic, name in PLANS.items()
}
ROUTES[b"b"] = ROUTES[b"a"]


def source(version):
    return SimpleNamespace(
        version=version, max_packet=1 << 20, cache_get=ROUTES.get, plan_of=lambda _topic: None
    )


publishes = st.builds(
    lambda topic, size, qos, packet_id, properties: p.Publish(
        topic=topic,
        payload=b"x" * size,
        qos=qos,
        packet_id=packet_id if qos else None,
        properties=properties,
    ),
    st.sampled_from(sorted(PLANS)),
    st.sampled_from([0, 1, 1, 1, 200]),
    st.sampled_from([0, 0, 1, 1]),
    st.sampled_from([1, 2, 256, 65535]),
    st.sampled_from([NONE, NONE, NONE, Properties(content_type="t")]),
)
acks = st.builds(p.Puback, st.sampled_from([1, 256, 257]))


@given(st.lists(publishes | acks, max_size=12), st.sampled_from([p.V4, p.V5]), st.integers(0, 30))
def test_runs_are_what_a_framer_finds_up_to_what_needs_the_codec(sent, version, cut):
    data = b"".join(encode(packet, version) for packet in sent)
    data = data[: max(0, len(data) - cut)]
    whole = [decode(first, body, version) for first, body in Framer().feed(data)]
    fast = next(
        (
            at
            for at, packet in enumerate(whole)
            if version == p.V5 and isinstance(packet, p.Publish) and packet.properties is not NONE
        ),
        len(whole),
    )
    found, pos = [], 0
    for kind, plan, head, start, stop, count in runs(data, 0, source(version)):
        assert start == pos
        packets = [decode(first, body, version) for first, body in Framer().feed(data[start:stop])]
        assert len(packets) == count
        if head:
            size = (stop - start) // count
            assert all(data.startswith(head, at) for at in range(start, stop, size))
        for packet in packets:
            if isinstance(packet, p.Puback):
                assert kind == PUBACK
            else:
                assert kind == (QOS1 if packet.qos else QOS0)
                assert plan is ROUTES[packet.topic].plan
        found += packets
        pos = stop
    assert found == whole[:fast]


def test_a_run_ends_before_what_is_wrong():
    good = encode(p.Publish(topic=b"a", payload=b"x", qos=1, packet_id=1), p.V4)
    plain = encode(p.Publish(topic=b"a", payload=b"x"), p.V4)
    for bad in (
        good[:5] + b"\0\0x",
        b"\x30\xff\xff\xff\xff\x01",
        b"\x30\x05\0\1#\0x",
        b"\x40\x03\0\1\0",
        b"\x32\1\0",
        b"\x30\0",
        b"\x30\1\0",
    ):
        [(kind, _, _, start, stop, count)] = runs(good * 3 + bad, 0, source(p.V4))
        assert (kind, start, stop, count) == (QOS1, 0, 3 * len(good), 3), bad
        (kind, _, _, start, stop, count) = runs(plain * 3 + bad, 0, source(p.V4))[0]
        assert (kind, start, stop, count) == (QOS0, 0, 3 * len(plain), 3), bad
