"""Successors: sessions here that take what is left of a superseded copy, or of the client's earlier session.

The node with the superseded session asks first what the client has had from the session here, then offers
what is left. Rules: 1. Of two copies of one session, the one that its client revised last has the right
subscriptions; they are adopted before anything is offered.  2. A session takes nothing of another user's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gossamer.mqtt.flow.commits import SETTLE_TIMEOUT
from gossamer.mqtt.messages.message_ids import is_recorded
from gossamer.mqtt.messages.records import read_record
from gossamer.mqtt.session import in_flight, transfer
from gossamer.mqtt.session.durable import DurableSession
from gossamer.mqtt.session.session import Session

if TYPE_CHECKING:
    from gossamer.mqtt.publish.core import Core

OFFER = "mqtt.offer"
SUPERSEDED = "mqtt.superseded"
BEGUN = "mqtt.begun"
SUBSCRIBE_TIMEOUT = 2.0
"""Seconds after CONNACK, or its last SUBACK, that a client has to subscribe; offers wait for that."""
SUBSCRIBING_LIMIT = 30.0
"""Seconds after which offers no longer wait for a client that goes on changing its subscriptions."""
NOT_SUBSCRIBED = "not subscribed"


class Successors:
    """Answers nodes with a superseded session of a client, and takes what they offer for the one here.

    ``is_leaving(client)``: whether the session here is superseded too; ``is_moving(client)``: whether it is
    migrating; ``delivered(client, had)`` is called with QoS 2 messages that the client had elsewhere.
    """

    def __init__(
        self,
        core: Core,
        *,
        is_leaving: Callable[[str], bool],
        is_moving: Callable[[str], bool],
        delivered: Callable[[str, list[Any]], object],
    ) -> None:
        self._table, self._fanout, self._router = core.table, core.fanout, core.router
        self._sessions, self._clock = core.table.sessions, core.clock
        self._is_leaving = is_leaving
        self._is_moving = is_moving
        self._delivered = delivered
        self._adopting: set[str] = set()
        self.functions: dict[str, Callable[..., Any]] = {
            OFFER: self.accept,
            SUPERSEDED: self.superseded,
            BEGUN: self.begin_again,
        }
        """Functions that other nodes call, by name."""

    async def superseded(
        self,
        client_id: str,
        born: int,
        move: str,
        had: list[Any],
        halves: list[int],
        unreleased: list[Any],
        revised: int,
        subscriptions: list[list[object]],
        username: str | None,
    ) -> tuple[bool | str, list[Any]] | None:
        """Answer a node with a superseded session, which began at ``born`` (microseconds of the day).

        ``move``: token of its last move from there, blank for none; ``had``, ``halves``, ``unreleased``: QoS
        2 messages that the client has had from it, has begun to take, and has yet to release; ``revised``:
        when ``subscriptions`` changed last, which are adopted if that was later than here.

        Returns whether the session here came by ``move``, or :data:`NOT_SUBSCRIBED`, and the messages that
        the client has had from it. None: not known yet, ask again.
        """
        session = self._sessions.get(client_id)
        if session is None or self._is_leaving(client_id):
            # Superseded itself: the node that asks will see the later claim too.
            return None
        if not self._table.belongs(session, username):
            return False, []
        if had:
            self._delivered(client_id, had)
        if self._is_moving(client_id):
            return None
        if session.born == born and revised > session.revised:
            if client_id in self._adopting or (session.channel is not None and session.channel.held):
                # Its client is changing them, or another copy does: what was last is known afterwards.
                return None
            self._adopting.add(client_id)
            try:
                await self._adopt(session, revised, subscriptions)
            finally:
                self._adopting.discard(client_id)
            if self._sessions.get(client_id) is not session or self._is_moving(client_id):
                # The node that has it now is asked next.
                return None
        if move not in session.moves and _alike(session, born):
            transfer.know(session, unreleased)
            session.end_halves(halves)
        verdict = move in session.moves or self.unsaid(session, born, subscriptions)
        return verdict, transfer.had_from(session)

    def begin_again(
        self, client_id: str, born: int, move: str, version: int, begun: list[list[Any]], username: str | None
    ) -> None:
        """Put in flight what is so in a superseded session of that protocol version, and wanted here."""
        session = self._sessions.get(client_id)
        if session is None or self._is_leaving(client_id) or self._is_moving(client_id):
            return
        if move in session.moves or session.version != version or not _alike(session, born):
            return
        if self._table.belongs(session, username):
            # Copies of one session have the same subscriptions, or will.
            wanted = None if session.born == born else transfer.wanted_by(session, shared=True)
            in_flight.begin_again(session, begun, wanted)

    def unsaid(self, session: Session, born: int, subscriptions: list[list[Any]]) -> bool | str:
        """Return :data:`NOT_SUBSCRIBED` while the client of a new session may yet subscribe as in its older
        one, born at ``born``; False: it has, or will not. Subscribes it if it cannot see that it is new."""
        if session.born == born or session.clean:
            return False
        if not (self._may_subscribe(session) or self._fell_early(session)):
            return False
        if not session.subscriptions and self._age(session) > SUBSCRIBE_TIMEOUT:
            # Its client never saw it, or went on with the other one, and believes to have its subscriptions.
            transfer.install(session, subscriptions, self._fanout.now())
            self._table.subscribe_again(session)
            session.save()
        covered = subscriptions and session.subscriptions.keys() >= {one[1][0] for one in subscriptions}
        return False if covered else NOT_SUBSCRIBED

    async def _adopt(self, session: Session, revised: int, subscriptions: list[list[Any]]) -> None:
        """Give a session the subscriptions of another copy, changed at ``revised``; return once every node
        has the routes, and the disc has it."""
        wanted = {options[0] for _, options, _ in subscriptions}
        added = wanted - session.subscriptions.keys()
        gone = session.subscriptions.keys() - wanted
        self._table.unsubscribe(session, sorted(gone))
        transfer.install(session, subscriptions, self._fanout.now())
        await self._router.visible(self._table.subscribe_again(session))
        if session.store is not None:
            await session.store.disc.settled()
        if self._fanout.recorder is not None:
            self._fanout.recorder.subscribed(session, sorted(added), "moved")
        # Not before: the other node asks again where it takes long, and would then let go of its copy.
        session.revise(revised)

    async def accept(
        self, client_id: str, born: int, records: list[bytes], username: str | None
    ) -> int | list[Any] | None:
        """Take records that another node still had for a client of this one; return how many were taken.

        None: not now. A list (the QoS 2 messages that the client has had here): not yet, it may subscribe.
        """
        session = self._sessions.get(client_id)
        if session is not None and session.store is not None:
            # What is taken while the disc fails is not acknowledged, and would be offered and queued again.
            if not await session.store.disc.settled(SETTLE_TIMEOUT):
                return None
            session = self._sessions.get(client_id)
        if session is None or self._is_leaving(client_id) or self._is_moving(client_id):
            return None
        # Nothing of it is for a session that began clean after it, or for another user's.
        later = (session.clean and session.born > born) or not self._table.belongs(session, username)
        if not later and session.born != born and self._may_subscribe(session):
            return transfer.had_from(session)
        fanout = self._fanout
        wanted = transfer.wanted_by(session, shared=True)
        taken = 0
        for record in records:
            message, _ = read_record(record, 0, len(record), fanout.now())
            if not later and (qos := wanted(message.topic)):
                taken += 1
                if session.admits(message):
                    session.take(message, qos=min(message.qos, qos), retain=False)
            elif is_recorded(message.id) and fanout.recorder is not None:
                # The other node only counts them; this one has their ids.
                fanout.recorder.lost(message.id, Session(client_id, fanout=fanout), "session_superseded")
        if taken and session.store is not None:
            await session.store.settled(peer=session.store.of((session,)))
        return taken

    def _may_subscribe(self, session: Session) -> bool:
        """Return whether the client of a new session has had no time to subscribe yet, or is doing so."""
        channel = session.channel
        if channel is None or not session.subscriptions:
            return not session.subscriptions
        wall, latest = self._clock.wall(), max(session.revised / 1e6, channel.answered)
        if session.born >= channel.stamp:
            # Its first connection, which may have waited for CONNACK for longer than this.
            latest = max(latest, channel.since)
        held = channel.held or (isinstance(session, DurableSession) and session.holds_suback)
        return bool(
            max(self._age(session), wall - channel.since) < SUBSCRIBING_LIMIT
            and (held or wall - latest < SUBSCRIBE_TIMEOUT)
        )

    def _fell_early(self, session: Session) -> bool:
        """Return whether the client of a new session may have gone before its last SUBSCRIBE, and return."""
        said = (session.revised - session.born) / 1e6
        return session.channel is None and said < SUBSCRIBE_TIMEOUT and self._age(session) < SUBSCRIBING_LIMIT

    def _age(self, session: Session) -> float:
        # Seconds. Epochs are microseconds of the day.
        return float(self._clock.wall() - session.born / 1e6)


def _alike(session: Session, born: int) -> bool:
    """Return whether its client cannot tell it from its session that began at ``born``, and so may have begun
    to publish or take a message in either."""
    return session.born == born or not session.clean
