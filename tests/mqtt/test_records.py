"""Runs of records as they wait: what is left of their time, and what must not be lost beside it."""

from gossamer.mqtt.ingest import MOVE_MARK, record_of
from gossamer.mqtt.message import Message
from gossamer.mqtt.properties import Properties
from gossamer.mqtt.records import fresh


def record(topic, expiry=None, now=0.0):
    properties = Properties(message_expiry=expiry)
    expires_at = None if expiry is None else now + expiry
    return record_of(Message(topic, b"x", qos=1, properties=properties, expires_at=expires_at), now)


def test_what_waits_has_less_time_and_what_has_none_goes():
    records = record(b"plain") + record(b"short", 5) + record(b"long", 100)
    assert fresh(records, 20.0) == (record(b"plain") + record(b"long", 80), 1)
    assert fresh(record(b"plain"), 20.0) == (record(b"plain"), 0)


def test_a_mark_of_a_move_stays_in_its_place():
    mark = MOVE_MARK + b"\x05token"
    records = record(b"a", 100) + mark + record(b"b", 5) + mark + record(b"c")
    assert fresh(records, 20.0) == (record(b"a", 80) + mark + mark + record(b"c"), 1)
