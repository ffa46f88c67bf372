"""A publisher that traces its message finds what the broker made of it in its own trace, on every node."""

import pytest

from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from gossamer.tracing import SpanBuilder, TracedBuffer
from mqtt.recording import matching, recorder_on

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SAMPLED = f"00-{TRACE}-00f067aa0ba902b7-01"
LEFT_OUT = f"00-{TRACE}-00f067aa0ba902b7-00"


def traced(world, node, *, sample=0.0, recording=False, tracing=True):
    """What ``world`` notes for traces: a function that returns the spans since its last call."""
    buffer = TracedBuffer(limit=1000, wall=world.clock.wall, recording=lambda: recording)
    parents = buffer if tracing else None
    recorder_on(buffer, world.broker.fanout, node, filters_of=matching(world), sample=sample, parents=parents)
    builder = SpanBuilder(node, deliveries=16)

    def spans():
        rows = list(buffer.rows)
        buffer.rows.clear()
        builder.feed(rows)
        return builder.flush()

    spans.buffer = buffer
    return spans


def message(qos=0, traceparent=None):
    user = () if traceparent is None else (("traceparent", traceparent), ("other", "one"))
    return p.Publish(
        topic=b"a/b", payload=b"x", qos=qos, packet_id=7 if qos else None, properties=Properties(user=user)
    )


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_publisher_s_trace_goes_on_over_nodes_to_subscribers(two, qos):
    here, there, _, carry = two
    ours, theirs = traced(here, "here"), traced(there, "there")
    sub = await there.subscriber("s", "a/+", qos=qos, version=5)
    pub = await here.client("p", version=5)
    pub.send(message(qos, SAMPLED))
    await here.settle()
    carry()
    await there.settle()
    first, second = ours(), theirs()
    assert {f"{span.trace:032x}" for span in first + second} == {TRACE}
    (root,) = [span for span in first if span.name == "publish"]
    assert (f"{root.parent:016x}", root.remote) == ("00f067aa0ba902b7", True)
    known = {span.span for span in first + second}
    assert all(span.parent in known for span in first + second if span is not root)
    assert {"receive", "route", "deliver"} <= {span.name for span in second}
    # The subscriber joins the same trace: it is told by the same property.
    (got,) = [packet for packet in await sub.got() if isinstance(packet, p.Publish)]
    assert ("traceparent", SAMPLED) in got.properties.user


async def test_what_a_publisher_leaves_out_is_left_out(two):
    here, there, _, carry = two
    ours, theirs = traced(here, "here", sample=1.0), traced(there, "there", sample=1.0)
    pub = await here.client("p", version=5)
    pub.send(message(0, LEFT_OUT))
    pub.send(message(0))
    await here.settle()
    carry()
    await there.settle()
    for spans in (ours(), theirs()):
        assert len({span.trace for span in spans}) == 1
        assert TRACE not in {f"{span.trace:032x}" for span in spans}


async def test_without_a_traceparent_the_sample_decides(two):
    here, _, _, carry = two
    ours = traced(here, "here")
    pub = await here.client("p", version=5)
    for _ in range(20):
        pub.send(message())
    pub.send(message(0, "no trace at all"))
    await here.settle()
    carry()
    assert ours() == []


async def test_it_is_not_in_a_recorder_s_sample(two):
    """A share of messages stands for all; one that is there because it was asked for stands for none."""
    here, _, _, carry = two
    ours = traced(here, "here", recording=True)
    pub = await here.client("p", version=5)
    ours.buffer.take()
    pub.send(message(1, SAMPLED))
    await here.settle()
    carry()
    assert ours.buffer.take() == []
    assert ours() != []


async def test_a_node_that_does_not_trace_takes_no_notice(two):
    here, there, _, carry = two
    traced(here, "here")
    theirs = traced(there, "there", recording=True, tracing=False)
    sub = await there.subscriber("s", "a/+", qos=1, version=5)
    theirs.buffer.take()
    pub = await here.client("p", version=5)
    pub.send(message(1, SAMPLED))
    await here.settle()
    carry()
    await there.settle()
    assert [packet for packet in await sub.got() if isinstance(packet, p.Publish)]
    assert theirs.buffer.take() == []
