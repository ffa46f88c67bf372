"""Messages in flight of a session that its client goes on with in another copy of it.

The client knows a message of QoS 2 that it has not released by its packet identifier alone. So what is in
flight in the one copy is so in the other, under the same identifier, as long as that is free there; otherwise
it is queued there, and comes twice if the client had it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gossamer.mqtt.codec.encoder import read_publish
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import NO_ID, mark_of, read_mark
from gossamer.mqtt.session.expiry import Expiring, expiry_of, sent_again
from gossamer.mqtt.session.session import Session
from gossamer.tenants import split, within

MOST = 1 << 20
"""Bytes of messages that one copy tells another of at once."""
Flying = tuple[int, bytes, int]
"""A PUBLISH in flight: its packet identifier, the packet, and its message id."""


def message_of(packet: bytes, session: Session, message_id: int = NO_ID) -> Message:
    """Return the message of a PUBLISH that was in flight, or queued, to a client."""
    publish = read_publish(packet, session.version)
    topic = inside_of(session, publish.topic)
    message = Message.of(publish, topic=topic, publisher=None, now=session.fanout.now())
    message.id = message_id
    if (expires_at := expiry_of(packet)) is not None:
        message.expires_at = expires_at
    return message


def inside_of(session: Session, topic: bytes) -> bytes:
    """Return the topic of a packet to a client as it is inside."""
    tenant, _ = split(session.client_id)
    return within(tenant, topic.decode()).encode() if tenant else topic


def flying_in(session: Session) -> list[Flying]:
    """Return the messages in flight, in the order of :func:`.transfer.left_of`."""
    message_ids = session.message_ids or {}
    return [
        (packet_id, packet, message_ids.get(packet_id, NO_ID))
        for packet_id, packet in session.inflight.items()
        if packet[0] != 0x62
    ]


def ids_in_flight(session: Session) -> set[int]:
    """Return the ids of messages in flight to the client that have one."""
    return {message_id for packet_id, message_id in (session.message_ids or {}).items() if packet_id > 0}


def fly_on(session: Session, flying: list[Flying], left: list[Message]) -> list[Message]:
    """Put in flight what was so in another copy, since the client may know it by that packet identifier.

    ``left`` is :func:`.transfer.left_of` that copy, these first. Returns those of it that are still to be
    queued.
    """
    queued: list[Message] = []
    for (packet_id, packet, message_id), message in zip(flying, left, strict=False):
        if packet_id in session.inflight:
            queued.append(message)
        elif session.admits(message):
            session.keep(packet_id, packet, message_id)
    return [*queued, *left[len(flying) :]]


def begun_in(session: Session, now: float) -> Iterator[list[object]]:
    """Yield the QoS 2 messages in flight, at most :data:`MOST`, for :func:`begin_again` in another copy."""
    room = MOST
    for packet_id, packet, message_id in flying_in(session):
        if packet[0] & 0x06 == 0x04 and message_id != NO_ID:
            room -= len(packet)
            if room < 0:
                return
            expires_at = expiry_of(packet)
            left = None if expires_at is None else expires_at - now
            yield [packet_id, bytes(packet), mark_of(message_id), left]


def begin_again(
    session: Session, begun: Iterable[list[Any]], wanted: Callable[[bytes], int] | None = None
) -> None:
    """Put in flight what another copy of the same version has begun to send: see :func:`begun_in`.

    ``wanted`` returns whether the session is subscribed to a topic; None: to all of these. What finds no
    place is left out.
    """
    now = session.fanout.now
    for packet_id, plain, mark, left in begun:
        if session.channel is not None and len(session.inflight) >= session.window:
            return
        packet = Expiring.of(plain, None if left is None else now() + left)
        message_id = read_mark(mark, 0)[0].message_id
        message = message_of(packet, session, message_id)
        if packet_id in session.inflight or (wanted is not None and not wanted(message.topic)):
            continue
        if session.admits(message):
            session.keep(packet_id, packet, message_id)
            if session.channel is not None:
                session.push(sent_again(packet, session.version, now()))


def halves_of(session: Session) -> list[int]:
    """Return packet identifiers of QoS 2 exchanges to the client that may have begun and not ended."""
    return [number for number, packet in session.inflight.items() if packet[0] & 0xF6 != 0x32]
