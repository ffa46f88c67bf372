"""From rows of a recorder to spans: parents, times, bounds."""

import pytest

import gossamer.audit.schema as schema
from gossamer.audit import KINDS
from gossamer.mqtt import ASIDE
from gossamer.tracing import Name, Parent, SpanBuilder
from gossamer.tracing.spans import OPEN, PARENT, SETTLE

HERE, THERE = "n1@h", "n2@h"
SEEN = Parent(0xABC, 0xDEF, True)


def row(event, at, number, *rest, count=1, origin=HERE):
    return (KINDS[event], at, origin, 7, number, count, *rest)


def published(at, number, count=1, client="p"):
    return row(schema.PUBLISHED, at, number, "a/b", 1, False, 3 * count, None, client, count=count)


def routed(at, number, nodes=(), count=1, **options):
    return row(schema.ROUTED, at, number, "a/b", ("a/#",), nodes, None, None, count=count, **options)


def delivered(at, number, client, reason=None, **options):
    return row(schema.DELIVERED, at, number, client, 1, False, None, None, reason, **options)


def woven(rows, *, node=HERE, deliveries=16):
    builder = SpanBuilder(node, deliveries=deliveries)
    builder.feed(rows)
    return builder.flush()


def by_name(spans):
    found = {}
    for span in spans:
        found.setdefault(span.name, []).append(span)
    return found


def journey():
    """A message of QoS 1 from ``p`` at n1 to ``s1`` there and ``s2`` at n2; what either node notes."""
    here = [
        published(1000, 5),
        routed(1010, 5, (THERE,)),
        row(schema.FORWARDED, 1020, 5, THERE),
        delivered(1100, 5, "s1"),
        row(schema.ACKNOWLEDGED, 1300, 5, "s1", "subscriber"),
        row(schema.ACKNOWLEDGED, 1500, 5, "p", "publisher"),
    ]
    there = [
        row(schema.RECEIVED, 1200, 5, "a/b", HERE),
        routed(1205, 5),
        delivered(1250, 5, "s2"),
    ]
    return here, there


def test_one_message_is_one_trace_across_nodes():
    here, there = journey()
    first, second = woven(here), woven(there, node=THERE)
    assert len({span.trace for span in first + second}) == 1
    known = {span.span: span for span in first + second}
    assert len(known) == len(first) + len(second)

    def above(span):
        names = []
        while span.parent is not None:
            span = known[span.parent]
            names.append(f"{span.name} {span.attributes['gossamer.node']}")
        return names

    deliveries = {s.attributes["messaging.client.id"]: s for s in known.values() if s.name == "deliver"}
    assert above(deliveries["s1"]) == [f"route {HERE}", f"publish {HERE}"]
    assert above(deliveries["s2"]) == [
        f"route {THERE}",
        f"receive {THERE}",
        f"forward {HERE}",
        f"route {HERE}",
        f"publish {HERE}",
    ]
    acks = {s.attributes["mqtt.role"]: s for s in known.values() if s.name == "acknowledge"}
    assert known[acks["publisher"].parent].name == "publish"
    assert known[acks["subscriber"].parent] is deliveries["s1"]


def test_times_are_those_at_which_things_were_noted():
    spans = by_name(woven(journey()[0]))
    times = {name: [(s.start, s.end) for s in found] for name, found in spans.items()}
    assert times["publish"] == [(1000, 1500)]
    assert times["route"] == [(1000, 1010)]
    assert times["forward"] == [(1010, 1020)]
    assert times["deliver"] == [(1010, 1100)]
    assert times["acknowledge"] == [(1100, 1300), (1000, 1500)]
    assert all(s.start <= s.end for found in spans.values() for s in found)


def test_a_publisher_that_traces_is_the_parent_on_every_node():
    here, there = journey()
    parent = (PARENT, 900, HERE, 7, 5, SEEN)
    first, second = woven([parent, *here]), woven([parent, *there], node=THERE)
    assert {span.trace for span in first + second} == {SEEN.trace}
    (root,) = by_name(first)["publish"]
    assert (root.parent, root.remote) == (SEEN.span, True)


def test_a_publisher_that_is_not_sampled_is_not_traced():
    parent = (PARENT, 900, HERE, 7, 5, SEEN._replace(sampled=False))
    assert woven([parent, *journey()[0]]) == []


def test_a_message_without_a_parent_is_the_root_of_its_trace():
    (root,) = by_name(woven(journey()[0]))["publish"]
    assert root.parent is None
    assert root.attributes["messaging.destination.name"] == "a/b"
    assert root.attributes["messaging.client.id"] == "p"
    assert root.attributes["messaging.message.body.size"] == 3


def test_neighbours_that_are_noted_together_are_a_trace_each():
    rows = [published(1000, 5, count=3), routed(1001, 5, count=3), delivered(1002, 5, ("s", "t"), count=3)]
    spans = by_name(woven(rows))
    assert len({s.trace for s in spans["publish"]}) == 3
    assert len(spans["deliver"]) == 6
    assert spans["publish"][0].attributes["gossamer.run.messages"] == 3
    assert "messaging.message.body.size" not in spans["publish"][0].attributes


def test_a_drop_is_an_error_with_its_reason():
    rows = [published(1, 5), routed(2, 5), row(schema.DROPPED, 3, 5, "s", None, "queue_full")]
    (drop,) = by_name(woven(rows))["drop"]
    assert drop.error == "queue_full"
    assert drop.attributes["messaging.client.id"] == "s"


def test_subscribers_beyond_the_first_are_counted():
    rows = [
        published(1, 5),
        routed(2, 5),
        delivered(3, 5, tuple(f"s{i}" for i in range(100))),
        delivered(3, 5, "late"),
    ]
    spans = by_name(woven(rows, deliveries=4))
    assert len(spans["deliver"]) == 4
    (route,) = spans["route"]
    assert route.attributes["gossamer.delivered"] == 101
    assert route.attributes["gossamer.omitted"] == 97


def test_a_message_is_told_when_it_has_been_quiet_for_a_while():
    builder = SpanBuilder(HERE, deliveries=16)
    builder.feed([published(1000, 5), published(2000, 6)])
    assert builder.flush(1000 + SETTLE - 1) == []
    assert [str(s.attributes["messaging.message.id"]) for s in builder.flush(1000 + SETTLE)] == [
        f"{HERE}/7/5"
    ]
    assert len(builder.flush()) == 1


def test_what_comes_late_has_the_same_parents():
    here, _ = journey()
    early = by_name(woven(here))
    (late,) = woven([delivered(9_000_000, 5, "s3")])
    assert (late.trace, late.parent) == (early["route"][0].trace, early["route"][0].span)
    assert late.start == late.end == 9_000_000


def test_a_share_group_s_message_is_forwarded_to_the_node_that_was_chosen():
    rows = [published(1, 5), routed(2, 5), row(schema.ROUTED, 3, 5, "a/b", ("a/b",), (), "g", THERE)]
    spans = by_name(woven(rows))
    there = woven([row(schema.RECEIVED, 9, 5, "a/b", HERE), delivered(10, 5, "s")], node=THERE)
    assert by_name(there)["receive"][0].parent == spans["forward"][0].span
    assert spans["route"][0].attributes["mqtt.shares"] == ("g",)


def test_messages_that_find_no_room_are_counted():
    builder = SpanBuilder(HERE, deliveries=16)
    builder.feed([published(1, 1, count=OPEN + 50)])
    assert builder.crowded == 50
    assert len(builder.flush()) == OPEN


def test_a_share_of_what_is_recorded_is_the_same_on_every_node():
    ones = []
    for node in (HERE, THERE):
        builder = SpanBuilder(node, deliveries=16)
        builder.share = 0.2
        builder.feed([published(1, 1, count=500)])
        ones.append({s.trace for s in builder.flush()})
    assert ones[0] == ones[1]
    assert 50 < len(ones[0]) < 150


def test_what_a_publisher_wants_traced_is_not_traced_without_it():
    """Its parent is forgotten: spans without it would be in a trace of their own."""
    builder = SpanBuilder(HERE, deliveries=16)
    builder.feed([delivered(1, 5 | ASIDE, "s")])
    assert (builder.flush(), builder.forgotten) == ([], 1)


def test_a_client_that_was_not_let_in_is_no_message():
    assert woven([(KINDS[schema.DROPPED], 1, None, None, None, 1, "c", None, "shed")]) == []


def test_spans_are_what_opentelemetry_exports():
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from gossamer.config import TracingConfig
    from gossamer.tracing.otlp import OtlpSender

    exporter = InMemorySpanExporter()
    rows = [*journey()[0], row(schema.DROPPED, 1600, 5, "s", None, "queue_full")]
    assert OtlpSender(TracingConfig(service_name="broker"), HERE, exporter)(woven(rows))
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert spans["publish"].parent is None
    assert spans["route"].parent.span_id == spans["publish"].context.span_id
    assert spans["route"].context.trace_id == spans["publish"].context.trace_id
    assert spans["publish"].end_time - spans["publish"].start_time == 500_000
    assert spans["publish"].kind.name == "SERVER"
    assert (spans["drop"].status.status_code.name, spans["drop"].status.description) == (
        "ERROR",
        "queue_full",
    )
    assert spans["route"].attributes["gossamer.filters"] == ("a/#",)
    assert spans["route"].resource.attributes["service.name"] == "broker"
    assert spans["route"].resource.attributes["service.instance.id"] == HERE


def test_a_message_s_name_reads_as_one_text():
    assert str(Name("n1@h", 3, 12)) == "n1@h/3/12"
