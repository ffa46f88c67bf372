"""A session as plain data that is sent between nodes, in parts that fit a frame.

Everything moves: version, user, expiry and what is left of it, the will and when it is due, subscriptions
with options and identifiers, packets in flight under their identifiers and in their order, identifiers of QoS
2 that the publisher has not released, and the queue, whose messages keep the time they have left.

Messages that are offered rather than moved (see ``superseded``) are sent as records, for a session that may
have another protocol version and other subscriptions.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from gossamer.mqtt.codec.packets import Subscription, Will
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import NO_ID, Tracked, mark_of, message_id_in, read_mark
from gossamer.mqtt.messages.records import read_record, record_of
from gossamer.mqtt.session.expiry import Expiring, expiry_of
from gossamer.mqtt.session.in_flight import flying_in, message_of
from gossamer.mqtt.session.qos2 import Block, Once
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.state import Item
from gossamer.mqtt.session.store import decode_will
from gossamer.routes import body_of, matches

PART = 512 * 1024
"""Bytes of a part, about; a larger packet is a part of its own."""

_encode = msgspec.msgpack.Encoder().encode


class Pending(NamedTuple):
    """Timers of a session without a connection, in seconds from now."""

    left: float | None
    """Until it expires; None: never."""
    will: Will | None
    will_left: float | None
    """Until its will is sent; None: it has none."""
    stamps: tuple[str, ...] = ()
    """Stamps of the will, the latest last; see :meth:`Wills.offer`."""


def rightful(rows: Mapping[str, int]) -> str | None:
    """Return the node with the highest claim, from epochs by node; names decide between equals."""
    return max(rows, key=lambda node: (rows[node], node)) if rows else None


def describe(session: Session, pending: Pending) -> dict[str, object]:
    """Return the session's own values, without subscriptions and messages, for :func:`resemble`."""
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
    """Set a new session's values to those of :func:`describe`."""
    session.version = state["version"]
    session.username = state["username"]
    session.clean = state["clean"]
    session.born = state["born"]
    session.moves = tuple(state["moves"])
    if state["once"]:
        session.remember().load(state["once"])


def pending_of(state: dict[str, Any]) -> Pending:
    """Return the timers in the values of :func:`describe`."""
    will = state["will"]
    stamps = tuple(state["will_stamps"])
    return Pending(state["left"], None if will is None else decode_will(will), state["will_left"], stamps)


def in_parts(session: Session, now: float) -> list[list[object]]:
    """Return the session's subscriptions and messages in parts, each a list of entries."""
    return _parts(_entries(session, now))


def items_of(items: Iterable[Item], now: float) -> list[list[object]]:
    """Return queued messages in parts."""
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
    """Put entries of :func:`in_parts` into a new session, but for its queue, which is returned."""
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


def rest_of(entries: Iterable[list[Any]], known: Once, now: float) -> list[Item]:
    """Return what came to the source since it froze; ``known`` gets what its client had from elsewhere."""
    rest: list[Item] = []
    for kind, *fields in entries:
        if kind == "h":
            known.load(fields[0])
        else:
            rest.append(item_of(fields, now))
    return rest


def item_of(fields: list[Any], now: float) -> Item:
    """Return the queued message of an entry."""
    head, tail, *rest = fields
    if not rest:
        return head, tail, None
    if len(rest) == 1:
        return head, Tracked.tagged(tail, rest[0]), None
    record, left = rest
    message, _ = read_record(record, 0, len(record), now)
    message.expires_at = now + left
    return head, tail if message.id == NO_ID else Tracked.of(tail, message.id), message


def left_of(session: Session, *, given: bool) -> list[Message]:
    """Return the messages of a session that its client may not have: in flight, then queued. ``given``:
    without those that another node was given in a move."""
    flying = [] if given else flying_in(session)
    messages = [message_of(packet, session, message_id) for _, packet, message_id in flying]
    first = session.given or 0 if given else 0
    return [*messages, *messages_in(session, islice(session.queue, first, None))]


def is_given(session: Session, moves: Collection[str]) -> bool:
    """Return whether a session that came by ``moves`` has what this one had when it was given away."""
    return session.given is not None and session.move in moves


def had_from(session: Session) -> list[Block]:
    """Return the messages of QoS 2 that its client has had from it, as :meth:`Once.dump`."""
    if session.once is None:
        return []
    delivered = Once.of(session.once.dump())
    delivered.release(message.id for message in left_of(session, given=False))
    return delivered.dump()


def wanted_by(session: Session, *, shared: bool) -> Callable[[bytes], int]:
    """Return a function from a topic to the session's QoS for it, 0: none; ``shared``: groups count too."""
    wanted = ((one.filter, one.qos) for one, _ in session.subscriptions.values())
    return _best((name, qos) for name, qos in wanted if shared or not name.startswith("$share/"))


def matching(filters: Iterable[str]) -> Callable[[bytes], int]:
    """Return a function from a topic to 1 where one of these filters matches, share groups aside, else 0."""
    return _best((name, 1) for name in filters if not name.startswith("$share/"))


def _best(wanted: Iterable[tuple[str, int]]) -> Callable[[bytes], int]:
    levels = [(body_of(topic_filter), qos) for topic_filter, qos in wanted]
    known: dict[bytes, int] = {}

    def qos_of(topic: bytes) -> int:
        found = known.get(topic)
        if found is None:
            name = topic.decode()
            found = max((qos for topic_filter, qos in levels if matches(topic_filter, name)), default=0)
            known[topic] = found
        return found

    return qos_of


def unreleased_in(session: Session) -> list[tuple[int, bytes]]:
    """Return packet identifier and mark of QoS 2 messages that the client has published, not released, and
    so may publish again."""
    message_ids = {number: session.message_id_of(number) for number in session.incoming}
    return [
        (number, mark_of(message_id)) for number, message_id in message_ids.items() if message_id != NO_ID
    ]


def know(session: Session, unreleased: Iterable[Sequence[Any]]) -> None:
    """Recognise these messages of :func:`unreleased_in` should the client publish them again."""
    for number, mark in unreleased:
        if number not in session.incoming:
            session.unreleased(number, read_mark(mark, 0)[0].message_id, doubtful=True)


def messages_in(session: Session, items: Iterable[Item]) -> Iterator[Message]:
    """Yield queued messages, each with the QoS with which it is queued."""
    for head, tail, queued in items:
        if queued is None:
            message = message_of(head + b"\0\1" + tail, session, message_id_in(tail))
        else:
            # Other sessions may have the same one queued.
            message = copy(queued)
        message.qos = head[0] >> 1 & 3
        yield message


def queue_left(session: Session, *, given: bool) -> None:
    """Move all messages of :func:`left_of` to the queue, and nothing else."""
    left = left_of(session, given=given)
    if given and session.once is not None:
        # Another node has them, and the client has had none of them from here.
        elsewhere = {message.id for message in left_of(session, given=False)}
        session.once.release(elsewhere.difference(message.id for message in left))
    for packet_id in [number for number, packet in session.inflight.items() if packet[0] != 0x62]:
        session.withdraw(packet_id)
    now = session.fanout.now()
    session.refill(
        item for message in left if (item := item_of_message(message, session.version, now)) is not None
    )
    session.given = None
    session.save()


def packed(messages: Iterable[Message], session: Session, now: float) -> Iterator[Item]:
    """Yield queued messages for ``session`` of those that it has not taken yet."""
    for message in messages:
        item = item_of_message(message, session.version, now)
        if item is not None and session.admits(message):
            yield item


def item_of_message(message: Message, version: int, now: float) -> Item | None:
    """Return a message as it is queued; None: it has expired."""
    parts = message.parts(version, message.qos << 1, (), now)
    if parts is None:
        return None
    head, tail = parts
    if message.id != NO_ID:
        tail = Tracked.of(tail, message.id)
    return head, tail, None if message.expires_at is None else message


def distinct(items: Iterable[Item], known: Once | Collection[int] = ()) -> Iterator[Item]:
    """Yield the items without those of QoS 2 that come a second time, or are ``known``."""
    seen: set[int] = set()
    for item in items:
        message_id = message_id_in(item[1])
        if message_id == NO_ID or item[0][0] >> 1 & 3 != 2:
            yield item
        elif message_id not in seen and message_id not in known:
            seen.add(message_id)
            yield item


def behind(older: Iterable[Item], later: Collection[Item]) -> Iterator[Item]:
    """Yield what a superseded session had, then what is ``later``; a message of QoS 2 that is in both, since
    that session listened while the other went on, in its place among the later ones."""
    yield from distinct(older, {message_id_in(tail) for _, tail, _ in later})
    yield from later


def in_order(
    rest: list[Item], queued: Collection[Item], aside: Iterable[tuple[Item, int, bool]]
) -> Iterator[Item]:
    """Merge the ``rest``, which the source of a session has queued since the freeze, with what its target has
    ``queued``, in the order in which messages came to the target.

    The marks of two nodes may be far apart, and a publisher may move from one to the other between them.
    ``aside`` are messages that came to the target for the source to queue: length of the queue then, and
    whether the source may not have it. Messages that never came to the target are older. What may be the same
    as one of the ``rest`` comes twice, side by side: another may only look like it.
    """
    given = Counter(map(_content, rest))
    here: deque[tuple[int, Item]] = deque()
    for item, place, doubtful in aside:
        is_given = given[_content(item)] > 0
        given[_content(item)] -= is_given
        here += [(place, item)] * (doubtful + is_given)
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
    """Return the part of a queued message that is the same at source and target."""
    head, tail, _ = item
    return head, bytes(tail)


def forget(session: Session, known: Once) -> None:
    """Drop messages of QoS 2 that the client has had from another session, those ``known``, and take none of
    them from now on."""
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
