"""What stands in a run of publishes, for whoever records it: topics, sizes, and which messages.

A run is handed on as one slice and nobody looks into it again (``fanout``); a recorder has to, at those
places that it keeps. Mostly all packets of a run begin alike and are of one size, and then the first one
tells all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gossamer.mqtt.codec.framing import frame
from gossamer.mqtt.codec.packets import V5
from gossamer.mqtt.codec.wire import MAX_VARINT

__all__ = ["Piece", "Span", "pieces_of", "topic_in"]

Span = tuple[int, int, int]
"""How many messages of the run come before, identifier of the first that is kept, how many are."""

_LIMIT = MAX_VARINT + 5


class Piece(NamedTuple):
    """Neighbours of one topic."""

    topic: bytes
    size: int
    """Bytes of payload of all of them."""
    ident: int
    many: int
    payload: bytes | None
    """Where it is one message."""


def topic_in(head: bytes) -> bytes:
    """The topic of a PUBLISH that is whole up to there or further."""
    at, _ = frame(head, 0, len(head), _LIMIT)
    return head[at + 2 : at + 2 + (head[at] << 8 | head[at + 1])]


def pieces_of(
    chunk: bytes, count: int, version: int, spans: Iterable[Span], *, mixed: bool
) -> Iterator[Piece]:
    """The kept part of a run of ``count`` publishes of QoS 0 without properties, as its ``spans`` name it.

    ``mixed``: packets may differ in topic and size.
    """
    skip_body = 1 if version == V5 else 0
    if mixed:
        yield from _walk(chunk, skip_body, spans)
        return
    total = len(chunk) // count
    topic = topic_in(chunk)
    start, _ = frame(chunk, 0, len(chunk), _LIMIT)
    body = start + 2 + len(topic) + skip_body
    for skip, ident, many in spans:
        payload = chunk[skip * total + body : (skip + 1) * total] if many == 1 else None
        yield Piece(topic, (total - body) * many, ident, many, payload)


def _walk(chunk: bytes, skip_body: int, spans: Iterable[Span]) -> Iterator[Piece]:
    pos = index = 0
    end = len(chunk)
    for skip, ident, many in spans:
        piece: Piece | None = None
        while index < skip + many:
            start, stop = frame(chunk, pos, end, _LIMIT)
            if index >= skip:
                topic_end = start + 2 + (chunk[start] << 8 | chunk[start + 1])
                topic = chunk[start + 2 : topic_end]
                size = stop - topic_end - skip_body
                if piece is not None and piece.topic == topic:
                    piece = Piece(topic, piece.size + size, piece.ident, piece.many + 1, None)
                else:
                    if piece is not None:
                        yield piece
                    payload = chunk[topic_end + skip_body : stop]
                    piece = Piece(topic, size, ident + index - skip, 1, payload)
            pos = stop
            index += 1
        if piece is not None:
            yield piece
