"""Messages owed to share groups: kept until a member has acknowledged them, also over a death of the node.

*Handed out*: a member whose session ends with its node was sent a message of QoS 1 and has not acknowledged
it. *Handed on*: that session has ended, or the members here have left while the message was in transit, and
it goes to a member on another node, which has not reported it safe yet. *Waiting*: there is no member to send
it to, but persistent ones are expected, on a node that is away. All are on disc, where the node has one, so a
message that was acknowledged to its publisher reaches a member once the node is back at the latest.

Sessions are checked four times a second, not at every acknowledgement: a *mark* notes the messages in flight
and the last one in the queue; once all of these are gone, messages handed out before the mark are settled.

Rules: 1. Nothing is added to the path of an acknowledgement.  2. A durable session is not checked: it is on
disc itself.  3. QoS 2 that was handed out goes to no other member ([MQTT-4.8.2-5]).  4. At most ``limit``
messages and ``max_bytes`` wait; beyond, the oldest is dropped and counted.  5. For :data:`SETTLE` seconds
after a restart only connected members are given messages: others may not be known yet.

Rejected: an entry for each acknowledgement that is awaited (one more look-up for every PUBACK of every
client); keeping the message also at the node that forwarded it until the member acknowledges (a report for
each batch, and two members get it whenever a node dies).
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
"""Seconds between two checks."""
SETTLE = 10.0
STEP = 500
"""Messages given in a turn."""

Give = Callable[[str, bytes, Callable[[bool], None], bool], bool]
"""``give(group, record, on_safe, online)``: to a member, ``online`` ones only; False: there is none."""


class _Debt:
    """Numbers of messages that one session was given before the mark, and since."""

    __slots__ = ("inflight", "last", "marked", "since")

    def __init__(self) -> None:
        self.marked: list[int] = []
        self.since: list[int] = []
        self.last: Item | None = None
        self.inflight: dict[int, bytes] = {}

    def settled(self, session: Session) -> list[int]:
        """Return the numbers that the session has settled; set the next mark."""
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
    """Keeps messages for share groups until a member has acknowledged each of them.

    ``expected(group)`` returns whether a group has members on a node that is away. Numbers begin at
    ``first``, in each creation of the node above those of the one before.
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
        """By number: group, time of day at which it came, record."""
        self._under_way: set[int] = set()
        self._bytes = 0
        self._begun: float | None = None
        fanout.owe = self.hand_out

    @property
    def waiting(self) -> int:
        """Number of messages that wait for a member."""
        return len(self._waiting)

    # -- handed out

    def hand_out(self, session: object, message: Message, qos: int, group: str) -> None:
        """Keep a message of QoS 1 that a member here was given, unless its session is on disc."""
        if qos != 1 or not isinstance(session, Session) or session.store is not None:
            return
        debt = self._debts.get(session)
        if debt is None:
            debt = self._debts[session] = _Debt()
        debt.since.append(self._note(group, record_of(message, self._fanout.now())))

    def hand_on(self, group: str, record: bytes) -> Callable[[bool], None]:
        """Keep a message that goes to another node; return its ``on_safe``: with False it waits here."""
        number = self._note(group, record)

        def there(safe: bool) -> None:
            if safe:
                self._forget(number)
            else:
                self._put(number, group, self._wall(), record)

        return there

    def look(self) -> None:
        """Forget messages that members have acknowledged."""
        for session, debt in list(self._debts.items()):
            if self._table.sessions.get(session.client_id) is session:
                done = debt.settled(session)
            else:
                # Its unacknowledged messages went to other members when it ended.
                done = debt.marked + debt.since
                debt.marked, debt.since = [], []
            for number in done:
                self._forget(number)
            if not (debt.marked or debt.since):
                del self._debts[session]

    # -- waiting

    def wait(self, group: str, record: bytes, on_safe: Callable[[bool], None] | None = None) -> None:
        """Keep a message until ``group`` has a member; call ``on_safe`` once it is on disc."""
        self._put(self._note(group, record), group, self._wall(), record)
        store = self._table.store
        if on_safe is None:
            return
        if store is None:
            self._soon(lambda: on_safe(True))
        else:
            # No range has it.
            store.disc.append_acked(b"", on_safe)

    def give(self, give: Give) -> None:
        """Give waiting messages to members that have come. Call it about once a second."""
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
                    # Other groups may have members.
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
        """Restore the messages on disc; all of them wait."""
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
