"""The codec: every packet survives a round trip, and no bytes raise anything but the protocol error."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gossamer.mqtt.codec import Framer, decode, encode
from gossamer.mqtt.codec.encoder import read_publish
from gossamer.mqtt.codec.errors import MqttProtocolError
from gossamer.mqtt.codec.packets import V4, V5, Connect
from gossamer.mqtt.codec.reasons import ReasonCode
from mqtt.strategies import packets

versions = st.sampled_from([V4, V5])
versioned = versions.flatmap(lambda v: st.tuples(st.just(v), packets(v)))


def read(data: bytes, version: int):
    """Frame and decode exactly one packet."""
    [(first, body)] = Framer().feed(data)
    return decode(first, body, version)


@settings(max_examples=150, deadline=None)
@given(versioned)
def test_every_packet_survives_a_round_trip(case):
    version, packet = case
    assert read(encode(packet, version), version) == packet


@settings(max_examples=60, deadline=None)
@given(versions.flatmap(lambda v: st.tuples(st.just(v), st.lists(packets(v), max_size=5))), st.integers(1, 9))
def test_framing_does_not_depend_on_how_the_stream_is_cut(case, size):
    version, sent = case
    stream = b"".join(encode(packet, version) for packet in sent)
    framer = Framer()
    got = []
    for at in range(0, len(stream), size):
        got += framer.feed(stream[at : at + size])
    assert [decode(first, body, version) for first, body in got] == sent


def test_a_publish_of_the_largest_size_is_read():
    # The start of it: the limit is checked against what its header says.
    publish = read_publish(b"\x30\xff\xff\xff\x7f\0\1tpayload", V4)
    assert (publish.topic, publish.payload) == (b"t", b"payload")


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 255), st.binary(max_size=60), versions)
@example(0x10, b"\0\4MQTT\5\xff\0\0\0\0\0", V5)
def test_arbitrary_bytes_raise_only_the_protocol_error(first, body, version):
    error = None
    try:
        decode(first, body, version)
    except MqttProtocolError as caught:
        error = caught
    assert error is None or (error.statement.startswith("MQTT") and error.reason >= 0x80)


def connect(level: int, flags: int, rest: bytes = b"\0\0\0\1x", name: bytes = b"\0\4MQTT") -> bytes:
    return name + bytes((level, flags)) + rest


V4C = b"\0\0\0\1x"
V5C = b"\0\0\0\0\1x"

BAD = [
    # statement, version, first byte, body, reason
    ("MQTT-2.2.2-2", V4, 0x00, b"", ReasonCode.MALFORMED_PACKET),
    ("MQTT 2.1.2", V5, 0x00, b"", ReasonCode.MALFORMED_PACKET),
    ("MQTT-2.2.2-2", V4, 0xF0, b"", ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.15.1-1", V5, 0xF1, b"", ReasonCode.MALFORMED_PACKET),
    ("MQTT-2.2.2-2", V4, 0xC1, b"", ReasonCode.MALFORMED_PACKET),
    ("MQTT-2.1.3-1", V5, 0xC1, b"", ReasonCode.MALFORMED_PACKET),
    ("MQTT-2.2.2-2", V4, 0x11, connect(4, 2), ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.1.2-1", V4, 0x10, connect(4, 2, name=b"\0\4MQTX"), ReasonCode.UNSUPPORTED_PROTOCOL_VERSION),
    ("MQTT-3.1.2-2", V4, 0x10, connect(6, 2), ReasonCode.UNSUPPORTED_PROTOCOL_VERSION),
    ("MQTT-3.1.2-2", V4, 0x10, connect(3, 2, name=b"\0\6MQIsdp"), ReasonCode.UNSUPPORTED_PROTOCOL_VERSION),
    ("MQTT-3.1.2-3", V4, 0x10, connect(4, 3), ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.1.2-14", V4, 0x10, connect(4, 0x1E), ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.1.2-12", V5, 0x10, connect(5, 0x1E, V5C), ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.1.2-13", V4, 0x10, connect(4, 0x0A), ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.1.2-11", V5, 0x10, connect(5, 0x0A, V5C), ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.1.2-15", V4, 0x10, connect(4, 0x22), ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.1.2-22", V4, 0x10, connect(4, 0x42), ReasonCode.MALFORMED_PACKET),
    ("MQTT 2.1.4", V4, 0x10, connect(4, 2, V4C + b"z"), ReasonCode.MALFORMED_PACKET),
    ("MQTT 1.5.6", V4, 0x10, connect(4, 2, b"\0\0\0\2x"), ReasonCode.MALFORMED_PACKET),
    ("MQTT-1.5.4-1", V4, 0x10, connect(4, 2, b"\0\0\0\1\xff"), ReasonCode.MALFORMED_PACKET),
    ("MQTT-1.5.4-1", V4, 0x10, connect(4, 2, b"\0\0\0\3\xed\xa0\x80"), ReasonCode.MALFORMED_PACKET),
    ("MQTT-1.5.4-2", V4, 0x10, connect(4, 2, b"\0\0\0\1\0"), ReasonCode.MALFORMED_PACKET),
    ("MQTT 2.1.4", V5, 0x10, connect(5, 2, b"\0\0\2\x21\0"), ReasonCode.MALFORMED_PACKET),
    ("MQTT 2.2.2.2", V5, 0x10, connect(5, 2, b"\0\0\3\x21\0\0\0\1x"), ReasonCode.PROTOCOL_ERROR),
    ("MQTT 2.2.2.2", V5, 0x10, connect(5, 2, b"\0\0\6\x21\0\1\x21\0\1\0\1x"), ReasonCode.PROTOCOL_ERROR),
    ("MQTT 2.2.2.2", V5, 0x10, connect(5, 2, b"\0\0\3\x23\0\1\0\1x"), ReasonCode.MALFORMED_PACKET),
    ("MQTT 2.2.2.2", V5, 0x10, connect(5, 2, b"\0\0\2\x7e\0\0\1x"), ReasonCode.MALFORMED_PACKET),
    ("MQTT 3.1.2.11.10", V5, 0x10, connect(5, 2, b"\0\0\4\x16\0\1a\0\1x"), ReasonCode.PROTOCOL_ERROR),
    ("MQTT-1.5.5-1", V5, 0x10, connect(5, 2, b"\0\0\x80\0\0\1x"), ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.3.1-4", V4, 0x36, b"\0\1a\0\1", ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.3.1-2", V4, 0x38, b"\0\1a", ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.3.2-2", V4, 0x30, b"\0\1#", ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.3.2-2", V5, 0x30, b"\0\3a/+\0", ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.3.2-1", V4, 0x30, b"\0\1\xff", ReasonCode.MALFORMED_PACKET),
    ("MQTT-4.7.3-1", V4, 0x30, b"\0\0x", ReasonCode.MALFORMED_PACKET),
    ("MQTT 3.3.2.1", V5, 0x30, b"\0\0\0x", ReasonCode.PROTOCOL_ERROR),
    ("MQTT-2.3.1-1", V4, 0x32, b"\0\1a\0\0", ReasonCode.PROTOCOL_ERROR),
    ("MQTT-2.2.1-3", V5, 0x32, b"\0\1a\0\0\0", ReasonCode.PROTOCOL_ERROR),
    ("MQTT-3.3.2-8", V5, 0x30, b"\0\1a\3\x23\0\0", ReasonCode.TOPIC_ALIAS_INVALID),
    ("MQTT-3.3.2-14", V5, 0x30, b"\0\1a\4\x08\0\1#", ReasonCode.PROTOCOL_ERROR),
    ("MQTT-3.6.1-1", V4, 0x60, b"\0\1", ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.4.2-1", V5, 0x40, b"\0\1\x01", ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.8.1-1", V4, 0x80, b"\0\1\0\1a\0", ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.8.3-3", V4, 0x82, b"\0\1", ReasonCode.PROTOCOL_ERROR),
    ("MQTT-3.8.3-2", V5, 0x82, b"\0\1\0", ReasonCode.PROTOCOL_ERROR),
    ("MQTT-3-8.3-4", V4, 0x82, b"\0\1\0\1a\3", ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.8.3-5", V5, 0x82, b"\0\1\0\0\1a\x40", ReasonCode.MALFORMED_PACKET),
    ("MQTT 3.8.3.1", V5, 0x82, b"\0\1\0\0\1a\x03", ReasonCode.PROTOCOL_ERROR),
    ("MQTT 3.8.3.1", V5, 0x82, b"\0\1\0\0\1a\x30", ReasonCode.PROTOCOL_ERROR),
    ("MQTT-3.8.3-4", V5, 0x82, b"\0\1\0\0\x0a$share/g/a\x04", ReasonCode.PROTOCOL_ERROR),
    ("MQTT-3.10.1-1", V4, 0xA0, b"\0\1\0\1a", ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.10.3-2", V4, 0xA2, b"\0\1", ReasonCode.PROTOCOL_ERROR),
    ("MQTT-3.14.1-1", V5, 0xE1, b"", ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.14.2-1", V5, 0xE0, b"\x01", ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.15.2-1", V5, 0xF0, b"\x01", ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.2.2-1", V5, 0x20, b"\x02\0\0", ReasonCode.MALFORMED_PACKET),
    ("MQTT-3.2.2-6", V5, 0x20, b"\x01\x87\0", ReasonCode.PROTOCOL_ERROR),
]


@pytest.mark.parametrize(("statement", "version", "first", "body", "reason"), BAD)
def test_a_violation_names_its_statement_and_reason_code(statement, version, first, body, reason):
    with pytest.raises(MqttProtocolError) as caught:
        decode(first, body, version)
    assert (caught.value.statement, caught.value.reason) == (statement, reason)


def test_a_password_is_not_in_a_repr():
    assert "hunter2" not in repr(Connect(client_id="c", username="u", password=b"hunter2"))
