"""Messages for share groups that no member has taken over yet: kept until one has, over the node's death too.

*Handed out*: a member whose session ends with its node was sent a message of QoS 1 and has not acknowledged
it. *Handed on*: that session has ended, or the members here have gone while the message was on its way, and
it goes to a member of another node, which has not said that it is safe there. *Waiting*: there is no member
that could be given it, but some are expected: they outlive their node, which is away. All are on disc, where
the node has one, so a message whose publisher has its acknowledgement reaches a member once the node is
back at the latest.

What a session holds is looked at four times a second, not at every acknowledgement: a *mark* notes what is in
flight and which message is last in the queue; once all of that is gone, what was handed out before the mark
is settled.

Rules: 1. Nothing is added to the path of an acknowledgement.  2. A durable session is not looked at: it is on
disc itself.  3. QoS 2 that was handed out is its member's or nobody's ([MQTT-4.8.2-5]).  4. At most ``limit``
messages and ``max_bytes`` wait; then the oldest goes, counted.  5. After a restart only members that are
connected are given anything for :data:`SETTLE` seconds: others may not be known yet.

Rejected: an entry for each acknowledgement that is awaited (a look-up more for every PUBACK of every client);
having the node that forwarded the message keep it too until the member acknowledges (a report for each batch,
and two members get it whenever a node dies).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import structlog

from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.records import fresh, record_of
from gossamer.mqtt.publish.fanout import Fanout
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.sessions import SessionTable
from gossamer.mqtt.session.state import Item

log = structlog.get_logger(__name__)

INTERVAL = 0.25
"""Seconds between two looks."""
SETTLE = 10.0
STEP = 500
"""Messages given in a turn."""

Give = Callable[[str, bytes, Callable[[bool], None], bool], bool]
"""``give(group, record, on_safe, online)``: to a member, ``online`` ones only; False where there is none."""


class _Debt:
    """Messages that one session was given: before the mark, and since."""

    __slots__ = ("inflight", "last", "marked", "since")

    def __init__(self) -> None:
        self.marked: list[int] = []
        self.since: list[int] = []
        self.last: Item | None = None
        self.inflight: dict[int, bytes] = {}

    def settled(self, session: Session) -> list[int]:
        """Return what the session holds no more; set the next mark."""
        done: list[int] = []
        if self.marked and self._passed(session):
            done, self.marked = self.marked, []
        if not self.marked and self.since:
            self.marked, self.since = self.since, []
            self.last = session.queue[-1] if session.queue else None
            self.inflight = dict(session.inflight)
            if self.last is None and not self.inflight:
                done += self.marked
                self.marked = []
        return done

    def _passed(self, session: Session) -> bool:
        if self.last is not None:
            if any(item is self.last for item in session.queue):
                return False
            # It has been sent since, and everything before it.
            self.last = None
            self.inflight = dict(session.inflight)
        inflight = session.inflight
        return all(inflight.get(number) is not packet for number, packet in self.inflight.items())


class Owed:
    """Keeps messages for share groups until a member has taken each of them over.

    ``expected(group)`` says whether a group has members on a node that is away. Numbers begin at
    ``first``, in each life of the node above those of the one before.
    """

    def __init__(
        self,
        fanout: Fanout,
        table: SessionTable,
        *,
        wall: Callable[[], float],
        soon: Callable[[Callable[[], None]], object],
        expected: Callable[[str], bool],
        limit: int,
        max_bytes: int,
        first: int = 1,
    ) -> None:
        self._fanout = fanout
        self._table = table
        self._wall = wall
        self._soon = soon
        self._expected = expected
        self._limit = limit
        self._max_bytes = max_bytes
        self._next = first
        self._debts: dict[Session, _Debt] = {}
        self._waiting: dict[int, tuple[str, float, bytes]] = {}
        """Group, time of day at which it came, record."""
        self._under_way: set[int] = set()
        self._bytes = 0
        self._begun: float | None = None
        fanout.owe = self.hand_out

    @property
    def waiting(self) -> int:
        """Messages that wait for a member."""
        return len(self._waiting)

    # -- handed out

    def hand_out(self, session: object, message: Message, qos: int, group: str) -> None:
        """A member here was given a message."""
        if qos != 1 or not isinstance(session, Session) or session.store is not None:
            return
        debt = self._debts.get(session)
        if debt is None:
            debt = self._debts[session] = _Debt()
        debt.since.append(self._note(group, record_of(message, self._fanout.now())))

    def hand_on(self, group: str, record: bytes) -> Callable[[bool], None]:
        """Hand a message to another node; return what to call once it is safe there, or not."""
        number = self._note(group, record)

        def there(safe: bool) -> None:
            if safe:
                self._forget(number)
            else:
                self._put(number, group, self._wall(), record)

        return there

    def look(self) -> None:
        """Forget what members have acknowledged."""
        for session, debt in list(self._debts.items()):
            if self._table.sessions.get(session.client_id) is session:
                done = debt.settled(session)
            else:
                # What it had left was given to others when it ended.
                done = debt.marked + debt.since
                debt.marked, debt.since = [], []
            for number in done:
                self._forget(number)
            if not (debt.marked or debt.since):
                del self._debts[session]

    # -- waiting

    def wait(self, group: str, record: bytes, on_safe: Callable[[bool], None] | None = None) -> None:
        """Keep a message until ``group`` has a member."""
        self._put(self._note(group, record), group, self._wall(), record)
        store = self._table.store
        if on_safe is None:
            return
        if store is None:
            self._soon(lambda: on_safe(True))
        else:
            store.append_acked(b"", on_safe)

    def give(self, give: Give) -> None:
        """Give what waits to members that have come; about once a second."""
        if self._begun is None:
            self._begun = self._fanout.now()
        young = self._fanout.now() - self._begun < SETTLE
        looked, without = 0, set[str]()
        for number, (group, at, record) in list(self._waiting.items()):
            if number in self._under_way or group in without:
                continue
            looked += 1
            if looked > STEP:
                break
            left, _ = fresh(record, self._wall() - at)
            if not left:
                self._drop(number, "expired")
                continue
            self._under_way.add(number)
            if not give(group, left, partial(self._given, number), young):
                self._under_way.discard(number)
                if young or self._expected(group):
                    # What waits behind it is for others, too.
                    without.add(group)
                else:
                    self._drop(number, "no_group_member")

    def _given(self, number: int, done: bool) -> None:
        self._under_way.discard(number)
        if done and number in self._waiting:
            self._bytes -= len(self._waiting.pop(number)[2])
            self._forget(number)

    def _drop(self, number: int, reason: str) -> None:
        self._bytes -= len(self._waiting.pop(number)[2])
        self._forget(number)
        self._fanout.dropped(reason)

    def _put(self, number: int, group: str, at: float, record: bytes) -> None:
        self._waiting[number] = group, at, record
        self._bytes += len(record)
        while len(self._waiting) > self._limit or self._bytes > self._max_bytes:
            self._drop(next(iter(self._waiting)), "group_queue_full")

    # -- the disc

    def restore(self, rows: Mapping[int, tuple[str, float, bytes]]) -> None:
        """Have again what was owed when the node went down."""
        for number, (group, at, record) in sorted(rows.items()):
            self._put(number, group, at, record)
        if rows:
            log.info("group_messages_restored", count=len(rows))

    def _note(self, group: str, record: bytes) -> int:
        number = self._next
        self._next += 1
        store = self._table.store
        if store is not None:
            store.note_owed(number, (group, self._wall(), record))
        return number

    def _forget(self, number: int) -> None:
        store = self._table.store
        if store is not None:
            store.note_owed(number, None)
