"""Runs of records as they wait: what is left of their time, and what must not be lost beside it."""

from hypothesis import given
from hypothesis import strategies as st

from gossamer.mqtt.codec.encoder import read_publish
from gossamer.mqtt.codec.packets import V5
from gossamer.mqtt.codec.properties import Properties
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.records import MOVE_MARK, encode_kept, fresh, fresh_kept, kept_in, record_of


def record(topic, expiry=None, now=0.0):
    properties = Properties(message_expiry=expiry)
    expires_at = None if expiry is None else now + expiry
    return record_of(Message(topic, b"x", qos=1, properties=properties, expires_at=expires_at), now)


@given(now=st.floats(994, 1024), waited=st.integers(0, 29))
def test_no_subscriber_is_told_of_a_second_more_than_is_left(now, waited):
    """Before a power of two the moment of expiry is rounded, one time in four up."""
    message = Message(b"t", b"x", properties=Properties(message_expiry=30), expires_at=now + 30)
    head, tail = message.parts(V5, 0, (), now + waited)
    assert read_publish(head + tail, V5).properties.message_expiry == 30 - waited


def test_what_waits_has_less_time_and_what_has_none_goes():
    records = record(b"plain") + record(b"short", 5) + record(b"long", 100)
    assert fresh(records, 20.0) == (record(b"plain") + record(b"long", 80), 1)
    assert fresh(record(b"plain"), 20.0) == (record(b"plain"), 0)


def test_a_mark_of_a_move_stays_in_its_place():
    mark = MOVE_MARK + b"\x05token"
    records = record(b"a", 100) + mark + record(b"b", 5) + mark + record(b"c")
    assert fresh(records, 20.0) == (record(b"a", 80) + mark + mark + record(b"c"), 1)


def test_entries_keep_their_numbers_and_their_kind():
    """Also one of which nothing is left: it was kept, and is not to be waited for."""
    entries = [(7, False, record(b"a", 100)), (8, True, record(b"b", 5)), (1 << 60, True, record(b"c"))]
    data = b"".join(encode_kept(number, records, live=live) for number, live, records in entries)
    assert list(kept_in(data)) == entries
    left, late = fresh_kept(data, 20.0)
    assert late == 1
    assert list(kept_in(left)) == [(7, False, record(b"a", 80)), (8, True, b""), entries[2]]
