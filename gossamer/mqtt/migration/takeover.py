"""Sessions that follow their client from node to node: who claims which, and the giving side of a move.

Each node says in the *owned* table ``sessions`` whose sessions it has, with an epoch; the highest ``(epoch,
node)`` has the client. How a session moves is decided by ``handover``; the taking side is ``taking``; what is
left where there was no move, since a node was down or cut off while its client went elsewhere, ``remains``.

Rules: 1. A node that sees a higher claim than its own stops serving the client, at once or, where it serves
one, as soon as it knows that a later connection is behind that claim (``claims``).  2. A client whose session
is new or came with it is served once every node that is up has seen the claim, the giver among them: from
then on nobody thaws it, should this node die, nobody has a second copy to deliver, and whichever node the
client goes to next knows that there is a session.  3. Who thawed a session that another node may have
committed claims it, when the client comes, above what that node claimed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gossamer.distribution import Distribution
from gossamer.distribution import rpc as remote
from gossamer.mnesia_like import Change, OwnedTable
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.messages.records import MOVE_MARK
from gossamer.mqtt.migration.claims import SERVES, Contests
from gossamer.mqtt.migration.kick import KICK, kick_everywhere
from gossamer.mqtt.migration.machines import FROZEN, MARKS_WITHIN, Giver, rightful
from gossamer.mqtt.migration.moves import (
    Asked,
    Done,
    Event,
    Freeze,
    Give,
    Marked,
    NodeDown,
    Refuse,
    ReleaseAsked,
    Superseded,
    Thaw,
    Tick,
)
from gossamer.mqtt.migration.superseded import Remains
from gossamer.mqtt.migration.target import Taking
from gossamer.mqtt.migration.transfer import describe, forget, in_parts, items_of
from gossamer.mqtt.migration.withdrawals import Withdrawals
from gossamer.mqtt.session.qos2 import Block, Once
from gossamer.mqtt.session.session import Item, Session
from gossamer.mqtt.session.sessions import Pending

if TYPE_CHECKING:
    from gossamer.mqtt.broker import Broker
    from gossamer.mqtt.connection.channel import Channel

__all__ = ["Takeovers"]

CALL_WITHIN = 5.0
CLAIMED_WITHIN = 3.0
"""Seconds that a claim may take to be seen by nodes that are said to be up."""
NEW_CLAIM_TIMEOUT = 1.0
"""The same of a session that is new, of which nothing can be delivered twice."""
DISC_TIMEOUT = 1.0
"""Seconds for which the disc of a node is waited for that gives a session away."""


class _Giving:
    """One session that is being given away: its machine, and what goes with it."""

    def __init__(self, session: Session, pending: Pending) -> None:
        self.machine = Giver()
        self.session = session
        self.pending = pending
        self.aside: list[Item] = []
        """Messages that are the taker's to queue; ours again if it does not make it."""
        self.had = Once()
        """What the client was found to have had from another session meanwhile."""
        self.parts: list[list[Any]] = []
        self.answer: Any = None
        self.released: asyncio.Future[int | None] | None = None
        self.stamp = 0
        """Of the connection that it is given to."""
        self.over = asyncio.Event()
        """Set while it is neither frozen nor given."""


class Takeovers:
    """See the module."""

    def __init__(self, broker: Broker, distribution: Distribution, table: OwnedTable) -> None:
        self.broker = broker
        self.distribution = distribution
        self.node = distribution.runtime.node
        self._table = table
        self._giving: dict[str, _Giving] = {}
        self._taking: dict[str, Taking] = {}
        """By client."""
        self._doubtful: dict[str, int] = {}
        """Whose sessions were given to a node that died, or was cut off, before it was seen to have them; and
        the epoch with which it may have claimed them."""
        self.contests = Contests(self)
        self.withdrawals = Withdrawals(broker.runtime, distribution, table)
        self.remains = Remains(self)
        self._number = 0

    def offer(self, functions: dict[str, Callable[..., Any]]) -> None:
        """What other nodes call."""
        functions["mqtt.freeze"] = self._freeze
        functions["mqtt.part"] = self._part
        functions["mqtt.release"] = self._release
        functions["mqtt.mark"] = self.mark
        functions["mqtt.end"] = self._end
        functions[SERVES] = self.contests.serves
        functions[KICK] = self.broker.kick
        functions.update(self.remains.functions)
        functions.update(self.withdrawals.functions)
        functions["mqtt.fetch"] = self._fetch

    # -- who has it

    def rows(self, client_id: str) -> dict[str, int]:
        """The claims of other nodes that can be reached."""
        up = self.distribution.nodes()
        return {node: epoch for node, epoch in self._table.read(client_id).items() if node in up}

    def better(self, client_id: str) -> dict[str, int]:
        """Those of them that are higher than this node's own."""
        rows = self.rows(client_id)
        session = self.broker.sessions.get(client_id)
        if session is None or not rows:
            return rows
        return {node: epoch for node, epoch in rows.items() if (epoch, node) > (session.epoch, self.node)}

    def elsewhere(self, client_id: str, *, clean: bool) -> bool:
        """Whether another node has something of this client's, or something is on its way."""
        if client_id in self._taking or self._gives(client_id) or self.remains.has(client_id):
            return True
        return bool(self.rows(client_id) if clean else self.better(client_id))

    def claims(self, client_id: str) -> dict[str, int]:
        """Who claims a client's session, this node too."""
        return self._table.read(client_id)

    def is_moving(self, client_id: str) -> bool:
        """Whether a session is on its way here, or elsewhere: what is queued now may come too late."""
        taking = self._taking.get(client_id)
        return (taking is not None and not taking.committed) or self._gives(client_id)

    def told(self, client_id: str, had: Iterable[Block]) -> None:
        """The client of a session that is moving has had these messages from another one."""
        taking = self._taking.get(client_id)
        if taking is not None:
            taking.known.load(had)
        elif self._gives(client_id):
            self._giving[client_id].had.load(had)

    def _move_of(self, client_id: str) -> asyncio.Event | None:
        """Set once the session of a client is on its way no more, here or elsewhere; None: it is not."""
        taking = self._taking.get(client_id)
        if taking is not None:
            return taking.over
        return self._giving[client_id].over if self._gives(client_id) else None

    def _gives(self, client_id: str) -> bool:
        giving = self._giving.get(client_id)
        return giving is not None and giving.machine.state in (Giver.FROZEN, Giver.GIVEN)

    def claimant(self, client_id: str) -> Channel | None:
        """The connection that waits for a session on its way here."""
        taking = self._taking.get(client_id)
        claimant = None if taking is None else taking.claimant
        return None if claimant is None or claimant.is_closed else claimant

    def keep(self, session: Session) -> Any:
        """Nobody else claims it any more: it is this node's as it was; what to wait for until all know."""
        session.gate = None
        self._forget(session.client_id)
        seq = self.broker.table.subscribe_again(session)
        self.broker.table.rest(session)
        self._claim(session)
        return seq

    def unclaim(self, session: Session) -> None:
        """It has moved to another node, which claims it; what comes late is waited for here."""
        self.withdrawals.withdraw(session.client_id)

    def next_epoch(self, client_id: str) -> int:
        """An epoch above all that are known."""
        return int(max(self._table.read(client_id).values(), default=0)) + 1

    def own(self, session: Session, stamp: int) -> None:
        """Claim a session for a connection of this node; where it is kept on disc, once the disc has it."""
        self._number_for(session, stamp)
        if session.subscriptions and self.broker.away is not None:
            self.broker.away.settle(session)
        if session.store is None:
            self._claim(session)
        else:
            session.save()
            session.store.append_acked(b"", lambda _: self._claim(session))

    def _number_for(self, session: Session, stamp: int) -> None:
        client_id = session.client_id
        found = self._table.read(client_id)
        doubt = self._doubtful.pop(client_id, None)
        if doubt is not None:
            session.epoch = max(stamp, doubt, self.next_epoch(client_id), session.epoch + 1) + 1
        elif found.get(self.node) != (session.epoch or None) or rightful(found) != self.node:
            session.epoch = max(stamp, self.next_epoch(client_id))
        session.born = session.born or session.epoch

    async def establish(self, session: Session, stamp: int) -> None:
        """Claim a new session that outlives its connection, and come back once the other nodes know."""
        self._number_for(session, stamp)
        session.save()
        if session.store is not None:
            await session.store.settled()
        number = self._claim(session)
        if number is not None:
            await self._table.visible(number, NEW_CLAIM_TIMEOUT)

    def outbid(self, session: Session) -> None:
        """Claim a session above a claim that has no connection behind it."""
        session.epoch = self.next_epoch(session.client_id)
        session.save()
        self._claim(session)

    def supersede(self, session: Session, owner: str) -> None:
        """Another node has the client of a session of this one."""
        self._feed(self._giver(session), Superseded(owner))

    async def announce(self, session: Session, source: str) -> None:
        """Claim a session that was moved here, and come back once the other nodes know."""
        number = self._claim(session)
        known = number is not None and await self._table.visible(number, CLAIMED_WITHIN)
        if known and source in self.distribution.nodes():
            self.broker.wills.moved(session.client_id, source)
        session.given = None
        session.save()

    def claim(self, session: Session) -> None:
        """Claim a session that this node had when it began."""
        if session.given is not None:
            self._doubtful[session.client_id] = 0
        self._claim(session)

    def _claim(self, session: Session) -> int | None:
        """Say that the session is here, with the epoch that it has; a higher claim of others ends it.

        The number of the write, where there was one.
        """
        client_id = session.client_id
        if self.broker.sessions.get(client_id) is not session:
            return None
        if not session.epoch:
            session.epoch = self.next_epoch(client_id)
        number = None
        self.withdrawals.stays(client_id)
        if self._table.read(client_id).get(self.node) != session.epoch:
            number = self._table.write(client_id, session.epoch)
        self._check(client_id)
        return number

    def disown(self, client_id: str) -> None:
        """The session is over."""
        self._forget(client_id)
        self._doubtful.pop(client_id, None)
        self.withdrawals.withdraw(client_id)

    def _forget(self, client_id: str) -> None:
        giving = self._giving.pop(client_id, None)
        if giving is not None:
            giving.over.set()

    def changed(self, change: Change) -> None:
        """Another node claims sessions; those of this node with a lower epoch are not its own any more."""
        if change.owner != self.node:
            for client_id in change.written:
                self._check(client_id)

    def _check(self, client_id: str) -> None:
        found = self._table.read(client_id)
        mine = found.get(self.node)
        owner = rightful(found)
        if mine is not None and owner is not None and owner != self.node:
            session = self.broker.sessions.get(client_id)
            # One that is being put together here has no claim yet, whatever an older row says.
            if session is not None and client_id not in self._taking:
                if session.channel is None:
                    self.supersede(session, owner)
                else:
                    self.contests.begin(session)

    # -- giving

    def _giver(self, session: Session) -> _Giving:
        giving = self._giving.get(session.client_id)
        if giving is None or giving.session is not session:
            giving = self._giving[session.client_id] = _Giving(session, Pending(None, None, None))
        return giving

    def _feed(self, giving: _Giving, event: Event) -> None:
        now = self.broker.hub.now()
        for action in giving.machine.handle(event, now, self.distribution.nodes()):
            match action:
                case Freeze():
                    self._do_freeze(giving)
                case Refuse(answer):
                    giving.answer = answer
                case Give():
                    self._do_give(giving)
                case Thaw(doubtful):
                    self._do_thaw(giving, doubtful=doubtful)
                case Done(complete):
                    moved = complete and self.all_marked(giving.session)
                    self.remains.end(giving.session, moved=moved)
                case _:  # pragma: no cover - the others are the taker's
                    pass
        if giving.machine.state in (Giver.FROZEN, Giver.GIVEN):
            giving.over.clear()
        else:
            giving.over.set()

    def _do_freeze(self, giving: _Giving) -> None:
        session, now = giving.session, self.broker.hub.now()
        giving.pending = self.broker.table.suspend(session)
        where = self.broker.hub.where

        def admit(item: Item) -> bool:
            if giving.machine.admits(where()):
                return True
            giving.aside.append(item)
            return False

        session.gate = admit
        session.given = len(session.queue)
        session.move = giving.machine.token
        session.save()
        giving.aside = []
        giving.parts = in_parts(session, now)
        giving.answer = describe(session, giving.pending) | {
            "parts": len(giving.parts),
            "epoch": session.epoch,
        }
        self.broker.runtime.loop.call_later(FROZEN, self._tick, giving)

    def _do_give(self, giving: _Giving) -> None:
        session = giving.session
        since = list(session.queue)[session.given or 0 :]
        session.given = len(session.queue)
        session.save()
        giving.parts = items_of(since, self.broker.hub.now())
        if giving.had:
            giving.parts.append([["h", giving.had.dump()]])
        if giving.released is not None and not giving.released.done():
            giving.released.set_result(len(giving.parts))

    def _do_thaw(self, giving: _Giving, *, doubtful: bool) -> None:
        session = giving.session
        session.gate = None
        if doubtful:
            self._doubtful[session.client_id] = giving.stamp
        else:
            session.given = None
        for item in giving.aside:
            if session.admits_item(item):
                session.enqueue(*item)
        if giving.had:
            forget(session, giving.had)
        giving.aside = []
        giving.parts = []
        if giving.released is not None and not giving.released.done():
            giving.released.set_result(None)
        self.broker.table.revive(session, giving.pending)

    def _tick(self, giving: _Giving) -> None:
        if self._giving.get(giving.session.client_id) is giving:
            self._feed(giving, Tick())

    def node_down(self, node: str) -> None:
        """A node is gone: moves from and to it end."""
        for giving in list(self._giving.values()):
            self._feed(giving, NodeDown(node))
        for taking in list(self._taking.values()):
            taking.feed(NodeDown(node))

    def all_marked(self, session: Session) -> bool:
        """Whether all that was sent to a session before its last move is here."""
        giving = self._giving.get(session.client_id)
        if giving is None or giving.session is not session or giving.machine.token != session.move:
            return True
        return {"", *self.distribution.nodes()} <= giving.machine.marked

    def unmarked(self, session: Session) -> Callable[[Item], bool] | None:
        """A gate for what comes still of nodes that had not sent their mark when a session moved."""
        move = self.move_of(session)
        return None if move is None else lambda _item: move.admits(self.broker.hub.where())

    def move_of(self, session: Session) -> Giver | None:
        """The latest move of a session from here."""
        giving = self._giving.get(session.client_id)
        return None if giving is None or giving.session is not session else giving.machine

    # -- what the taker calls

    async def _freeze(
        self, client_id: str, token: str, taker: str, stamp: int, age: float, insist: bool
    ) -> dict[str, Any] | str | None:
        session = self.broker.sessions.get(client_id)
        none = "outbid" if self.withdrawals.is_outbid(client_id) else None
        if session is None or client_id in self._taking:
            return none if session is None else "busy"
        standing = self.contests.standing(client_id, age, insist=insist)
        if standing:
            return standing
        if not session.expiry:
            # It ends with its connection, and that ends now ([MQTT-3.1.4-3]).
            if session.channel is not None:
                session.channel.disconnect(ReasonCode.SESSION_TAKEN_OVER)
            self.broker.table.end(session)
            return "ended"
        giving = self._giver(session)
        giving.answer, giving.stamp = None, max(giving.stamp, stamp)
        self._feed(giving, Asked(token, taker))
        answer: dict[str, Any] | str = giving.answer
        await self._recorded(session)
        return none if answer == "none" else answer

    def _part(self, client_id: str, token: str, number: int) -> list[Any] | None:
        giving = self._giving.get(client_id)
        if giving is None or giving.machine.token != token or number >= len(giving.parts):
            return None
        return list(giving.parts[number])

    async def _release(self, client_id: str, token: str) -> int | None:
        giving = self._giving.get(client_id)
        if giving is None or giving.machine.token != token:
            return None
        loop = asyncio.get_running_loop()
        released: asyncio.Future[int | None] = loop.create_future()
        giving.released = released
        loop.call_later(MARKS_WITHIN, self._tick, giving)
        self._feed(giving, ReleaseAsked(token))
        parts = await released
        await self._recorded(giving.session)
        return parts

    async def _recorded(self, session: Session) -> None:
        """Have it on disc that a session was given, for the next life of this node.

        Not for long: a full disc would hold up a client that has its session on another's. Should this node
        die then, it offers once more what it gave.
        """
        if session.store is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(DISC_TIMEOUT):
                    await session.store.settled()

    def mark(self, token: str, source: str, target: str) -> bool:
        """Send marks to both sides of a move, in the streams of messages to them."""
        forwarders = self.broker.router.forwarders()
        mark = MOVE_MARK + bytes((len(token.encode()),)) + token.encode()
        for node in (source, target):
            if node == self.node:
                self.marked("", token)
            elif node in forwarders:
                forwarders[node].append_acked(mark, _ignore)
        return True

    def marked(self, origin: str, token: str) -> None:
        """Everything ``origin`` sent before this is here."""
        for giving in list(self._giving.values()):
            if giving.machine.token == token:
                self._feed(giving, Marked(origin, token))
        for taking in list(self._taking.values()):
            taking.marked(origin, token)

    # -- clean starts, and kicks

    async def _end(self, client_id: str, age: float, insist: bool) -> bool | str:
        if client_id not in self.broker.sessions:
            return False
        standing = self.contests.standing(client_id, age, insist=insist)
        if standing:
            return standing
        await self.broker.table.end_clean(client_id)
        return True

    async def kick(self, client_id: str) -> bool:
        """End a client's connection and session, wherever they are; see ``kick``."""
        return await kick_everywhere(self.broker, self.distribution, client_id)

    # -- taking

    async def fetch(self, client_id: str, *, clean: bool, claimant: Channel | None = None) -> bool:
        """Have the session of a client here, or ended where it is.

        False: it stays there, since a later connection is there, or ``claimant``'s has ended.
        """
        while (moving := self._move_of(client_id)) is not None:
            # Others may have waited for its end as well, and have begun the next move.
            await moving.wait()
        if clean:
            return await self._end_elsewhere(client_id, claimant)
        if self.better(client_id) and not await self._take(client_id, claimant):
            return False
        if (left := self.remains.reclaim(client_id)) is not None:
            # Whoever claimed it is away: what is here of it is the best there is.
            await self.broker.router.visible(self.keep(left))
        return True

    async def _take(self, client_id: str, claimant: Channel | None) -> bool:
        self._number += 1
        token = f"{self.node}/{self.distribution.runtime.creation}/{self._number}"
        taking = self._taking[client_id] = Taking(self, client_id, token, claimant)
        try:
            return await taking.run()
        finally:
            if self._taking.get(client_id) is taking:
                del self._taking[client_id]
            taking.over.set()

    async def _end_elsewhere(self, client_id: str, claimant: Channel | None) -> bool:
        for insist in (False, True):
            age = self.contests.age(claimant)
            answers = await remote.multicall(
                self.rows(client_id), "mqtt.end", client_id, age, insist, timeout=CALL_WITHIN
            )
            said = {answer.value for answer in answers.values() if isinstance(answer, remote.Returned)}
            if "newer" in said or ("served" in said and claimant is not None and claimant.is_closed):
                return False
            if "served" not in said:
                break
        return True

    async def _fetch(self, client_id: str) -> bool:
        """What a node calls that is being drained: have a session here whose client is not here yet."""
        if client_id not in self._taking:
            await self.fetch(client_id, clean=False)
        return client_id in self.broker.sessions


def _ignore(_safe: bool) -> None:
    pass
