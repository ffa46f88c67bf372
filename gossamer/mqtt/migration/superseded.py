"""Superseded sessions: what is left of one whose client went elsewhere while its node was down or cut off.

It is not served any more. What it has queued and in flight is offered to the node with the higher claim,
which takes what its session subscribes to, unless that is a later one that began with a clean start. Only
then the old session ends; what nobody took is counted (``session_superseded``).

What other nodes have kept for it while this one was away is on its way still, as long as they have not said
that that was all: it goes after what is queued, and the session waits for it.

Rules: 1. What the other node has from a move is not offered again; whether it has is asked, for a move may
have broken off after the session was given.  2. A message of QoS 2 that the other side has taken, by whatever
way, is not taken twice (``once``). The one that its client may have from *this* session is offered: that
session is over, and its client was told so.  3. An offer is accepted once the disc has it, and repeated until
it is answered; should the claim go away meanwhile, the session is this node's again. What the other node does
is ``successors``.
"""

from __future__ import annotations

import asyncio
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import structlog

from gossamer.distribution import rpc as remote
from gossamer.mqtt.handoff.hints import Moved, is_for
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.records import record_of
from gossamer.mqtt.migration.machines import MARK
from gossamer.mqtt.migration.successors import NOT_SUBSCRIBED, OFFER, SUPERSEDED
from gossamer.mqtt.session import transfer
from gossamer.mqtt.session.qos2 import Once
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.transfer import rightful

if TYPE_CHECKING:
    from gossamer.distribution import Distribution
    from gossamer.mqtt.handoff.away import Away
    from gossamer.mqtt.migration.ownership import Ownership
    from gossamer.mqtt.migration.source import Sources
    from gossamer.mqtt.publish.core import Core

log = structlog.get_logger(__name__)

CALL_TIMEOUT = 5.0
TOLD_TIMEOUT = 1.0
"""Shorter, since it may be asked again: until the other node knows what the client has had, both keep it."""
RETRY_INTERVAL = 0.5
LOOKS = 20
MAX_LISTED = 1 << 22
"""Characters of filters that another node is told at once; a frame between nodes holds four times as many."""
MARKS_TIMEOUT = 60.0
"""Seconds within which a node that is up has sent what it had for a session before it moved."""
RETURN_TIMEOUT = 10.0
"""Seconds for which a session is waited with that has moved while a node was away."""
OFFERED = 100
"""Messages in one offer."""


class SupersededSessions:
    """Offers what is left of sessions that are over here."""

    def __init__(
        self,
        core: Core,
        ownership: Ownership,
        sources: Sources,
        away: Away,
        distribution: Distribution,
    ) -> None:
        self._table, self._fanout, self._router = core.table, core.fanout, core.router
        self._sessions, self._wills = core.table.sessions, core.wills
        self._ownership = ownership
        self._sources = sources
        self._away = away
        self._distribution = distribution
        self._offering: dict[str, Session] = {}
        self._subscribed: set[str] = set()
        """Clients of these for whom the other side may not be subscribed yet."""
        self._given: set[str] = set()
        """Clients of these that went elsewhere with all that was here: what is here is not theirs any
        more."""
        self._awaited: set[str] = set()
        """Clients of these whom another node sends what it has kept here."""
        self._marked: dict[str, set[str]] = {}
        """The nodes of which everything is here that they sent before they were asked for a mark, by that."""
        self._numbers = count(1)

    def end(self, session: Session, moved: bool) -> None:
        """The session is somebody else's: offer what it has, then end it. ``moved``: from here, as it was.

        One that is new elsewhere is subscribed to nothing at first; until its client has had the time to
        subscribe, what comes is for this one.
        """
        if session.channel is not None:
            self._table.suspend(session)
        session.will_due = session.will_at = session.gate = None
        self._wills.let_go(session.client_id)
        if self._offering.get(session.client_id) is session:
            return
        if not (
            session.revised or session.subscriptions or session.inflight or session.queue or session.incoming
        ):
            self._table.end(session, None)
            return
        if moved:
            self._router.unsubscribe_all(session)
            if not (session.inflight or session.queue or self._away.pending or self._away.anybody):
                self._table.end(session, None)
                return
            self._ownership.withdraw(session.client_id)
        else:
            # A share group must not choose this one any more.
            shared = [name for name in session.subscriptions if name.startswith("$share/")]
            for name in shared:
                self._router.unsubscribe(name, session)
            self._subscribed.add(session.client_id)
        self._offering[session.client_id] = session
        self._given.discard(session.client_id)
        if moved:
            self._given.add(session.client_id)
        self._awaited.discard(session.client_id)
        self._distribution.runtime.spawn(self._offer, session, label="mqtt_offer")

    def _hear_no_more(self, session: Session) -> None:
        """All that other nodes have sent to this session is here, or was for its successor too."""
        if session.client_id in self._subscribed:
            session.gate = None
            self._subscribed.discard(session.client_id)
            self._given.add(session.client_id)
            self._router.unsubscribe_all(session)

    def has(self, client_id: str) -> bool:
        """Return whether something of a client's is still here."""
        session = self._offering.get(client_id)
        # One that has been moved back here leaves with its next look.
        return session is not None and self._sessions.get(client_id) is session

    def reclaim(self, client_id: str) -> Session | None:
        """Return what is left here of a client's session, and offer it to nobody any more."""
        session = self._offering.pop(client_id, None)
        self._subscribed.discard(client_id)
        if session is None or self._sessions.get(client_id) is not session:
            return None
        given = client_id in self._given
        self._given.discard(client_id)
        if given and not transfer.left_of(session, given=session.given is not None):
            # The client has gone on with it elsewhere, and would be told that it has it here.
            self._table.end(session, None)
            return None
        return session

    def dismiss(self, client_id: str) -> bool:
        """Wait no more with what is left of a session that has moved; False: there is something in it, or a
        node was told so before, which sends here what it has kept."""
        session = self._offering.get(client_id)
        if session is None or client_id in self._awaited:
            return False
        if session.queue or session.inflight or client_id in self._subscribed:
            self._awaited.add(client_id)
            return False
        self._table.end(session, None)
        return True

    def late(self, message: Message, number: int, moved: Moved) -> None:
        """A message that another node has kept; who moved meanwhile may have had it there."""
        for client_id, session in self._offering.items():
            if client_id in self._subscribed or not is_for(client_id, number, moved):
                continue
            qos = transfer.wanted_by(session, shared=False)(message.topic)
            if qos and session.admits(message):
                session.take(message, qos=min(message.qos, qos), retain=False)

    async def _offer(self, session: Session) -> None:
        fanout, client_id = self._fanout, session.client_id
        taken, lost = 0, 0
        told = ""
        given = False
        until = 0.0
        # Who is away may be about to come back, and to hand over what it has kept for this session.
        lingers = fanout.now() + RETURN_TIMEOUT if self._away.anybody else 0.0
        token = f"{self._ownership.node}/{self._distribution.runtime.creation}/over/{next(self._numbers)}"
        self._marked[token] = set()
        try:
            while self._sessions.get(client_id) is session and self._offering.get(client_id) is session:
                owner = rightful(self._ownership.claims(client_id))
                if owner == self._ownership.node or owner is None:
                    # Whoever claimed it is gone.
                    if (left := self.reclaim(client_id)) is not None:
                        self._sources.keep(left)
                    return
                if told != owner and (answer := await self._was_given(owner, session)) is not None:
                    if self._offering.get(client_id) is not session:
                        # Its client is back meanwhile, and all of it is the session's again.
                        return
                    if told:
                        told = owner
                        continue
                    given, told = answer, owner
                    # From here on its queue, which is on disc, is what is left of it.
                    transfer.queue_left(session, given=given)
                    if given:
                        self._given.add(client_id)
                    if given and client_id in self._subscribed:
                        session.gate = self._sources.unmarked(session)
                    until = fanout.now() + (MARKS_TIMEOUT if given else RETURN_TIMEOUT)
                if told == owner:
                    if client_id in self._subscribed:
                        if given:
                            # Who is away has not marked.
                            heard = self._sources.all_marked(session) and fanout.now() >= lingers
                        else:
                            heard = await self._is_succeeded(session, token)
                        if heard or fanout.now() >= until:
                            self._hear_no_more(session)
                    offered, refused = await self._offer_to(owner, session)
                    taken, lost = taken + offered - refused, lost + refused
                    over = client_id not in self._subscribed and fanout.now() >= lingers
                    if over and not session.queue and not self._away.pending:
                        fanout.dropped("session_superseded", lost)
                        log.info("session_superseded", client_id=client_id, by=owner, taken=taken, lost=lost)
                        self._table.end(session, None)
                        return
                await self._a_while(client_id, owner)
        finally:
            del self._marked[token]
            if self._offering.get(client_id) is session:
                del self._offering[client_id]
                self._subscribed.discard(client_id)
                self._given.discard(client_id)
                self._awaited.discard(client_id)

    async def _a_while(self, client_id: str, owner: str) -> None:
        """Wait, but for a later claim: what the client has had must be told before that is given it again."""
        for _ in range(LOOKS):
            await asyncio.sleep(RETRY_INTERVAL / LOOKS)
            if rightful(self._ownership.claims(client_id)) != owner:
                return

    async def _is_succeeded(self, session: Session, token: str) -> bool:
        """Return whether every node that is up knows of a successor, and sends or keeps for it what comes;
        and what it sent before, until the mark ``token``, is here."""
        marked, nodes = self._marked[token], self._distribution.nodes()
        missing = [node for node in nodes if node not in marked]
        if missing and await self._ownership.all_know({session.client_id: session.epoch}):
            await remote.multicall(missing, MARK, token, "", self._ownership.node, timeout=TOLD_TIMEOUT)
        return marked.issuperset(nodes)

    def marked(self, origin: str, token: str) -> None:
        """Everything that ``origin`` sent before it was asked for this mark is here."""
        if token in self._marked:
            self._marked[token].add(origin)

    async def _was_given(self, node: str, session: Session) -> bool | None:
        """Return whether a node has what was given in the session's last move from here; None: not known yet.

        Each tells the other what the client has had from its session, and gives nothing of that once more.
        """
        move = "" if session.given is None else session.move
        revised, subscriptions = session.revised, list(transfer.subscriptions_in(session))
        if sum(map(len, session.subscriptions)) > MAX_LISTED:
            # Nobody follows what it cannot be told whole.
            revised, subscriptions = 0, []
        answer = await remote.call(
            node,
            SUPERSEDED,
            session.client_id,
            session.born,
            move,
            transfer.had_from(session),
            transfer.halves_of(session),
            transfer.unreleased_in(session),
            revised,
            subscriptions,
            session.username,
            timeout=TOLD_TIMEOUT,
        )
        if not isinstance(answer, remote.Returned) or answer.value is None:
            return None
        told: Any = answer.value
        verdict, had = told
        if had and self._offering.get(session.client_id) is session:
            transfer.forget(session, Once.of(had))
        if verdict == NOT_SUBSCRIBED:
            return None if session.subscriptions else False
        return bool(verdict)

    async def _offer_to(self, node: str, session: Session) -> tuple[int, int]:
        """Offer what is queued; what was answered for leaves it: how many, and how many were not taken."""
        answered = lost = 0
        # What comes meanwhile is for the next look: there may always be something.
        due = len(session.queue)
        while session.queue and answered < due:
            offered = list(islice(session.queue, OFFERED))
            records = [
                record_of(message, self._fanout.now()) for message in transfer.messages_in(session, offered)
            ]
            answer = await remote.call(
                node,
                OFFER,
                session.client_id,
                session.born,
                records,
                session.username,
                timeout=CALL_TIMEOUT,
            )
            told: object = answer.value if isinstance(answer, remote.Returned) else None
            if isinstance(told, list) and self._offering.get(session.client_id) is session:
                # Taken later. Should that node go before, the client is not given again what it has had
                # there by now.
                transfer.forget(session, Once.of(told))
            if not isinstance(told, int):
                break
            answered += len(offered)
            lost += len(offered) - told
            session.shed(offered)
        return answered, lost
