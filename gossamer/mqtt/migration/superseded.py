"""Superseded sessions: the client went to another node while this one was down or cut off.

Such a session is not served any more. Its queue and inflight messages are offered to the node with the higher
claim, which takes what its session subscribes to, unless that began later with a clean start. Only then the
old session ends; messages that were not taken are counted (``session_superseded``).

Hints that other nodes kept for it while this one was away may still be on their way: they go behind the
queue, and the session waits until all are replayed.

Rules: 1. What the other node got by a move is not offered again; it is asked whether it did, for a move may
have failed after the session was given.  2. A message of QoS 2 that the other side has taken, by whatever
way, is not taken twice (``qos2``). One that the client may have from *this* session is offered: it learned
that this session is over.  3. An offer is accepted once the disc has it, and repeated until it is answered;
should the claim go away meanwhile, the session is this node's again. The other side is ``successors``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import structlog

from gossamer.distribution import rpc as remote
from gossamer.mqtt.copies.succession import note_successor
from gossamer.mqtt.handoff.hints import Moved, is_for
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.records import record_of
from gossamer.mqtt.migration.claims import moves_at
from gossamer.mqtt.migration.machines import MARK
from gossamer.mqtt.migration.successors import BEGUN, NOT_SUBSCRIBED, OFFER, SUPERSEDED
from gossamer.mqtt.session import in_flight, transfer
from gossamer.mqtt.session.qos2 import Once
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.transfer import rightful

if TYPE_CHECKING:
    from gossamer.distribution import Distribution
    from gossamer.mqtt.handoff.hinted_handoff import HintedHandoff
    from gossamer.mqtt.migration.ownership import Ownership
    from gossamer.mqtt.migration.source import Sources
    from gossamer.mqtt.publish.core import Core

log = structlog.get_logger(__name__)

CALL_TIMEOUT = 5.0
ASK_TIMEOUT = 1.0
"""Shorter, since it may be asked again: until the other node knows what the client has had, both keep it."""
RETRY_INTERVAL = 0.5
LOOKS = 20
MAX_LISTED = 1 << 22
"""Characters of filters in one call; a frame between nodes holds four times as many."""
MARKS_TIMEOUT = 60.0
"""Seconds that a node that is up has to send what it had for a session before it moved."""
RETURN_TIMEOUT = 10.0
"""Seconds that a session waits for the return of nodes that were away when it moved."""
OFFERED = 100
"""Messages in one offer."""


class SupersededSessions:
    """Offers what is left of superseded sessions to their successors, then ends them."""

    def __init__(
        self,
        core: Core,
        ownership: Ownership,
        sources: Sources,
        handoff: HintedHandoff,
        distribution: Distribution,
        *,
        asks: Callable[[], bool],
    ) -> None:
        self._asks = asks
        """Whether sessions are copied, so that another node may have begun with a copy."""
        self._table, self._fanout, self._router = core.table, core.fanout, core.router
        self._sessions, self._wills = core.table.sessions, core.wills
        self._ownership = ownership
        self._sources = sources
        self._handoff = handoff
        self._distribution = distribution
        self._offering: dict[str, Session] = {}
        self._process: dict[str, str] = {}
        """By client, the token of the process that offers its session; one that has another is over."""
        self._subscribed: set[str] = set()
        """Clients whose successor may not be subscribed yet: their routes here stay."""
        self._given: set[str] = set()
        """Clients whose successor has all that was here."""
        self._awaited: set[str] = set()
        """Clients for whom another node sends its hints here."""
        self._marked: dict[str, set[str]] = {}
        """By token of a mark that was requested, the nodes that sent it."""
        self._numbers = count(1)

    def end(self, session: Session, moved: bool) -> None:
        """Offer what a session holds to the node that has its client, then end it. ``moved``: that one got
        all of it from here. A new session elsewhere is subscribed to nothing at first; until its client has
        had time to subscribe, messages still come to this one.
        """
        if session.channel is not None:
            self._table.suspend(session)
        session.will_due = session.will_at = session.gate = None
        self._wills.let_go(session.client_id)
        if self._offering.get(session.client_id) is session:
            return
        if not moved and session.store is not None:
            # Perhaps from its copy, which may lack what is on its way there.
            session.store.leave(session.client_id)
        if not (
            session.revised or session.subscriptions or session.inflight or session.queue or session.incoming
        ):
            self._table.end(session, None)
            return
        if moved:
            self._router.unsubscribe_all(session)
            if not (session.inflight or session.queue or self._handoff.pending or self._handoff.anybody):
                self._table.end(session, None)
                return
            self._ownership.withdraw(session.client_id)
            self._succeed(session)
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

    def _unsubscribe(self, session: Session) -> None:
        """Delete the routes of a session: what other nodes sent to it is here, or went to its successor."""
        if session.client_id in self._subscribed:
            session.gate = None
            self._subscribed.discard(session.client_id)
            self._given.add(session.client_id)
            self._router.unsubscribe_all(session)
            self._succeed(session)

    def _succeed(self, session: Session) -> None:
        """Note on disc that another node has the session: the next creation of this node must not serve it,
        should that one be away then."""
        session.succeeded = True
        session.save()

    def has(self, client_id: str) -> bool:
        """Return whether a superseded session of a client is still here."""
        session = self._offering.get(client_id)
        # One that has been moved back here leaves with its next look.
        return session is not None and self._sessions.get(client_id) is session

    def reclaim(self, client_id: str) -> Session | None:
        """Return the superseded session of a client, not offered any more; None: there is nothing left."""
        session = self._offering.pop(client_id, None)
        self._subscribed.discard(client_id)
        if session is None or self._sessions.get(client_id) is not session:
            return None
        given = client_id in self._given
        self._given.discard(client_id)
        if given and not transfer.left_of(session, given=session.given is not None):
            # The client has gone on with it elsewhere, and would get session present for it here.
            self._table.end(session, None)
            return None
        return session

    def dismiss(self, client_id: str) -> bool:
        """End a superseded session that is empty; False: it is not, or was not when a node asked before, and
        so sends its hints for it here."""
        session = self._offering.get(client_id)
        if session is None or client_id in self._awaited:
            return False
        if session.queue or session.inflight or client_id in self._subscribed:
            self._awaited.add(client_id)
            return False
        self._table.end(session, None)
        return True

    def late(self, message: Message, number: int, moved: Moved) -> None:
        """Take a replayed hint into superseded sessions that match; not of clients that have ``moved``."""
        for client_id, session in self._offering.items():
            if client_id in self._subscribed or not is_for(client_id, number, moved):
                continue
            qos = transfer.wanted_by(session, shared=False)(message.topic)
            if qos and session.admits(message):
                session.take(message, qos=min(message.qos, qos), retain=False)

    async def _offer(self, session: Session) -> None:
        fanout, client_id = self._fanout, session.client_id
        taken, lost = 0, 0
        informed = ""
        given = False
        until = 0.0
        # A node that is away may be about to come back, with hints for this session.
        lingers = fanout.now() + RETURN_TIMEOUT if self._handoff.anybody else 0.0
        token = f"{self._ownership.node}/{self._distribution.runtime.creation}/over/{next(self._numbers)}"
        self._marked[token] = set()
        self._process[client_id] = token
        offers = partial(self._offers, session, token)
        try:
            while self._sessions.get(client_id) is session and offers():
                owner = rightful(self._ownership.claims(client_id))
                if owner == self._ownership.node or owner is None:
                    # The other claim is gone.
                    if (left := self.reclaim(client_id)) is not None:
                        self._sources.keep(left)
                    return
                if informed != owner and (answer := await self._was_given(owner, session)) is not None:
                    if not offers():
                        # Its client is back meanwhile, and it is served again.
                        return
                    if informed:
                        informed = owner
                        continue
                    given, informed = answer, owner
                    # From here on its queue, which is on disc, is what is left of it.
                    transfer.queue_left(session, given=given)
                    if given:
                        self._given.add(client_id)
                    if given and client_id in self._subscribed:
                        session.gate = self._sources.unmarked(session)
                    until = fanout.now() + (MARKS_TIMEOUT if given else RETURN_TIMEOUT)
                if informed == owner:
                    if client_id in self._subscribed:
                        marked = self._sources.all_marked(session) if given else None
                        if marked is None:
                            succeeded = await self._is_succeeded(session, token)
                        else:
                            # A node that is away has not marked.
                            succeeded = marked and fanout.now() >= lingers
                        if succeeded or fanout.now() >= until:
                            self._unsubscribe(session)
                    offered, refused = await self._offer_to(owner, session)
                    if not offers():
                        return
                    taken, lost = taken + offered - refused, lost + refused
                    over = client_id not in self._subscribed and fanout.now() >= lingers
                    if over and not session.queue and not self._handoff.pending:
                        fanout.dropped("session_superseded", lost)
                        log.info("session_superseded", client_id=client_id, by=owner, taken=taken, lost=lost)
                        self._table.end(session, None)
                        return
                await self._a_while(client_id, owner)
        finally:
            del self._marked[token]
            if offers():
                self._over(client_id)

    def _over(self, client_id: str) -> None:
        """Forget a session that is not offered any more."""
        del self._offering[client_id], self._process[client_id]
        for clients in (self._subscribed, self._given, self._awaited):
            clients.discard(client_id)

    def _offers(self, session: Session, token: str) -> bool:
        """Return whether a process still offers a session, which may be superseded again after a return."""
        client_id = session.client_id
        return self._offering.get(client_id) is session and self._process.get(client_id) == token

    async def _a_while(self, client_id: str, owner: str) -> None:
        """Wait, but not past a change of owner: the new one must learn what the client has had in time."""
        for _ in range(LOOKS):
            await asyncio.sleep(RETRY_INTERVAL / LOOKS)
            if rightful(self._ownership.claims(client_id)) != owner:
                return

    async def _is_succeeded(self, session: Session, token: str) -> bool:
        """Return whether every node that is up has the successor's claim, and so sends there or keeps hints,
        and what it sent here before its mark ``token`` has come."""
        marked, nodes = self._marked[token], self._distribution.nodes()
        missing = [node for node in nodes if node not in marked]
        if missing and await self._ownership.all_know({session.client_id: session.epoch}):
            await remote.multicall(missing, MARK, token, "", self._ownership.node, timeout=ASK_TIMEOUT)
        return marked.issuperset(nodes)

    def marked(self, origin: str, token: str) -> None:
        """Take the mark ``token`` of ``origin``: everything that it sent before is here."""
        if token in self._marked:
            self._marked[token].add(origin)

    async def _was_given(self, node: str, session: Session) -> bool | None:
        """Return whether a node got the session in its last move from here; None: not known yet.

        Both report what the client has had from their session, so that neither delivers it again.
        """
        if self._asks() and not await self._learn_moves(node, session):
            return None
        move = "" if session.given is None else session.move
        revised, subscriptions = session.revised, list(transfer.subscriptions_in(session))
        if sum(map(len, session.subscriptions)) > MAX_LISTED:
            # The other node must not adopt an incomplete list.
            revised, subscriptions = 0, []
        begun = list(in_flight.begun_in(session, self._fanout.now()))
        if begun:
            # Before the others, of which the client has to be told that they are over. Where it fails they
            # are offered, and come under other packet identifiers.
            own = session.client_id, session.born, move, session.version, begun, session.username
            await remote.call(node, BEGUN, *own, timeout=ASK_TIMEOUT)
        answer = await remote.call(
            node,
            SUPERSEDED,
            session.client_id,
            session.born,
            move,
            transfer.had_from(session),
            in_flight.halves_of(session),
            transfer.unreleased_in(session),
            revised,
            subscriptions,
            session.username,
            timeout=ASK_TIMEOUT,
        )
        if not isinstance(answer, remote.Returned) or answer.value is None:
            return None
        result: Any = answer.value
        verdict, had = result
        if had and self._offering.get(session.client_id) is session:
            transfer.forget(session, Once.of(had))
        if verdict == NOT_SUBSCRIBED:
            return None if session.subscriptions else False
        return bool(verdict)

    async def _learn_moves(self, node: str, session: Session) -> bool:
        """Learn what a node began with, if that was a copy of this session; False: it did not answer."""
        moves = await moves_at(node, session.client_id)
        if moves is None:
            return False
        if self._offering.get(session.client_id) is session:
            note_successor(session, moves, self._ownership.node)
        return True

    async def _offer_to(self, node: str, session: Session) -> tuple[int, int]:
        """Offer what is queued, and remove what was answered; return how many messages were, and how many of
        these were not taken."""
        answered = lost = 0
        # What comes meanwhile is for the next round: there may always be something.
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
            if self._offering.get(session.client_id) is not session:
                # It is served again meanwhile, with all that it has; what the other took is offered to it.
                break
            result: object = answer.value if isinstance(answer, remote.Returned) else None
            if isinstance(result, list):
                # It takes them later. Should that node go before, what the client has had there so far is
                # not delivered again.
                transfer.forget(session, Once.of(result))
            if not isinstance(result, int):
                break
            answered += len(offered)
            lost += len(offered) - result
            session.shed(offered)
        return answered, lost
