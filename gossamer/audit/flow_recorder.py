"""The path of messages, as rows: where each came from and where it went.

Messages of reads that the sampler keeps get an identifier when they are taken, and keep it
(``mqtt.messages``); about all others a whole read costs one step of an iterator. The number of a message is
its place among all that its node took. Neighbours are told together: what one publisher sent to one topic in
a turn of the loop is one row a kind of event, however many messages it was.

Rules: 1. What is open is closed before it leaves for another node.  2. A payload is hashed under a key, and
only where a row is one message; the hash of a run would be of use to nobody.  3. What becomes of messages at
this node's clients is ``deliveries``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import repeat
from typing import Any

import gossamer.audit.schema as schema
from gossamer.audit.deliveries import Deliveries, Facts, FanoutLike, Parents, name_of, runs_of
from gossamer.audit.event_buffer import KINDS, EventBuffer
from gossamer.audit.lives import Client, split_filter
from gossamer.audit.sampler import NEVER, Sampler
from gossamer.mqtt import (
    ASIDE,
    NO_ID,
    V5,
    Message,
    Span,
    base_of,
    is_recorded,
    mark_of,
    pieces_of,
    topic_in,
)

_PUBLISHED = KINDS[schema.PUBLISHED]
_ROUTED = KINDS[schema.ROUTED]
_FORWARDED = KINDS[schema.FORWARDED]
_RECEIVED = KINDS[schema.RECEIVED]
_DROPPED = KINDS[schema.DROPPED]
_RETAINED = KINDS[schema.RETAINED]


TOPICS = 1024
"""Topics of a plan whose filters are remembered."""


@dataclass(slots=True, eq=False)
class _Open:
    """A run of QoS 1 that may still grow; its publisher is a session, or the name of a peer."""

    plan: object
    publisher: object
    head: bytes
    topic: bytes
    message_id: int
    payload: bytes
    count: int = 0
    size: int = 0


class FlowRecorder(Deliveries):
    """Recorder of the whole path of messages through this node.

    ``filters_of`` returns the filters of this node's clients that match a topic.
    """

    def __init__(
        self,
        buffer: EventBuffer,
        *,
        node: str,
        creation: int,
        fanout: FanoutLike,
        key: bytes,
        pseudonyms: bool,
        filters_of: Callable[[str], Sequence[str]],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        super().__init__(buffer, fanout=fanout, key=key, pseudonyms=pseudonyms, soon=soon)
        self._key = key
        self._filters_of = filters_of
        self._base = base_of(node, creation)
        self._sampler = Sampler(0.0)
        self._place = self._until = NEVER
        self._open: _Open | None
        self.kept = 0
        """Messages of this node's publishers that were recorded."""
        self.arrivals: Iterator[bool] = repeat(False)
        self.live = False
        self.marks: list[list[int]] = []
        self.parents: Parents | None = None
        """The buffer of traces, where messages are traced."""

    @property
    def sample(self) -> float:
        """The share of messages that are kept."""
        return self._sampler.share

    @sample.setter
    def sample(self, share: float) -> None:
        self._sampler = Sampler(share)
        self._place, self._until = self._sampler.next(0)
        self.arrivals = repeat(False, self._place)

    # Which messages.

    def begin(self) -> None:
        """Keep what comes now, until ``live`` is taken back; decide what is next."""
        self.live = True
        place = self._place
        if place < self._until:
            # The next one as well: what is used up stays so.
            self._place = place + 1
        else:
            self._draw()

    def chance(self) -> bool:
        """A message comes by itself; whether it is kept."""
        if not next(self.arrivals, True):
            return False
        self._draw()
        return True

    def _draw(self) -> None:
        place = self._place
        self._place, self._until = self._sampler.next(place + 1)
        self.arrivals = repeat(False, self._place - place - 1)

    # Messages come.

    def run(
        self, plan: object, chunk: bytes, count: int, version: int, publisher: object, *, mixed: bool
    ) -> list[Span] | None:
        """A run of QoS 0 comes, of a client's or, where it names none, a peer's; what of it is kept.

        ``mixed``: its packets may differ in topic and size.
        """
        if publisher is None:
            spans = self._arrived(count)
            if not spans:
                return None
        else:
            self.kept += count
            spans = [(0, self._base + self._fanout.received + 1, count)]
        self._begin()
        facts = self._facts(plan)
        for topic, size, message_id, many, payload in pieces_of(chunk, count, version, spans, mixed=mixed):
            self._came(topic, size, message_id, many, payload, 0, publisher or self._fanout.origin)
            self._routed(facts, topic, message_id, many)
            if facts.sessions:
                self.pushed(facts, message_id, many)
        return spans

    def one(self, plan: object, head: bytes, tail: bytes, version: int, publisher: object) -> int:
        """A message of QoS 1 comes that is to be kept, of a client or a peer; its identifier."""
        if publisher is not None:
            self.kept += 1
            message_id = self._base + self._fanout.received + 1
        else:
            spans = self._arrived(1)
            if not spans:
                return NO_ID
            message_id = spans[0][1]
            publisher = self._fanout.origin
        self._grow(plan, publisher, head, message_id, tail[1:] if version == V5 else tail, 1)
        return message_id

    def ran(
        self,
        plan: object,
        sinks: Iterable[Client],
        head: bytes,
        tail: bytes,
        count: int,
        version: int,
        publisher: object,
    ) -> range:
        """The last ``count`` messages of QoS 1, alike in topic and size, were sent to each of ``sinks``, and
        nothing else since; their identifiers."""
        self.kept += count
        message_id = self._base + self._fanout.received - count + 1
        self._grow(plan, publisher, head, message_id, tail[1:] if version == V5 else tail, count)
        message_ids = range(message_id, message_id + count)
        for session in sinks:
            self.sent_run(session, message_ids)
        return message_ids

    def _grow(
        self, plan: object, publisher: object, head: bytes, message_id: int, payload: bytes, count: int
    ) -> None:
        """Messages alike came: what is open grows by them, if they follow it, or closes."""
        found = self._open
        if (
            found is not None
            and found.plan is plan
            and (found.publisher is publisher or found.publisher == publisher)
            and found.message_id + found.count == message_id
            and (found.head == head or found.topic == topic_in(head))
        ):
            found.head = head
        else:
            self._begin()
            found = self._open = _Open(plan, publisher, head, topic_in(head), message_id, payload)
        found.count += count
        found.size += len(payload) * count

    def take(self, message: Message, client_id: str | None, kept: bool) -> None:
        """A message off the fast path was taken; it learns its identifier if it is ``kept``, being of the
        sample, or if its publisher traces it."""
        message_id = self._base + self._fanout.received
        if kept:
            self.kept += 1
        elif self.parents is None or not self.parents.wanted(message):
            return
        else:
            message_id |= ASIDE
        message.id = message_id
        self._begin()
        if self.parents is not None:
            self.parents.learn(message_id, message)
        self._note(
            _PUBLISHED,
            *(*name_of(message_id), 1, message.topic.decode(), message.qos, message.retain),
            *(
                len(message.payload),
                self._hash(message.payload),
                self.alias(client_id) if client_id else None,
            ),
        )

    def arrive(self, message: Message, peer: str) -> None:
        """A message off the fast path came from a peer; a mark before it may have said who it is."""
        if self.marks:
            spans = self._arrived(1)
            if spans:
                message.id = spans[0][1]
        if is_recorded(message.id):
            if self.parents is not None:
                self.parents.learn(message.id, message)
            elif message.id & ASIDE:
                # It is traced, and that is not done here.
                message.id = NO_ID
                return
            self._begin()
            self._note(_RECEIVED, *name_of(message.id), 1, message.topic.decode(), peer)

    def marked(self, mark: Any) -> None:
        """A peer says who the messages are that come next."""
        self._buffer.observe(mark.hlc)
        if mark.message_id & ASIDE and self.parents is None:
            return
        self.marks.append([mark.skip, mark.message_id, mark.many])

    # They go.

    def marks_for(self, spans: Sequence[Span]) -> bytes:
        """Return the marks to send before a run, which tell the other side what of it is kept."""
        hlc = self._buffer.stamp()
        return b"".join([mark_of(message_id, many, skip=skip, hlc=hlc) for skip, message_id, many in spans])

    def marks_of(self, message_ids: list[int]) -> bytes:
        """The same for messages by their identifiers, :data:`NO_ID` being one that is not kept."""
        spans: list[list[int]] = []
        for place, message_id in enumerate(message_ids):
            if message_id == NO_ID:
                continue
            if spans and spans[-1][0] + spans[-1][2] == place and spans[-1][1] + spans[-1][2] == message_id:
                spans[-1][2] += 1
            else:
                spans.append([place, message_id, 1])
        if not spans:
            return b""
        self._close()
        return self.marks_for([(skip, message_id, many) for skip, message_id, many in spans])

    def spread(self, spans: Sequence[Span] | None, count: int) -> list[int]:
        """The identifier of each message of a run."""
        found = [NO_ID] * count
        for skip, message_id, many in spans or ():
            found[skip : skip + many] = range(message_id, message_id + many)
        return found

    def routed(self, message: Message, route: Any, peers: Iterable[Any]) -> None:
        """Note where a message off the fast path goes."""
        topic = message.topic.decode()
        nodes = tuple(peer.peer for peer in peers)
        filters = tuple(self._filters_of(topic)) if route.deliveries else ()
        self._begin()
        name = name_of(message.id)
        self._note(_ROUTED, *name, 1, topic, filters, nodes, None, None)
        for node in nodes:
            self._note(_FORWARDED, *name, 1, node)

    def chosen(self, message: Message, group: str, node: str | None) -> None:
        """Note which node's member of a share group gets a message; None: this one's."""
        topic_filter, share = split_filter(group)
        self._begin()
        name = name_of(message.id)
        self._note(_ROUTED, *name, 1, message.topic.decode(), (topic_filter,), (), share, node)

    def refused_by(self, peer: str, message_ids: Iterable[int], reason: str) -> None:
        """Note that messages for a peer will not arrive there."""
        self._begin()
        for message_id, many in runs_of(message_ids):
            self._note(_DROPPED, *name_of(message_id), many, None, peer, reason)

    def retained(self, message: Message) -> None:
        """A message was stored for later subscribers."""
        self._begin()
        self._note(_RETAINED, *name_of(message.id), 1, message.topic.decode(), len(message.payload))

    def _close(self) -> None:
        found, self._open = self._open, None
        if found is None:
            return
        facts = self._facts(found.plan)
        payload = found.payload if found.count == 1 else None
        topic, message_id, count = found.topic, found.message_id, found.count
        self._came(topic, found.size, message_id, count, payload, 1, found.publisher)
        self._routed(facts, topic, message_id, count)

    # What rows are made of.

    def _came(
        self,
        topic: bytes,
        size: int,
        message_id: int,
        count: int,
        payload: bytes | None,
        qos: int,
        publisher: Any,
    ) -> None:
        if isinstance(publisher, str):
            self._note(_RECEIVED, *name_of(message_id), count, topic.decode(), publisher)
            return
        digest = None if payload is None else self._hash(payload)
        client = self.alias(publisher.client_id)
        self._note(_PUBLISHED, *name_of(message_id), count, topic.decode(), qos, False, size, digest, client)

    def _routed(self, facts: Facts, topic: bytes, message_id: int, count: int) -> None:
        text = topic.decode()
        filters = self._filters(facts, topic, text) if facts.local else ()
        name = name_of(message_id)
        self._note(_ROUTED, *name, count, text, filters, facts.nodes, None, None)
        for peer in facts.nodes:
            self._note(_FORWARDED, *name, count, peer)
        if not (facts.local or facts.nodes):
            self._note(_DROPPED, *name, count, None, None, "no_subscribers")

    def _filters(self, facts: Facts, topic: bytes, text: str) -> tuple[str, ...]:
        """Topics that the same clients want share a plan, but not always a filter; to look up costs more than
        all else that a row does."""
        known = facts.filters
        if facts.as_of != self.changes or len(known) >= TOPICS:
            known.clear()
            facts.as_of = self.changes
        found = known.get(topic)
        if found is None:
            found = known[topic] = tuple(self._filters_of(text))
        return found

    def _facts(self, plan: Any) -> Facts:
        facts: Facts | None = plan.facts
        if facts is None:
            sessions = plan.v4.everyone + plan.v5.everyone
            names = tuple(self.alias(session.client_id) for session in sessions)
            nodes = tuple(peer.peer for peer in plan.peers)
            facts = plan.facts = Facts(sessions, names, nodes, local=bool(names or plan.special))
        return facts

    def _hash(self, payload: bytes) -> int:
        digest = blake2b(payload, key=self._key, digest_size=8).digest()
        return int.from_bytes(digest, signed=True)

    def _arrived(self, count: int) -> list[Span]:
        """Return what is known of the next ``count`` messages of a peer."""
        spans = []
        left = []
        for skip, message_id, many in self.marks:
            low, high = max(skip, 0), min(skip + many, count)
            if low < high:
                spans.append((low, message_id + low - skip, high - low))
            if skip + many > count:
                left.append([skip - count, message_id, many])
        self.marks = left
        return spans
