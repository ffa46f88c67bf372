"""What a broker tells of messages and clients, made rows of: where each message came from and went.

Messages of reads that the sampler keeps get an identifier when they are taken, and keep it (``mqtt.idents``);
about all others a whole read costs one subtraction. The number of a message is its place among all that its
node took. Neighbours are told together: what one publisher sent to one topic in a turn of the loop is one row
a kind of event, however many messages it was.

Rules: 1. What happened first is noted first: whatever is gathered is closed before anything else is noted,
and before it leaves for another node.  2. QoS 0 is delivered when it has come to the socket, at the end of
the turn (``settle``); a client that is too slow for it did not get it.  3. QoS 1 and 2 are delivered when
they are sent for the first time; sent again is not delivered again.  4. A payload is hashed under a key, and
only where a row is one message; the hash of a run would be of use to nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Protocol

import gossamer.audit.schema as schema
from gossamer.audit.lives import Lives, split_filter
from gossamer.audit.parents import Parents
from gossamer.audit.sampler import NEVER, Sampler
from gossamer.audit.tape import KINDS, Tape
from gossamer.mqtt import (
    ASIDE,
    NO_IDENT,
    V5,
    Span,
    Tracked,
    base_of,
    ident_in,
    mark_of,
    number_of,
    origin_of,
    pieces_of,
    topic_in,
)

__all__ = ["HubLike", "Trail"]

_PUBLISHED = KINDS[schema.PUBLISHED]
_ROUTED = KINDS[schema.ROUTED]
_FORWARDED = KINDS[schema.FORWARDED]
_RECEIVED = KINDS[schema.RECEIVED]
_DELIVERED = KINDS[schema.DELIVERED]
_ACKNOWLEDGED = KINDS[schema.ACKNOWLEDGED]
_DROPPED = KINDS[schema.DROPPED]
_RETAINED = KINDS[schema.RETAINED]

PENDING = 4096
"""Deliveries that wait for the end of the turn at most; then they are told as they are."""


class HubLike(Protocol):
    """The fan-out whose messages these are."""

    origin: str | None
    received: int
    touched: list[Any]


class _Facts:
    """What all rows of one plan have in common, and the filters of the last topic it was seen with."""

    __slots__ = ("filters", "local", "names", "nobody", "nodes", "sessions", "topic")

    def __init__(
        self, sessions: tuple[Any, ...], names: tuple[str, ...], nodes: tuple[str, ...], *, local: bool
    ) -> None:
        self.nobody = not (local or nodes)
        self.sessions = sessions
        self.names = names
        self.nodes = nodes
        self.local = local
        self.topic = b""
        self.filters: tuple[str, ...] = ()


class _Open:
    """A run of QoS 1 that may still grow."""

    __slots__ = ("count", "head", "ident", "payload", "plan", "publisher", "size", "topic")

    def __init__(self, plan: Any, publisher: Any, head: bytes, ident: int, payload: bytes) -> None:
        self.plan = plan
        self.publisher = publisher
        """A session, or the name of a peer."""
        self.head = head
        self.topic = topic_in(head)
        self.ident = ident
        self.count = 1
        self.size = len(payload)
        self.payload = payload


class Trail(Lives):
    """See the module. ``filters_of`` says which filters of this node's clients match a topic."""

    def __init__(
        self,
        tape: Tape,
        *,
        node: str,
        creation: int,
        hub: HubLike,
        key: bytes,
        pseudonyms: bool,
        filters_of: Callable[[str], Sequence[str]],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        super().__init__(tape, key=key, pseudonyms=pseudonyms)
        self._hub = hub
        self._key = key
        self._filters_of = filters_of
        self._soon = soon
        self._base = base_of(node, creation)
        self._sampler = Sampler(0.0)
        self._place = self._until = NEVER
        self._scheduled = False
        self._open: _Open | None = None
        self._pending: list[tuple[_Facts, int, int]] = []
        self._sent: dict[Any, list[int]] = {}
        self._told: list[tuple[Any, int, tuple[Any, ...]]] = []
        self._pushed: list[tuple[Any, int, tuple[Any, ...]]] = []
        self.kept = 0
        """Messages of this node's publishers that were recorded."""
        self.skip = NEVER
        self.live = False
        self.busy = False
        self.mixed = False
        self.marks: list[list[int]] = []
        self.failed: dict[Any, str] = {}
        self.share: str | None = None
        self.parents: Parents | None = None
        """Who traces messages besides."""

    @property
    def sample(self) -> float:
        """The share of messages that are kept."""
        return self._sampler.share

    @sample.setter
    def sample(self, share: float) -> None:
        self._sampler = Sampler(share)
        self._place, self._until = self._sampler.next(0)
        self.skip = self._place + 1

    # Which messages.

    def begin(self) -> None:
        """What comes now is kept, until ``live`` is taken back; say what is next."""
        self.live = True
        place = self._place
        if place < self._until:
            self._place = place + 1
            self.skip = 1
        else:
            self._draw()

    def chance(self) -> bool:
        """A message comes by itself; whether it is kept."""
        self.skip -= 1
        if self.skip:
            return False
        self._draw()
        return True

    def _draw(self) -> None:
        place = self._place
        self._place, self._until = self._sampler.next(place + 1)
        self.skip = self._place - place

    # Messages come.

    def run(self, plan: Any, chunk: bytes, count: int, version: int, publisher: Any) -> list[Span] | None:
        """A run of QoS 0, of a client's or, where it names none, a peer's; what of it is kept."""
        mixed, self.mixed = self.mixed, False
        if publisher is None:
            spans = self._arrived(count)
            if not spans:
                return None
        else:
            self.kept += count
            spans = [(0, self._base + self._hub.received - count + 1, count)]
        self._begin()
        facts = self._facts(plan)
        for topic, size, ident, many, payload in pieces_of(chunk, count, version, spans, mixed=mixed):
            self._came(topic, size, ident, many, payload, 0, publisher or self._hub.origin)
            self._routed(facts, topic, ident, many)
            if facts.sessions:
                self._pending.append((facts, ident, many))
        if len(self._pending) > PENDING:
            self._deliver()
        return spans

    def one(self, plan: Any, head: bytes, tail: bytes, version: int, publisher: Any) -> int:
        """One message of QoS 1 that is to be kept, of a client or a peer; its identifier."""
        if publisher is not None:
            self.kept += 1
            ident = self._base + self._hub.received
        else:
            spans = self._arrived(1)
            if not spans:
                return NO_IDENT
            ident = spans[0][1]
            publisher = self._hub.origin
        payload = tail[1:] if version == V5 else tail
        found = self._open
        if (
            found is not None
            and found.plan is plan
            and (found.publisher is publisher or found.publisher == publisher)
            and found.ident + found.count == ident
            and (found.head == head or found.topic == topic_in(head))
        ):
            found.head = head
            found.count += 1
            found.size += len(payload)
            return ident
        self._begin()
        self._open = _Open(plan, publisher, head, ident, payload)
        return ident

    def take(self, message: Any, client_id: str | None, kept: bool) -> None:
        """A message off the fast path was taken; it learns its identifier if it is ``kept``, being of the
        sample, or if its publisher traces it."""
        ident = self._base + self._hub.received
        if kept:
            self.kept += 1
        elif self.parents is None or not self.parents.wanted(message):
            return
        else:
            ident |= ASIDE
        message.ident = ident
        self._begin()
        if self.parents is not None:
            self.parents.learn(ident, message)
        self._note(
            _PUBLISHED,
            *(*_name(ident), 1, message.topic.decode(), message.qos, message.retain),
            *(
                len(message.payload),
                self._hash(message.payload),
                self.alias(client_id) if client_id else None,
            ),
        )

    def arrive(self, message: Any, peer: str) -> None:
        """A message off the fast path came from a peer; a mark before it may have said who it is."""
        if self.marks:
            spans = self._arrived(1)
            if spans:
                message.ident = spans[0][1]
        if message.ident != NO_IDENT:
            if self.parents is not None:
                self.parents.learn(message.ident, message)
            elif message.ident & ASIDE:
                # It is traced, and that is not done here.
                message.ident = NO_IDENT
                return
            self._begin()
            self._note(_RECEIVED, *_name(message.ident), 1, message.topic.decode(), peer)

    def marked(self, mark: Any) -> None:
        """A peer says who the messages are that come next."""
        self._tape.observe(mark.hlc)
        if mark.ident & ASIDE and self.parents is None:
            return
        self.marks.append([mark.skip, mark.ident, mark.many])

    # They go.

    def marks_for(self, spans: Sequence[Span]) -> bytes:
        """What to send before a run, so that the other side knows what of it is kept."""
        hlc = self._tape.stamp()
        return b"".join([mark_of(ident, many, skip=skip, hlc=hlc) for skip, ident, many in spans])

    def marks_of(self, idents: list[int]) -> bytes:
        """The same for messages by their identifiers, :data:`NO_IDENT` being one that is not kept."""
        spans: list[list[int]] = []
        for place, ident in enumerate(idents):
            if ident == NO_IDENT:
                continue
            if spans and spans[-1][0] + spans[-1][2] == place and spans[-1][1] + spans[-1][2] == ident:
                spans[-1][2] += 1
            else:
                spans.append([place, ident, 1])
        if not spans:
            return b""
        self._close()
        return self.marks_for([(skip, ident, many) for skip, ident, many in spans])

    def spread(self, spans: Sequence[Span] | None, count: int) -> list[int]:
        """The identifier of each message of a run."""
        found = [NO_IDENT] * count
        for skip, ident, many in spans or ():
            found[skip : skip + many] = range(ident, ident + many)
        return found

    def routed(self, message: Any, route: Any, peers: Iterable[Any]) -> None:
        """Where a message off the fast path goes."""
        topic = message.topic.decode()
        nodes = tuple(peer.peer for peer in peers)
        filters = tuple(self._filters_of(topic)) if route.deliveries else ()
        self._begin()
        name = _name(message.ident)
        self._note(_ROUTED, *name, 1, topic, filters, nodes, None, None)
        for node in nodes:
            self._note(_FORWARDED, *name, 1, node)

    def chosen(self, message: Any, group: str, node: str | None) -> None:
        """Which node's member of a share group gets a message; None: this one's."""
        topic_filter, share = split_filter(group)
        self._begin()
        name = _name(message.ident)
        self._note(_ROUTED, *name, 1, message.topic.decode(), (topic_filter,), (), share, node)

    def hand(self, sessions: Iterable[Any], head: bytes, tail: bytes, ident: int) -> None:
        """Give a message of QoS 1 to sessions, each of which sends or queues it."""
        kept: Tracked | None = None
        for session in sessions:
            if len(session.inflight) < session.window:
                session.send(head, tail)
                run = self._sent.get(session)
                if run is not None and run[0] + run[1] == ident:
                    # As most do: ``sent`` in short.
                    run[1] += 1
                    session.idents[session.last_id] = ident
                else:
                    self.sent(session, ident, 1, False, None, False)
            else:
                if kept is None:
                    kept = Tracked.of(tail, ident)
                session.enqueue(head, kept)

    def sent(self, session: Any, ident: int, qos: int, retain: bool, share: str | None, stored: bool) -> None:
        """A session sends a message for the first time."""
        if qos:
            idents = session.idents
            if idents is None:
                idents = session.idents = session.new_idents()
            idents[session.last_id] = ident
            if qos == 1 and not (retain or share or stored):
                run = self._sent.get(session)
                if run is not None and run[0] + run[1] == ident:
                    run[1] += 1
                    return
                if run is None:
                    self._sent[session] = [ident, 1]
                    self._stir()
                    return
        told = self._told if qos else self._pushed
        told.append((session, ident, (qos, retain, share, "retained" if stored else None)))
        self._stir()
        if len(told) > PENDING:
            self._deliver()

    def acknowledged(self, session: Any, idents: Sequence[int], role: str) -> None:
        """The last acknowledgement of messages was sent to their publisher, or came from a subscriber."""
        self._begin()
        name = self.alias(session.client_id)
        if role == "subscriber":
            if self._sent or self._told:
                # A quick client: what it acknowledges was delivered before.
                self._deliver_sent()
        elif idents[-1] - idents[0] + 1 == len(idents) and NO_IDENT not in idents:
            # In the order of their numbers, and none is missing, as most are.
            self._note(_ACKNOWLEDGED, *_name(idents[0]), len(idents), name, role)
            return
        for ident, many in _runs(i for i in idents if i != NO_IDENT):
            self._note(_ACKNOWLEDGED, *_name(ident), many, name, role)

    def lost(self, ident: int, session: Any, reason: str) -> None:
        """A session, or where it is None nobody, will not get a message."""
        self._begin()
        client = None if session is None else self.alias(session.client_id)
        self._note(_DROPPED, *_name(ident), 1, client, None, reason)

    def refused_by(self, peer: str, idents: Iterable[int], reason: str) -> None:
        """What was forwarded to a peer will not arrive there."""
        self._begin()
        for ident, many in _runs(idents):
            self._note(_DROPPED, *_name(ident), many, None, peer, reason)

    def ended(self, session: Any, reason: str) -> None:
        """A session is no more, and with it what was queued."""
        self._begin()
        queued = (ident_in(tail) for _, tail, _ in session.queue)
        for ident, many in _runs(i for i in queued if i != NO_IDENT):
            self._lose(session, ident, many, "session_ended")
        super().ended(session, reason)

    def retained(self, message: Any) -> None:
        """A message was stored for later subscribers."""
        self._begin()
        self._note(_RETAINED, *_name(message.ident), 1, message.topic.decode(), len(message.payload))

    # The end of the turn.

    def settle(self) -> None:
        """Everything that this turn delivered is at its socket, or has failed."""
        self.busy = False
        self._close()
        self._deliver()
        self.failed.clear()

    def _turn(self) -> None:
        self._scheduled = False
        self._close()
        if not self._hub.touched:
            self.settle()

    def _stir(self) -> None:
        self.busy = True
        if not self._scheduled:
            self._scheduled = True
            self._soon(self._turn)

    def _begin(self) -> None:
        """Something is noted: first what is open."""
        self.busy = True
        if self._open is not None:
            self._close()
        if not self._scheduled:
            self._scheduled = True
            self._soon(self._turn)

    def _close(self) -> None:
        found, self._open = self._open, None
        if found is None:
            return
        facts = self._facts(found.plan)
        payload = found.payload if found.count == 1 else None
        topic, ident, count = found.topic, found.ident, found.count
        self._came(topic, found.size, ident, count, payload, 1, found.publisher)
        self._routed(facts, topic, ident, count)

    def _deliver(self) -> None:
        pending, self._pending = self._pending, []
        failed = self.failed
        for facts, ident, many in pending:
            names, sessions = facts.names, facts.sessions
            if failed and any(session in failed for session in sessions):
                names = tuple(self.alias(s.client_id) for s in sessions if s not in failed)
                for session in sessions:
                    if session in failed:
                        self._lose(session, ident, many, failed[session])
            self._delivered(names, ident, many, (0, False, None, None))
        pushed, self._pushed = self._pushed, []
        for session, ident, how in pushed:
            if session in failed:
                self._lose(session, ident, 1, failed[session])
            else:
                self._delivered((self.alias(session.client_id),), ident, 1, how)
        self._deliver_sent()

    def _deliver_sent(self) -> None:
        """QoS 1 and 2."""
        if self._sent:
            sent, self._sent = self._sent, {}
            alike: dict[tuple[int, int], list[str]] = {}
            for session, (ident, many) in sent.items():
                alike.setdefault((ident, many), []).append(self.alias(session.client_id))
            for (ident, many), group in alike.items():
                self._delivered(tuple(group), ident, many, (1, False, None, None))
        if self._told:
            told, self._told = self._told, []
            for session, ident, how in told:
                self._delivered((self.alias(session.client_id),), ident, 1, how)

    def _delivered(
        self, names: tuple[str, ...], ident: int, many: int, how: tuple[int, bool, str | None, str | None]
    ) -> None:
        qos, retain, share, reason = how
        topic_filter = None
        if share is not None:
            topic_filter, share = split_filter(share)
        row = (*_name(ident), many)
        rest = (qos, retain, share, topic_filter, reason)
        if len(names) == 1:
            self._note(_DELIVERED, *row, names[0], *rest)
        elif names:
            self._tape.note_many(_DELIVERED, len(names), *row, names, *rest)

    def _lose(self, session: Any, ident: int, many: int, reason: str) -> None:
        self._note(_DROPPED, *_name(ident), many, self.alias(session.client_id), None, reason)

    # What rows are made of.

    def _came(
        self,
        topic: bytes,
        size: int,
        ident: int,
        count: int,
        payload: bytes | None,
        qos: int,
        publisher: Any,
    ) -> None:
        if isinstance(publisher, str):
            self._note(_RECEIVED, *_name(ident), count, topic.decode(), publisher)
            return
        digest = None if payload is None else self._hash(payload)
        client = self.alias(publisher.client_id)
        self._note(_PUBLISHED, *_name(ident), count, topic.decode(), qos, False, size, digest, client)

    def _routed(self, facts: _Facts, topic: bytes, ident: int, count: int) -> None:
        if facts.local and facts.topic != topic:
            # Topics that the same clients want share a plan, but not always a filter.
            facts.filters = tuple(self._filters_of(topic.decode()))
            facts.topic = topic
        name = _name(ident)
        self._note(_ROUTED, *name, count, topic.decode(), facts.filters, facts.nodes, None, None)
        for peer in facts.nodes:
            self._note(_FORWARDED, *name, count, peer)
        if facts.nobody:
            self._note(_DROPPED, *name, count, None, None, "no_subscribers")

    def _facts(self, plan: Any) -> _Facts:
        facts: _Facts | None = plan.facts
        if facts is None:
            sessions = plan.all4 + plan.all5
            names = tuple(self.alias(session.client_id) for session in sessions)
            nodes = tuple(peer.peer for peer in plan.peers)
            facts = plan.facts = _Facts(sessions, names, nodes, local=bool(names or plan.special))
        return facts

    def _hash(self, payload: bytes) -> int:
        digest = blake2b(payload, key=self._key, digest_size=8).digest()
        return int.from_bytes(digest, signed=True)

    def _arrived(self, count: int) -> list[Span]:
        """What is known of the next ``count`` messages of a peer."""
        spans = []
        left = []
        for skip, ident, many in self.marks:
            low, high = max(skip, 0), min(skip + many, count)
            if low < high:
                spans.append((low, ident + low - skip, high - low))
            if skip + many > count:
                left.append([skip - count, ident, many])
        self.marks = left
        return spans


def _name(ident: int) -> tuple[str, int, int]:
    origin, creation = origin_of(ident)
    return origin, creation, number_of(ident)


def _runs(idents: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(first, how many) of identifiers that follow one another."""
    first, count = NO_IDENT, 0
    for ident in idents:
        if count and ident == first + count:
            count += 1
            continue
        if count:
            yield first, count
        first, count = ident, 1
    if count:
        yield first, count
