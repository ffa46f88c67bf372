"""Takes what is left of another copy of a session, or of an earlier session of its client, that is over.

The node that has the copy (``superseded``) asks first what the client has had from the session here, then
offers what is left. Rule: of two copies of one session, that in which its client subscribed or unsubscribed
last says to what, before anything is offered. A session takes nothing of another user's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gossamer.mqtt.flow.commits import SETTLE_TIMEOUT
from gossamer.mqtt.messages.message_ids import is_recorded
from gossamer.mqtt.messages.records import read_record
from gossamer.mqtt.session import transfer
from gossamer.mqtt.session.qos2 import Once
from gossamer.mqtt.session.session import Session

if TYPE_CHECKING:
    from gossamer.mqtt.publish.core import Core

OFFER = "mqtt.offer"
SUPERSEDED = "mqtt.superseded"
SUBSCRIBE_TIMEOUT = 2.0
"""Seconds after CONNACK, or what a client said last, within which it says what it wants; what is offered is
judged by that later."""
SUBSCRIBING = 30.0
"""Seconds after which nobody waits for a client any more that goes on changing its subscriptions."""
NOT_SUBSCRIBED = "not subscribed"


class Successors:
    """Answers nodes whose session of a client is over, and takes what they offer for the one here.

    ``is_leaving(client)`` says whether the session here is over too, ``is_moving(client)`` whether it is on
    its way; then ``told(client, had)`` is told what its client has had from another one.
    """

    def __init__(
        self,
        core: Core,
        *,
        is_leaving: Callable[[str], bool],
        is_moving: Callable[[str], bool],
        told: Callable[[str, list[Any]], object],
    ) -> None:
        self._table, self._fanout, self._router = core.table, core.fanout, core.router
        self._sessions, self._clock = core.table.sessions, core.clock
        self._is_leaving = is_leaving
        self._is_moving = is_moving
        self._told = told
        self._adopting: set[str] = set()
        self.functions: dict[str, Callable[..., Any]] = {OFFER: self.accept, SUPERSEDED: self.superseded}
        """What other nodes call."""

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
        """Answer a node whose session of a client is over: what the client has had from it, has begun to
        take, has published to it, when it changed its subscriptions there last, what to, and its user.

        Returns whether the session here has come by ``move``, or is not subscribed yet; and what the client
        has had from it. None: not known yet.
        """
        session = self._sessions.get(client_id)
        if session is None or self._is_leaving(client_id):
            # Left from here itself: whoever asks will see the later claim too.
            return None
        if not self._table.belongs(session, username):
            return False, []
        if self._is_moving(client_id):
            self._told(client_id, had)
            return None
        if had and session.expiry:
            transfer.forget(session, Once.of(had))
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
                # Wherever it is by now is asked next.
                return None
        if move not in session.moves and (session.born == born or not session.clean):
            # Whichever of its sessions it began to publish a message in, or to take one, it does not know
            # them apart.
            transfer.know(session, unreleased)
            session.end_halves(halves)
        verdict = move in session.moves or self._unsaid(session, born, subscriptions)
        return verdict, transfer.had_from(session)

    def _unsaid(self, session: Session, born: int, subscriptions: list[list[Any]]) -> bool | str:
        """Return whether the client of a new session may still say that it wants what the older one, which
        began at ``born``, was subscribed to; it is subscribed to that where its client cannot see that it is
        new."""
        if session.born == born or session.clean:
            return False
        if not (self._may_subscribe(session) or self._fell_early(session)):
            return False
        if not session.subscriptions and self._age(session) > SUBSCRIBE_TIMEOUT:
            # Its client never knew of it, or has gone on with the other: that is what it believes it has.
            transfer.install(session, subscriptions, self._fanout.now())
            self._table.subscribe_again(session)
            session.save()
        covered = subscriptions and session.subscriptions.keys() >= {one[1][0] for one in subscriptions}
        return False if covered else NOT_SUBSCRIBED

    async def _adopt(self, session: Session, revised: int, subscriptions: list[list[Any]]) -> None:
        """Subscribe a session to what another copy of it was, where its client changed that later; come back
        once the other nodes know, and the disc has it."""
        wanted = {options[0] for _, options, _ in subscriptions}
        added = wanted - session.subscriptions.keys()
        gone = session.subscriptions.keys() - wanted
        self._table.unsubscribe(session, sorted(gone))
        transfer.install(session, subscriptions, self._fanout.now())
        await self._router.visible(self._table.subscribe_again(session))
        if session.store is not None:
            await session.store.settled()
        if self._fanout.recorder is not None:
            self._fanout.recorder.subscribed(session, sorted(added), "moved")
        # Not before, for the other node asks again where it takes long, and lets go of its copy then.
        session.revise(revised)

    async def accept(
        self, client_id: str, born: int, records: list[bytes], username: str | None
    ) -> int | list[Any] | None:
        """Take what another node still had for a client of this one; return how many were taken.

        None: not now. What the client has had from the session here: not yet, it may be subscribing.
        """
        session = self._sessions.get(client_id)
        if session is not None and session.store is not None:
            # What is taken while the disc fails is not answered for, and would be offered and queued again.
            if not await session.store.settled(SETTLE_TIMEOUT):
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
                # The other node counts it; which ones these are is known here.
                fanout.recorder.lost(message.id, Session(client_id, fanout=fanout), "session_superseded")
        if taken and session.store is not None:
            await session.store.settled()
        return taken

    def _may_subscribe(self, session: Session) -> bool:
        """Return whether the client of a new session has had no time to subscribe yet, or is doing so."""
        channel = session.channel
        if channel is None or not session.subscriptions:
            return not session.subscriptions
        wall, latest = self._clock.wall(), session.revised / 1e6
        if session.born >= channel.stamp:
            # Its first connection, which may have waited for CONNACK for longer than this.
            latest = max(latest, channel.since)
        return bool(
            max(self._age(session), wall - channel.since) < SUBSCRIBING
            and (channel.held or wall - latest < SUBSCRIBE_TIMEOUT)
        )

    def _fell_early(self, session: Session) -> bool:
        """Return whether the client of a new session may have gone before its last SUBSCRIBE, and comes
        back."""
        said = (session.revised - session.born) / 1e6
        return session.channel is None and said < SUBSCRIBE_TIMEOUT and self._age(session) < SUBSCRIBING

    def _age(self, session: Session) -> float:
        # Seconds. Epochs are microseconds of the day.
        return float(self._clock.wall() - session.born / 1e6)
