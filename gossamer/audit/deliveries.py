"""Deliveries of this node: sent to clients, acknowledged, lost; gathered until the turn ends.

Rules: 1. What happened first is noted first: whatever is open is closed before anything else is noted.  2.
QoS 0 is delivered when it has come to the socket, at the end of the turn (``settle``); a client that is too
slow for it did not get it.  3. QoS 1 and 2 are delivered when they are sent for the first time; sent again is
not delivered again.  4. Of neighbours that went the same way one row is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

import gossamer.audit.schema as schema
from gossamer.audit.event_buffer import KINDS, EventBuffer
from gossamer.audit.lives import Client, Lives, split_filter
from gossamer.mqtt import NO_ID, Message, Tracked, is_recorded, message_id_in, number_of, origin_of

_DELIVERED = KINDS[schema.DELIVERED]
_ACKNOWLEDGED = KINDS[schema.ACKNOWLEDGED]
_DROPPED = KINDS[schema.DROPPED]

_How = tuple[int, bool, str | None, str | None]
"""QoS; retained; share group with its filter; why, where it is not just published."""

PENDING = 4096
"""Deliveries that wait for the end of the turn at most; then they are told as they are."""


class FanoutLike(Protocol):
    """The fan-out whose messages these are."""

    origin: str | None
    received: int
    touched: list[Client]


class Parents(Protocol):
    """Buffer of traces: messages off the fast path may belong to a trace of their publisher's."""

    def wanted(self, message: Message, /) -> bool:
        """Return whether a message that is not of the sample is kept all the same."""
        ...

    def learn(self, message_id: int, message: Message, /) -> None:
        """A message that is kept has this identifier."""
        ...


@dataclass(slots=True, eq=False)
class Facts:
    """Values common to all rows of one plan, and the filters of topics it was seen with."""

    sessions: tuple[Client, ...]
    names: tuple[str, ...]
    nodes: tuple[str, ...]
    local: bool
    filters: dict[bytes, tuple[str, ...]] = field(default_factory=dict)
    as_of: int = 0
    """The count of changed subscriptions when the filters were looked up."""


class Deliveries(Lives):
    """Recorder of what this node delivered; ``soon`` runs a function at the end of the turn."""

    def __init__(
        self,
        buffer: EventBuffer,
        *,
        fanout: FanoutLike,
        key: bytes,
        pseudonyms: bool,
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        super().__init__(buffer, key=key, pseudonyms=pseudonyms)
        self._fanout = fanout
        self._soon = soon
        self._scheduled = False
        self._open: object = None
        """A run that may still grow."""
        self._pending: list[tuple[Facts, int, int]] = []
        self._sent: dict[Client, list[int]] = {}
        self._told: list[tuple[Client, int, _How]] = []
        self._pushed: list[tuple[Client, int, _How]] = []
        self.busy = False
        self.failed: dict[object, str] = {}
        self.share: str | None = None

    def pushed(self, facts: Facts, message_id: int, many: int) -> None:
        """A run of QoS 0 was given to all sessions of a plan."""
        self._pending.append((facts, message_id, many))
        if len(self._pending) > PENDING:
            self._deliver()

    def hand(self, sessions: Iterable[Client], head: bytes, tail: bytes, message_id: int) -> None:
        """Give a message of QoS 1 to sessions, each of which sends or queues it."""
        kept: Tracked | None = None
        for session in sessions:
            if len(session.inflight) < session.window:
                session.send(head, tail, message_id)
                run = self._sent.get(session)
                if run is not None and run[0] + run[1] == message_id:
                    # As most do: ``sent`` in short.
                    run[1] += 1
                else:
                    self.sent(session, message_id, 1, False, None, False)
            else:
                if kept is None:
                    kept = Tracked.of(tail, message_id)
                session.enqueue(head, kept)

    def sent(
        self, session: Client, message_id: int, qos: int, retain: bool, share: str | None, stored: bool
    ) -> None:
        """A session, or a client that is served without one, is sent a message for the first time."""
        if qos == 1 and not (retain or share or stored):
            run = self._sent.get(session)
            if run is not None and run[0] + run[1] == message_id:
                run[1] += 1
                return
            if run is None:
                self._sent[session] = [message_id, 1]
                self._stir()
                return
        told = self._told if qos else self._pushed
        told.append((session, message_id, (qos, retain, share, "retained" if stored else None)))
        self._stir()
        if len(told) > PENDING:
            self._deliver()

    def sent_run(self, session: Client, message_ids: range) -> None:
        """A session has sent these for the first time, of QoS 1, and nothing else since."""
        known = session.message_ids
        if known is None:
            known = session.message_ids = {}
        # Whatever packet identifiers they got, they are in flight in the order of sending.
        newest = [*islice(reversed(session.inflight), len(message_ids))]
        known.update(zip(reversed(newest), message_ids, strict=True))
        run = self._sent.get(session)
        if run is None:
            self._sent[session] = [message_ids.start, len(message_ids)]
        elif run[0] + run[1] == message_ids.start:
            run[1] += len(message_ids)
        else:
            self._told += [(session, message_id, (1, False, None, None)) for message_id in message_ids]
        self._stir()

    def acknowledged(self, session: Client, message_ids: Sequence[int], role: str) -> None:
        """The last acknowledgement of messages was sent to their publisher, or came from a subscriber."""
        self._begin()
        name = self.alias(session.client_id)
        if role == "subscriber" and (self._sent or self._told):
            # A quick client: what it acknowledges was delivered before.
            self._deliver_sent()
        first = message_ids[0]
        if is_recorded(first) and list(message_ids) == list(range(first, first + len(message_ids))):
            # In the order of their numbers, and none is missing, as most are.
            self._note(_ACKNOWLEDGED, *name_of(first), len(message_ids), name, role)
            return
        for message_id, many in runs_of(i for i in message_ids if is_recorded(i)):
            self._note(_ACKNOWLEDGED, *name_of(message_id), many, name, role)

    def lost(self, message_id: int, session: Client | None, reason: str) -> None:
        """A session, or where it is None nobody, will not get a message."""
        self._begin()
        client = None if session is None else self.alias(session.client_id)
        self._note(_DROPPED, *name_of(message_id), 1, client, None, reason)

    def ended(self, session: Client, reason: str) -> None:
        """A session is no more, and with it what was queued."""
        self._begin()
        queued = (message_id_in(tail) for _, tail, _ in session.queue)
        for message_id, many in runs_of(i for i in queued if is_recorded(i)):
            self._lose(session, message_id, many, "session_ended")
        super().ended(session, reason)

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
        if not self._fanout.touched:
            self.settle()

    def _stir(self) -> None:
        self.busy = True
        if not self._scheduled:
            self._scheduled = True
            self._soon(self._turn)

    def _begin(self) -> None:
        """Something is noted: first what is open."""
        if self._open is not None:
            self._close()
        self._stir()

    def _close(self) -> None:
        """Note what is open."""

    def _deliver(self) -> None:
        pending, self._pending = self._pending, []
        failed = self.failed
        for facts, message_id, many in pending:
            names, sessions = facts.names, facts.sessions
            if failed and any(session in failed for session in sessions):
                names = tuple(self.alias(s.client_id) for s in sessions if s not in failed)
                for session in sessions:
                    if session in failed:
                        self._lose(session, message_id, many, failed[session])
            self._delivered(names, message_id, many, (0, False, None, None))
        pushed, self._pushed = self._pushed, []
        for session, message_id, how in pushed:
            if session in failed:
                self._lose(session, message_id, 1, failed[session])
            else:
                self._delivered((self.alias(session.client_id),), message_id, 1, how)
        self._deliver_sent()

    def _deliver_sent(self) -> None:
        """QoS 1 and 2."""
        if self._sent:
            sent, self._sent = self._sent, {}
            alike: dict[tuple[int, int], list[str]] = {}
            for session, (message_id, many) in sent.items():
                alike.setdefault((message_id, many), []).append(self.alias(session.client_id))
            for (message_id, many), group in alike.items():
                self._delivered(tuple(group), message_id, many, (1, False, None, None))
        if self._told:
            told, self._told = self._told, []
            for session, message_id, how in told:
                self._delivered((self.alias(session.client_id),), message_id, 1, how)

    def _delivered(self, names: tuple[str, ...], message_id: int, many: int, how: _How) -> None:
        qos, retain, share, reason = how
        topic_filter = None
        if share is not None:
            topic_filter, share = split_filter(share)
        row = (*name_of(message_id), many)
        rest = (qos, retain, share, topic_filter, reason)
        if len(names) == 1:
            self._note(_DELIVERED, *row, names[0], *rest)
        elif names:
            self._buffer.note_many(_DELIVERED, len(names), *row, names, *rest)

    def _lose(self, session: Client, message_id: int, many: int, reason: str) -> None:
        self._note(_DROPPED, *name_of(message_id), many, self.alias(session.client_id), None, reason)


def name_of(message_id: int) -> tuple[str, int, int]:
    origin, creation = origin_of(message_id)
    return origin, creation, number_of(message_id)


def runs_of(message_ids: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(first, how many) of identifiers that follow one another."""
    first, count = NO_ID, 0
    for message_id in message_ids:
        if count and message_id == first + count:
            count += 1
            continue
        if count:
            yield first, count
        first, count = message_id, 1
    if count:
        yield first, count
