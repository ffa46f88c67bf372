"""Records: messages as they are forwarded to nodes and kept on disc; runs of them, and their expiry.

A record is a PUBLISH packet: of MQTT 3.1.1 as it is, its packet identifier being meaningless; of 5.0, where
it has properties, behind a mark byte that is no packet type. So a plain message is forwarded as the bytes it
came in, and several in a row as they came. A run is kept on disc as it is, without decoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from gossamer.mqtt.codec.decoder import decode_publish
from gossamer.mqtt.codec.encoder import publish_parts
from gossamer.mqtt.codec.errors import malformed
from gossamer.mqtt.codec.framing import frame, topic_in
from gossamer.mqtt.codec.packets import V4, V5
from gossamer.mqtt.codec.properties import NONE
from gossamer.mqtt.codec.wire import MAX_VARINT
from gossamer.mqtt.messages.message import Message, interval_left
from gossamer.mqtt.messages.message_ids import MARK, NO_ID, mark_of, read_mark

_LIMIT = MAX_VARINT + 5
V5_MARK = b"\x05"
"""Before a forwarded record that is a PUBLISH of MQTT 5.0; one of 3.1.1 begins with its own first byte."""
MOVE_MARK = b"\x06"
"""First byte of a mark of a moving session (``migration.marks``): a length of one byte and a token follow."""


def record_of(message: Message, now: float, hlc: int = 0, qos: int | None = None) -> bytes:
    """Return the record of ``message``, with its own or another ``qos``, its properties and the expiry that
    is left; behind a mark, if it has an id."""
    properties = message.properties
    if message.expires_at is not None:
        left = max(1, interval_left(message.expires_at, now))
        properties = msgspec.structs.replace(properties, message_expiry=left)
    version = V4 if properties is NONE else V5
    qos = message.qos if qos is None else qos
    head, tail = publish_parts(
        message.topic,
        message.payload,
        flags=qos << 1 | message.retain,
        version=version,
        properties=properties,
    )
    packet = head + (b"\0\1" if qos else b"") + tail
    if version != V4:
        packet = V5_MARK + packet
    return packet if message.id == NO_ID else mark_of(message.id, hlc=hlc) + packet


def read_record(data: bytes, pos: int, end: int, now: float) -> tuple[Message, int]:
    """Return the message of the record at ``pos``, and where the next one starts.

    Raises:
        MqttProtocolError: it is no record.
    """
    version = V4
    message_id = NO_ID
    if data[pos] == MARK[0]:
        mark, pos = read_mark(data, pos)
        message_id = mark.message_id
    if data[pos] == V5_MARK[0]:
        version = V5
        pos += 1
    at, stop = frame(data, pos, end, _LIMIT)
    if at == 0 or stop > end:
        raise malformed("MQTT 2.1.4", "a record is cut off")
    first = data[pos]
    if first >> 4 != 3:
        raise malformed("MQTT 2.1.2", f"a record starts with 0x{first:02X}, expected PUBLISH")
    packet = decode_publish(first & 7, data[at:stop], version, inside=True)
    message = Message.of(packet, topic=packet.topic, publisher=None, now=now)
    message.id = message_id
    return message, stop


def walk(records: bytes, *, moves: bool = False) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield QoS, topic and record of each message, with a mark of its own if it has an id; with ``moves``
    also marks of moves, as messages without a topic.

    Raises:
        MqttProtocolError: a record or mark is malformed.
    """
    pos, end = 0, len(records)
    message_ids: dict[int, int] = {}
    index = 0
    while pos < end:
        if records[pos] == MOVE_MARK[0]:
            stop = pos + 2 + records[pos + 1]
            if moves:
                yield 0, b"", records[pos:stop]
            pos = stop
            continue
        if records[pos] == MARK[0]:
            mark, pos = read_mark(records, pos)
            # A frame holds fewer messages than bytes, whatever a mark says.
            for place in range(min(mark.many, end)):
                message_ids[index + mark.skip + place] = mark.message_id + place
            continue
        start = pos
        if records[pos] == V5_MARK[0]:
            pos += 1
        at, stop = frame(records, pos, end, _LIMIT)
        if at == 0 or stop > end:
            raise malformed("MQTT 2.1.4", "a record is cut off")
        topic = records[at + 2 : at + 2 + (records[at] << 8 | records[at + 1])]
        record = records[start:stop]
        yield (
            records[pos] >> 1 & 3,
            topic,
            mark_of(message_ids[index]) + record if index in message_ids else record,
        )
        index += 1
        pos = stop


def acknowledged(records: bytes) -> int:
    """Count the messages of QoS 1 and 2."""
    return sum(1 for qos, _, _ in walk(records) if qos)


def fresh(records: bytes, seconds: float) -> tuple[bytes, int]:
    """Return the records with expiry intervals reduced by ``seconds``, and how many messages have expired."""
    if V5_MARK not in records:
        return records, 0
    out: list[bytes] = []
    late = 0
    for _, _, record in walk(records, moves=True):
        if record[:1] not in (V5_MARK, MARK):
            out.append(record)
            continue
        message, _ = read_record(record, 0, len(record), 0.0)
        if message.expires_at is None:
            out.append(record)
        elif message.expires_at > seconds:
            message.expires_at -= seconds
            out.append(record_of(message, 0.0))
        else:
            late += 1
    return b"".join(out), late


def encode_kept(number: int, records: bytes, *, live: bool) -> bytes:
    """Return a hint as it is sent; without records: all that was kept has been sent."""
    return number.to_bytes(8) + (len(records) << 1 | live).to_bytes(4) + records


def kept_in(data: bytes) -> Iterator[tuple[int, bool, bytes]]:
    """Yield the hints of a frame: number, whether it is live, records."""
    pos = 0
    while pos < len(data):
        number, size = int.from_bytes(data[pos : pos + 8]), int.from_bytes(data[pos + 8 : pos + 12])
        records = data[pos + 12 : pos + 12 + (size >> 1)]
        yield number, bool(size & 1), records
        pos += 12 + len(records)


def fresh_kept(entries: bytes, seconds: float) -> tuple[bytes, int]:
    """Do the same as :func:`fresh` for hints."""
    out: list[bytes] = []
    late = 0
    for number, live, records in kept_in(entries):
        left, gone = fresh(records, seconds)
        out.append(encode_kept(number, left, live=live))
        late += gone
    return b"".join(out), late


Span = tuple[int, int, int]
"""Recorded part of a run: number of messages before it, id of its first message, number of messages."""


class Piece(NamedTuple):
    """Consecutive messages of one topic."""

    topic: bytes
    size: int
    """Bytes of payload of all of them."""
    message_id: int
    many: int
    payload: bytes | None
    """Payload, if it is one message."""


def pieces_of(
    chunk: bytes, count: int, version: int, spans: Iterable[Span], *, mixed: bool
) -> Iterator[Piece]:
    """Yield the ``spans`` of a run of ``count`` publishes of QoS 0 without properties, for the recorder.

    The fan-out does not decode a run; the recorder has to, in its spans. ``mixed``: packets may differ in
    topic and size; otherwise all are as the first one.
    """
    skip_body = 1 if version == V5 else 0
    if mixed:
        yield from _walk(chunk, skip_body, spans)
        return
    total = len(chunk) // count
    topic = topic_in(chunk)
    start, _ = frame(chunk, 0, len(chunk), _LIMIT)
    body = start + 2 + len(topic) + skip_body
    for skip, message_id, many in spans:
        payload = chunk[skip * total + body : (skip + 1) * total] if many == 1 else None
        yield Piece(topic, (total - body) * many, message_id, many, payload)


def _walk(chunk: bytes, skip_body: int, spans: Iterable[Span]) -> Iterator[Piece]:
    pos = index = 0
    end = len(chunk)
    for skip, message_id, many in spans:
        piece: Piece | None = None
        while index < skip + many:
            start, stop = frame(chunk, pos, end, _LIMIT)
            if index >= skip:
                topic_end = start + 2 + (chunk[start] << 8 | chunk[start + 1])
                topic = chunk[start + 2 : topic_end]
                size = stop - topic_end - skip_body
                if piece is not None and piece.topic == topic:
                    piece = Piece(topic, piece.size + size, piece.message_id, piece.many + 1, None)
                else:
                    if piece is not None:
                        yield piece
                    payload = chunk[topic_end + skip_body : stop]
                    piece = Piece(topic, size, message_id + index - skip, 1, payload)
            pos = stop
            index += 1
        if piece is not None:
            yield piece
