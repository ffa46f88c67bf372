"""A session as plain data that travels between nodes, in parts that fit a frame.

Everything moves: version, user, expiry and what is left of it, the will and when it is due, subscriptions
with options and identifiers, packets in flight under their identifiers and in their order, identifiers of QoS
2 that the publisher has not released, and the queue, whose messages keep the time they have left.

Messages that are offered rather than moved (see ``takeover``) travel as records, for a session that may speak
another version and have other subscriptions.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from gossamer.mqtt.codec.encoder import read_publish
from gossamer.mqtt.codec.packets import Subscription, Will
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import NO_ID, Tracked, mark_of, message_id_in, read_mark
from gossamer.mqtt.messages.records import read_record, record_of
from gossamer.mqtt.session.expiry import Expiring, expiry_of
from gossamer.mqtt.session.qos2 import Block, Once
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.state import Item
from gossamer.mqtt.session.store import decode_will
from gossamer.routes import body_of, matches

PART = 512 * 1024
"""A part is about so large, or one packet."""

_encode = msgspec.msgpack.Encoder().encode


class Pending(NamedTuple):
    """Timers of a session without a connection, in seconds from now."""

    left: float | None
    """Until it ends."""
    will: Will | None
    will_left: float | None
    """Until its will is sent."""
    stamps: tuple[str, ...] = ()
    """Under which the will is known."""


def rightful(rows: Mapping[str, int]) -> str | None:
    """Whose session of a client it is, by the epochs that nodes claim; names decide between equals."""
    return max(rows, key=lambda node: (rows[node], node)) if rows else None


def describe(session: Session, pending: Pending) -> dict[str, object]:
    """The session itself."""
    return {
        "version": session.version,
        "username": session.username,
        "expiry": session.expiry,
        "clean": session.clean,
        "born": session.born,
        "revised": session.revised,
        "left": pending.left,
        "will": None if pending.will is None else _encode(pending.will),
        "will_left": pending.will_left,
        "will_stamps": pending.stamps,
        "moves": session.moves,
        "once": [] if session.once is None else session.once.dump(),
    }


def resemble(session: Session, state: dict[str, Any]) -> None:
    """Be the session that :func:`describe` has described."""
    session.version = state["version"]
    session.username = state["username"]
    session.clean = state["clean"]
    session.born = state["born"]
    session.moves = tuple(state["moves"])
    if state["once"]:
        session.remember().load(state["once"])


def pending_of(state: dict[str, Any]) -> Pending:
    """Return the timers in a described session."""
    will = state["will"]
    stamps = tuple(state["will_stamps"])
    return Pending(state["left"], None if will is None else decode_will(will), state["will_left"], stamps)


def in_parts(session: Session, now: float) -> list[list[object]]:
    """Everything in the session, in parts."""
    return _parts(_entries(session, now))


def items_of(items: Iterable[Item], now: float) -> list[list[object]]:
    """Queued messages, in parts."""
    return _parts(["q", *_packed(item, now)] for item in items)


def subscriptions_in(session: Session) -> Iterator[list[object]]:
    """Yield the subscriptions of a session, as :func:`install` takes them."""
    for wanted, identifier in session.subscriptions.values():
        yield ["s", list(msgspec.structs.astuple(wanted)), identifier]


def _entries(session: Session, now: float) -> Iterator[list[object]]:
    yield from subscriptions_in(session)
    message_ids = session.message_ids or {}
    for packet_id, packet in session.inflight.items():
        message_id = message_ids.get(packet_id, NO_ID)
        mark = b"" if message_id == NO_ID else mark_of(message_id)
        expires_at = expiry_of(packet)
        yield ["i", packet_id, bytes(packet), mark, None if expires_at is None else expires_at - now]
    for packet_id in session.incoming:
        message_id = session.message_id_of(packet_id)
        doubtful = packet_id in session.doubtful or packet_id in session.passing
        yield ["r", packet_id, b"" if message_id == NO_ID else mark_of(message_id), doubtful]
    for item in session.queue:
        yield ["q", *_packed(item, now)]


def _packed(item: Item, now: float) -> tuple[object, ...]:
    head, tail, message = item
    # What travels takes bytes, and no kind of them.
    plain = bytes(tail)
    if message is None or message.expires_at is None:
        return (head, plain, tail.tag) if isinstance(tail, Tracked) else (head, plain)
    # The record rounds up, so the time that is left goes beside it.
    return head, plain, record_of(message, now), message.expires_at - now


def _parts(entries: Iterable[list[object]]) -> list[list[object]]:
    parts: list[list[object]] = []
    size = PART
    for entry in entries:
        if size >= PART:
            parts.append([])
            size = 0
        parts[-1].append(entry)
        size += 16 + sum(len(field) for field in entry if isinstance(field, bytes))
    return parts


def install(session: Session, entries: Iterable[list[Any]], now: float) -> list[Item]:
    """Put what moved into a new session, but for its queue, which is returned."""
    queue: list[Item] = []
    # Other nodes may have other rules.
    session.checked = None
    for kind, *fields in entries:
        match kind:
            case "s":
                session.subscribe(Subscription(*fields[0]), fields[1])
            case "i":
                packet_id, packet, mark, left = fields
                message_id = read_mark(mark, 0)[0].message_id if mark else NO_ID
                session.keep(packet_id, Expiring.of(packet, None if left is None else now + left), message_id)
            case "r":
                packet_id, mark, doubtful = fields
                message_id = read_mark(mark, 0)[0].message_id if mark else NO_ID
                session.unreleased(packet_id, message_id, doubtful=doubtful and bool(mark))
            case _:
                queue.append(item_of(fields, now))
    return queue


def item_of(fields: list[Any], now: float) -> Item:
    """A queued message that travelled."""
    head, tail, *rest = fields
    if not rest:
        return head, tail, None
    if len(rest) == 1:
        return head, Tracked.tagged(tail, rest[0]), None
    record, left = rest
    message, _ = read_record(record, 0, len(record), now)
    message.expires_at = now + left
    return head, tail if message.id == NO_ID else Tracked.of(tail, message.id), message


def message_of(packet: bytes, version: int, now: Callable[[], float], message_id: int = NO_ID) -> Message:
    """The message of a PUBLISH that was on its way to a client."""
    publish = read_publish(packet, version)
    message = Message.of(publish, topic=publish.topic, publisher=None, now=now())
    message.id = message_id
    if (expires_at := expiry_of(packet)) is not None:
        message.expires_at = expires_at
    return message


def left_of(session: Session, *, given: bool) -> list[Message]:
    """The messages that a session has and its client may not: in flight, then queued. ``given``: but for
    those that another node was given in a move."""
    now = session.fanout.now
    flying = [] if given else flying_in(session)
    messages = [message_of(packet, session.version, now, message_id) for _, packet, message_id in flying]
    first = session.given or 0 if given else 0
    return [*messages, *messages_in(session, islice(session.queue, first, None))]


Flying = tuple[int, bytes, int]
"""What is in flight: the identifier of the packet, the PUBLISH, which message it is."""


def flying_in(session: Session) -> list[Flying]:
    """The messages that are in flight, as :func:`left_of` has them first."""
    message_ids = session.message_ids or {}
    return [
        (packet_id, packet, message_ids.get(packet_id, NO_ID))
        for packet_id, packet in session.inflight.items()
        if packet[0] != 0x62
    ]


def ids_in_flight(session: Session) -> set[int]:
    """Which messages are on their way to the client, as far as that is known."""
    return {message_id for packet_id, message_id in (session.message_ids or {}).items() if packet_id > 0}


def fly_on(session: Session, flying: list[Flying], left: list[Message]) -> list[Message]:
    """Have in flight what was so in another copy, which its client may know by that identifier.

    ``left`` is what was left there, these first; what of it is to be queued.
    """
    queued: list[Message] = []
    for (packet_id, packet, message_id), message in zip(flying, left, strict=False):
        if packet_id in session.inflight:
            queued.append(message)
        elif session.admits(message):
            session.keep(packet_id, packet, message_id)
    return [*queued, *left[len(flying) :]]


def is_given(session: Session, moves: Collection[str]) -> bool:
    """Return whether a session that came by ``moves`` has what this one had when it was given away."""
    return session.given is not None and session.move in moves


def had_from(session: Session) -> list[Block]:
    """Which messages of QoS 2 its client has had from it, as :meth:`Once.dump` has them."""
    if session.once is None:
        return []
    delivered = Once.of(session.once.dump())
    delivered.release(message.id for message in left_of(session, given=False))
    return delivered.dump()


def wanted_by(session: Session, *, shared: bool) -> Callable[[bytes], int]:
    """With which QoS a session wants a topic, 0: not at all; ``shared``: share groups count as well."""
    levels = [
        (body_of(wanted.filter), wanted.qos)
        for wanted, _ in session.subscriptions.values()
        if shared or not wanted.filter.startswith("$share/")
    ]

    def qos_of(topic: bytes) -> int:
        name = topic.decode()
        return max((qos for topic_filter, qos in levels if matches(topic_filter, name)), default=0)

    return qos_of


def halves_of(session: Session) -> list[int]:
    """Under which identifiers the client may have begun to take a message of QoS 2, and not ended it."""
    return [number for number, packet in session.inflight.items() if packet[0] & 0xF6 != 0x32]


def unreleased_in(session: Session) -> list[tuple[int, bytes]]:
    """Messages of QoS 2 that the client has published and may publish again: the identifier of the packet,
    and the mark of the message."""
    message_ids = {number: session.message_id_of(number) for number in session.incoming}
    return [
        (number, mark_of(message_id)) for number, message_id in message_ids.items() if message_id != NO_ID
    ]


def know(session: Session, unreleased: Iterable[Sequence[Any]]) -> None:
    """Take these for the same messages, should the client publish them again."""
    for number, mark in unreleased:
        if number not in session.incoming:
            session.unreleased(number, read_mark(mark, 0)[0].message_id, doubtful=True)


def messages_in(session: Session, items: Iterable[Item]) -> Iterator[Message]:
    """The messages that are queued, each with the QoS with which it is."""
    for head, tail, queued in items:
        if queued is None:
            message = message_of(
                head + b"\0\1" + tail, session.version, session.fanout.now, message_id_in(tail)
            )
        else:
            # Other sessions may have the same one queued.
            message = copy(queued)
        message.qos = head[0] >> 1 & 3
        yield message


def queue_left(session: Session, *, given: bool) -> None:
    """Have all that :func:`left_of` says in the queue, and nothing else."""
    left = left_of(session, given=given)
    if given and session.once is not None:
        # Another node has them, and the client has had none of them from here.
        elsewhere = {message.id for message in left_of(session, given=False)}
        session.once.release(elsewhere.difference(message.id for message in left))
    for packet_id in [number for number, packet in session.inflight.items() if packet[0] != 0x62]:
        session.withdraw(packet_id)
    now = session.fanout.now()
    session.refill(item for message in left if (item := _item(message, session.version, now)) is not None)
    session.given = None
    session.save()


def packed(messages: Iterable[Message], session: Session, now: float) -> Iterator[Item]:
    """Queued messages for ``session`` of those that it has not taken yet."""
    for message in messages:
        item = _item(message, session.version, now)
        if item is not None and session.admits(message):
            yield item


def _item(message: Message, version: int, now: float) -> Item | None:
    parts = message.parts(version, message.qos << 1, (), now)
    if parts is None:
        return None
    head, tail = parts
    if message.id != NO_ID:
        tail = Tracked.of(tail, message.id)
    return head, tail, None if message.expires_at is None else message


def distinct(items: Iterable[Item], known: Once | Collection[int] = ()) -> Iterator[Item]:
    """The items without those of QoS 2 that come a second time, or are ``known``."""
    seen: set[int] = set()
    for item in items:
        message_id = message_id_in(item[1])
        if message_id == NO_ID or item[0][0] >> 1 & 3 != 2:
            yield item
        elif message_id not in seen and message_id not in known:
            seen.add(message_id)
            yield item


def in_order(
    rest: list[Item], queued: Collection[Item], aside: Iterable[tuple[Item, int, bool]]
) -> Iterator[Item]:
    """Merge what the source of a session has queued since with what is ``queued`` by its target, in the order
    in which it came to the target.

    The marks of two nodes may be far apart, and a publisher may go from the one to the other between them.
    ``aside`` are messages that came as well, the source's: how many were queued by then, and whether it may
    not have them. What never came is older.
    """
    given = Counter(map(_content, rest))
    here: deque[tuple[int, Item]] = deque()
    for item, place, doubtful in aside:
        if not doubtful and not given[_content(item)]:
            continue
        given[_content(item)] -= not doubtful
        here.append((place, item))
    for item in rest:
        if given[_content(item)]:
            given[_content(item)] -= 1
            yield item
    for place, item in enumerate(queued):
        while here and here[0][0] <= place:
            yield here.popleft()[1]
        yield item
    yield from (item for _, item in here)


def _content(item: Item) -> tuple[bytes, bytes]:
    """Return what is the same of a message at both."""
    head, tail, _ = item
    return head, bytes(tail)


def forget(session: Session, known: Once) -> None:
    """Drop messages of QoS 2 that the client has had from another session, which left ``known``, and take
    none of them from now on."""
    if any(message_id_in(tail) in known for _, tail, _ in session.queue):
        given = session.given
        if given is not None:
            given = sum(1 for _ in distinct(islice(session.queue, given), known))
        session.refill(distinct(session.queue, known))
        session.given = given
        session.save()
    for packet_id, message_id in list((session.message_ids or {}).items()):
        if packet_id > 0 and message_id in known and session.inflight[packet_id][0] & 0xF6 == 0x34:
            session.withdraw(packet_id)
    session.remember().load(known.dump())
