"""Orphans: messages for share groups that a session had not acknowledged when it ended, or cannot take.

Another member gets them. A message that an ordinary subscription of the session also matches is left out: the
copy may be for that one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice

import structlog

from gossamer.errors import GossamerError
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import NO_ID
from gossamer.mqtt.session.in_flight import message_of
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.transfer import messages_in
from gossamer.routes import body_of, matches

log = structlog.get_logger(__name__)

Orphan = tuple[str, Message]
"""Filter of a share group, ``$share/group/filter``, and a message for another of its members."""


COMPARED = 10_000
"""Comparisons of topic and filter in a turn of the loop."""


def orphans(session: Session) -> list[Orphan]:
    """Return the unacknowledged messages of ``session`` for share groups, a group each."""
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
        message.retain, message.publisher = False, None
        key = (message.topic, message.payload)
        found.append((groups[copies[key] % len(groups)], message))
        copies[key] += 1
    return found


def take_back(session: Session, name: str, most: int) -> list[Orphan]:
    """Take the older half of the queue, at most ``most`` messages, off a session that goes on.

    Up to the first that may not be for the group ``name`` alone; none while the session moves. Each message
    is held against each subscription, so of a session with many it is fewer.
    """
    if session.gate is not None or session.given is not None:
        return []
    shares = {topic_filter: body_of(topic_filter) for topic_filter in session.subscriptions}
    taken: list[Orphan] = []
    most = min(most, max(COMPARED // len(shares), 1), (len(session.queue) + 1) // 2)
    try:
        for message in messages_in(session, islice(session.queue, most)):
            topic = message.topic.decode()
            if [found for found, body in shares.items() if matches(body, topic)] != [name]:
                break
            message.retain, message.publisher = False, None
            taken.append((name, message))
    except GossamerError as error:
        log.warning("not_redispatched", client_id=session.client_id, error=str(error))
    session.shed(list(islice(session.queue, len(taken))))
    return taken


def _unacknowledged(session: Session) -> Iterator[Message]:
    message_ids = session.message_ids or {}
    flying: list[Callable[[], Message]] = [
        partial(message_of, packet, session, message_ids.get(packet_id, NO_ID))
        for packet_id, packet in session.inflight.items()
        if packet[0] & 0xF6 == 0x32
    ]
    for read in chain(flying, (messages_in(session, (item,)).__next__ for item in session.queue)):
        try:
            message = read()
        except GossamerError as error:
            # The session ends all the same, and other members get the rest.
            log.warning("not_redispatched", client_id=session.client_id, error=str(error))
        else:
            yield message
