"""What a session that ends had for share groups and had not acknowledged: another member is to get it.

A message that an ordinary subscription of the session asked for as well is not among it: it may be that one's
copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import structlog

from gossamer.errors import GossamerError
from gossamer.mqtt.codec.decoder import decode_publish
from gossamer.mqtt.codec.framing import frame
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import NO_IDENT, ident_in
from gossamer.mqtt.session.expiry import expiry_of
from gossamer.mqtt.session.session import Session
from gossamer.routes import body_of, matches

__all__ = ["Orphan", "orphans"]

log = structlog.get_logger(__name__)

_LIMIT = 268_435_460

Orphan = tuple[str, Message]
"""The name of a share group, and a message that is to go to another of its members."""


def orphans(session: Session) -> list[Orphan]:
    """What ``session`` holds for share groups and has not acknowledged."""
    shared = [(name, body_of(name)) for name in session.subscriptions if name.startswith("$share/")]
    if not shared:
        return []
    plain = [body_of(name) for name in session.subscriptions if not name.startswith("$share/")]
    found: list[Orphan] = []
    copies: Counter[tuple[bytes, bytes]] = Counter()
    for message in _unacknowledged(session):
        topic = message.topic.decode()
        groups = [name for name, body in shared if matches(body, topic)]
        if not groups or any(matches(body, topic) for body in plain):
            continue
        # Each group of the session has sent a copy of its own.
        key = (message.topic, message.payload)
        found.append((groups[copies[key] % len(groups)], message))
        copies[key] += 1
    return found


def _unacknowledged(session: Session) -> Iterator[Message]:
    known = session.idents or {}
    flying = [item for item in session.inflight.items() if item[1][0] & 0xF6 == 0x32]
    idents = [known.get(packet_id, NO_IDENT) for packet_id, _ in flying]
    idents += [ident_in(tail) for _, tail, _ in session.queue]
    packets = [packet for _, packet in flying]
    packets += [head + b"\0\1" + tail for head, tail, _ in session.queue]
    expiries = [expiry_of(packet) for _, packet in flying] + [
        None if message is None else message.expires_at for _, _, message in session.queue
    ]
    now = session.hub.now()
    for packet, expires_at, ident in zip(packets, expiries, idents, strict=True):
        try:
            at, stop = frame(packet, 0, len(packet), _LIMIT)
            found = decode_publish(packet[0] & 6, packet[at:stop], session.version)
        except GossamerError as error:
            log.warning("not_redispatched", client_id=session.client_id, error=str(error))
            continue
        message = Message.of(found, topic=found.topic, publisher=None, now=now)
        message.retain = False
        message.ident = ident
        if expires_at is not None:
            message.expires_at = expires_at
        yield message
