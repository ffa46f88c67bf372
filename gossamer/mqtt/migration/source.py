"""The source of a move: carries out the actions of ``machines.MigrationSource``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from gossamer.mqtt.migration import moves
from gossamer.mqtt.migration.machines import FROZEN, MARK_TIMEOUT, MigrationSource
from gossamer.mqtt.session.qos2 import Block, Once
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.state import Item
from gossamer.mqtt.session.transfer import Pending, describe, forget, in_parts, items_of

if TYPE_CHECKING:
    from gossamer.distribution import Distribution
    from gossamer.mqtt.migration.ownership import Ownership
    from gossamer.mqtt.publish.core import Core

DISC_TIMEOUT = 1.0
"""Seconds for which a source waits for its disc when it gives a session away."""


class _Outgoing:
    """One session on its way to another node: its state machine, and the data of the move."""

    def __init__(self, session: Session, pending: Pending) -> None:
        self.machine = MigrationSource()
        self.session = session
        self.pending = pending
        self.aside: list[Item] = []
        """Messages for the target to queue; this node queues them if the move fails."""
        self.had = Once()
        """QoS 2 messages that the client had from another session meanwhile."""
        self.parts: list[list[object]] = []
        self.answer: Any = None
        self.released: asyncio.Future[int | None] | None = None
        self.token = ""
        """Of the marks that it takes."""
        self.stamp = 0
        """Stamp of the connection that requests it."""
        self.over = asyncio.Event()
        """Set while it is neither frozen nor given."""

    def answer_release(self, parts: int | None) -> None:
        """Answer the release with the number of parts that came since the freeze; None: the move is over."""
        if self.released is not None and not self.released.done():
            self.released.set_result(parts)


class Sources:
    """Sessions that are moving from this node to another, or have moved, by client."""

    def __init__(self, core: Core, ownership: Ownership, distribution: Distribution) -> None:
        self.on_done: Callable[[Session, bool], object] = lambda _session, _moved: None
        """Called with a session that another node has, and whether it got all of it from here."""
        self._table, self._fanout = core.table, core.fanout
        self._ownership = ownership
        self._distribution = distribution
        self._loop = distribution.runtime.loop
        self._outgoing: dict[str, _Outgoing] = {}
        self._listens: dict[str, _Outgoing] = {}
        """By token of a mark, the session that waits for it."""

    def gives(self, client_id: str) -> bool:
        """Return whether the session of a client is on its way from here."""
        outgoing = self._outgoing.get(client_id)
        return outgoing is not None and outgoing.machine.state in (
            MigrationSource.FROZEN,
            MigrationSource.GIVEN,
        )

    def delivered(self, client_id: str, had: Iterable[Block]) -> None:
        """Note QoS 2 messages that the client of a session on its way has had from another one."""
        self._outgoing[client_id].had.load(had)

    def over(self, client_id: str) -> asyncio.Event:
        """Return the event that is set once a session is not on its way any more."""
        return self._outgoing[client_id].over

    def keep(self, session: Session) -> Any:
        """Take back a session that no other node claims; return what :meth:`Router.visible` waits for."""
        session.gate = None
        if session.succeeded:
            session.succeeded = False
            session.save()
        self.forget(session.client_id)
        seq = self._table.subscribe_again(session)
        self._table.rest(session)
        self._ownership.claim(session)
        return seq

    def supersede(self, session: Session, owner: str) -> None:
        """Give up a session whose client another node has."""
        self._feed(self._outgoing_for(session), moves.Superseded(owner))

    def forget(self, client_id: str) -> None:
        """Forget the move of a session that has ended, or stays."""
        outgoing = self._outgoing.pop(client_id, None)
        if outgoing is not None:
            self._listens.pop(outgoing.token, None)
            outgoing.answer_release(None)
            outgoing.over.set()

    def _outgoing_for(self, session: Session) -> _Outgoing:
        outgoing = self._outgoing.get(session.client_id)
        if outgoing is None or outgoing.session is not session:
            if outgoing is not None:
                self._listens.pop(outgoing.token, None)
            outgoing = self._outgoing[session.client_id] = _Outgoing(session, Pending(None, None, None))
        return outgoing

    def _feed(self, outgoing: _Outgoing, event: moves.Event) -> None:
        now = self._fanout.now()
        for action in outgoing.machine.handle(event, now, self._distribution.nodes()):
            match action:
                case moves.Freeze():
                    self._do_freeze(outgoing)
                case moves.Refuse(answer):
                    outgoing.answer = answer
                case moves.Give():
                    self._do_give(outgoing)
                case moves.Thaw(doubtful):
                    self._do_thaw(outgoing, doubtful=doubtful)
                case moves.Done(complete):
                    outgoing.answer_release(None)
                    moved = complete and bool(self.all_marked(outgoing.session))
                    self.on_done(outgoing.session, moved)
                case _:  # pragma: no cover - the others are the target's
                    pass
        if outgoing.machine.state in (MigrationSource.FROZEN, MigrationSource.GIVEN):
            outgoing.over.clear()
        else:
            outgoing.over.set()

    def _do_freeze(self, outgoing: _Outgoing) -> None:
        session, now = outgoing.session, self._fanout.now()
        outgoing.pending = self._table.suspend(session)
        where = self._fanout.where

        def admit(item: Item) -> bool:
            if outgoing.machine.admits(where()):
                return True
            outgoing.aside.append(item)
            return False

        session.gate = admit
        session.given = len(session.queue)
        session.move = outgoing.machine.token
        session.save()
        outgoing.aside = []
        outgoing.parts = in_parts(session, now)
        outgoing.answer = describe(session, outgoing.pending) | {
            "parts": len(outgoing.parts),
            "epoch": session.epoch,
        }
        self._loop.call_later(FROZEN, self._tick, outgoing)

    def _do_give(self, outgoing: _Outgoing) -> None:
        session = outgoing.session
        since = list(session.queue)[session.given or 0 :]
        session.given = len(session.queue)
        session.save()
        outgoing.parts = items_of(since, self._fanout.now())
        if outgoing.had:
            outgoing.parts.append([["h", outgoing.had.dump()]])
        outgoing.answer_release(len(outgoing.parts))

    def _do_thaw(self, outgoing: _Outgoing, *, doubtful: bool) -> None:
        session = outgoing.session
        session.gate = None
        if doubtful:
            self._ownership.doubtful[session.client_id] = outgoing.stamp
        else:
            session.given = None
        for item in outgoing.aside:
            if session.admits_item(item):
                session.enqueue(*item)
        if outgoing.had:
            forget(session, outgoing.had)
        outgoing.aside = []
        outgoing.parts = []
        outgoing.answer_release(None)
        self._table.revive(session, outgoing.pending)

    def _tick(self, outgoing: _Outgoing) -> None:
        if self._outgoing.get(outgoing.session.client_id) is outgoing:
            self._feed(outgoing, moves.Tick())

    def node_down(self, node: str) -> None:
        """End the moves to a node that is down."""
        for outgoing in list(self._outgoing.values()):
            self._feed(outgoing, moves.NodeDown(node))

    def marked(self, origin: str, token: str) -> None:
        """Take the mark of ``origin``: everything that it sent before the move ``token`` is here."""
        if (outgoing := self._listens.get(token)) is not None:
            self._feed(outgoing, moves.Marked(origin, token))

    def all_marked(self, session: Session) -> bool | None:
        """Return whether all that was sent to a session before its last move is here; None: that move was
        not from here, but from a copy, or of an earlier creation of this node, and nobody marks it here."""
        move = self.move_of(session)
        if move is None or move.token != session.move:
            return None
        return {"", *self._distribution.nodes()} <= move.marked

    def unmarked(self, session: Session) -> Callable[[Item], bool] | None:
        """Return a gate that admits messages from nodes yet to mark the last move; None: nobody marks it."""
        move = self.move_of(session)
        if move is None or move.token != session.move:
            return None
        return lambda _item: move.admits(self._fanout.where())

    def move_of(self, session: Session) -> MigrationSource | None:
        """Return the latest move of a session from here, if any."""
        outgoing = self._outgoing.get(session.client_id)
        return None if outgoing is None or outgoing.session is not session else outgoing.machine

    # -- calls of the target

    async def freeze(self, session: Session, token: str, target: str, stamp: int) -> dict[str, object] | str:
        """Freeze a session for the connection ``stamp`` at ``target``; return its state, or the refusal."""
        outgoing = self._outgoing_for(session)
        outgoing.answer, outgoing.stamp = None, max(outgoing.stamp, stamp)
        self._feed(outgoing, moves.Asked(token, target))
        if outgoing.machine.token == token:
            self._listens.pop(outgoing.token, None)
            outgoing.token, self._listens[token] = token, outgoing
        answer: dict[str, object] | str = outgoing.answer
        await self._recorded(session)
        return answer

    def part(self, client_id: str, token: str, number: int) -> list[object] | None:
        """Return a part of a frozen session, or after the release of what came since; None: no such part."""
        outgoing = self._outgoing.get(client_id)
        if outgoing is None or outgoing.machine.token != token or number >= len(outgoing.parts):
            return None
        return list(outgoing.parts[number])

    async def release(self, client_id: str, token: str, asked: list[str]) -> int | None:
        """Return how many parts came since the freeze, once ``asked`` sent their marks, or late; None: the
        move is over."""
        outgoing = self._outgoing.get(client_id)
        if outgoing is None or outgoing.machine.token != token or not self.gives(client_id):
            return None
        # A target that asks again does not wait for the first answer any more.
        outgoing.answer_release(None)
        loop = asyncio.get_running_loop()
        released: asyncio.Future[int | None] = loop.create_future()
        outgoing.released = released
        loop.call_later(MARK_TIMEOUT, self._tick, outgoing)
        self._feed(outgoing, moves.ReleaseAsked(token, frozenset(asked)))
        parts = await released
        await self._recorded(outgoing.session)
        return parts

    async def _recorded(self, session: Session) -> None:
        """Wait until the disc has it that a session was given, for the next creation of this node.

        At most :data:`DISC_TIMEOUT`: a full disc must not hold up a client whose session another one has. If
        this node dies then, it offers again what it gave.
        """
        if session.store is not None:
            await session.store.disc.settled(DISC_TIMEOUT)
