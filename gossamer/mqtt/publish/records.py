"""Runs of records: taken apart, and with less time left.

A record is what ``ingest`` says; nodes forward several in a row as they came. What is kept of a run is kept
as it is, so that reading and writing it costs nothing while all is well.
"""

from __future__ import annotations

from collections.abc import Iterator

from gossamer.mqtt.codec.errors import malformed
from gossamer.mqtt.codec.framing import frame
from gossamer.mqtt.codec.wire import MAX_VARINT
from gossamer.mqtt.publish.fanout import V5_MARK
from gossamer.mqtt.publish.inbound import MOVE_MARK, read_record, record_of
from gossamer.mqtt.publish.message_ids import MARK, mark_of, read_mark

__all__ = ["acknowledged", "encode_kept", "fresh", "fresh_kept", "kept_in", "walk"]

_LIMIT = MAX_VARINT + 5


def walk(records: bytes, *, moves: bool = False) -> Iterator[tuple[int, bytes, bytes]]:
    """QoS, topic and bytes of each message, with a mark of its own where it is recorded; marks of moves with
    ``moves`` only, as messages without a topic.

    Raises:
        MqttProtocolError: it is no run of records.
    """
    pos, end = 0, len(records)
    idents: dict[int, int] = {}
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
                idents[index + mark.skip + place] = mark.ident + place
            continue
        start = pos
        if records[pos] == V5_MARK[0]:
            pos += 1
        at, stop = frame(records, pos, end, _LIMIT)
        if at == 0 or stop > end:
            raise malformed("MQTT 2.1.4", "a record is cut off")
        topic = records[at + 2 : at + 2 + (records[at] << 8 | records[at + 1])]
        record = records[start:stop]
        yield records[pos] >> 1 & 3, topic, mark_of(idents[index]) + record if index in idents else record
        index += 1
        pos = stop


def acknowledged(records: bytes) -> int:
    """How many messages of QoS 1 and 2 there are."""
    return sum(1 for qos, _, _ in walk(records) if qos)


def fresh(records: bytes, seconds: float) -> tuple[bytes, int]:
    """The records with so much less time left, and how many had no time left."""
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
    """An entry as it travels; without records: all that was kept has been sent."""
    return number.to_bytes(8) + (len(records) << 1 | live).to_bytes(4) + records


def kept_in(data: bytes) -> Iterator[tuple[int, bool, bytes]]:
    """The entries of a frame: number, whether it is a live one, records."""
    pos = 0
    while pos < len(data):
        number, size = int.from_bytes(data[pos : pos + 8]), int.from_bytes(data[pos + 8 : pos + 12])
        records = data[pos + 12 : pos + 12 + (size >> 1)]
        yield number, bool(size & 1), records
        pos += 12 + len(records)


def fresh_kept(entries: bytes, seconds: float) -> tuple[bytes, int]:
    """The same as :func:`fresh` of entries: their records with so much less time left."""
    out: list[bytes] = []
    late = 0
    for number, live, records in kept_in(entries):
        left, gone = fresh(records, seconds)
        out.append(encode_kept(number, left, live=live))
        late += gone
    return b"".join(out), late
