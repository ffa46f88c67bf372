"""The target of a move: carries out the actions of ``machines.MigrationTarget``, one at a time.

Marks and node failures reach the machine at once, since they change what it admits; its other events come
when the action before is done.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from gossamer.distribution import rpc as remote
from gossamer.mqtt.codec.framing import topic_in
from gossamer.mqtt.copies.succession import note_successor
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.migration import moves
from gossamer.mqtt.migration.claims import FOREIGN
from gossamer.mqtt.migration.machines import MigrationSource, MigrationTarget
from gossamer.mqtt.migration.marks import Marks
from gossamer.mqtt.migration.moves import Action, Event
from gossamer.mqtt.session import in_flight, transfer
from gossamer.mqtt.session.qos2 import Once
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.state import Item
from gossamer.routes import body_of, matches

if TYPE_CHECKING:
    from gossamer.distribution import Distribution
    from gossamer.mqtt.handoff.hinted_handoff import HintedHandoff
    from gossamer.mqtt.migration.claims import Claimant, Contests, Fetched
    from gossamer.mqtt.migration.ownership import Ownership
    from gossamer.mqtt.migration.source import Sources
    from gossamer.mqtt.publish.core import Core

log = structlog.get_logger(__name__)

CALL_TIMEOUT = 5.0
LOOK = 0.2
REMEMBERED_MOVES = 8
"""Moves that a session remembers: their sources may come back."""
NO_ANSWER = object()
EVERYTHING = 1 << 30
"""More messages than a queue can hold."""


class Targets:
    """Sessions that are on their way to this node, by client.

    ``mark(token, source, target)`` sends the marks of this node.
    """

    def __init__(
        self,
        core: Core,
        ownership: Ownership,
        sources: Sources,
        contests: Contests,
        distribution: Distribution,
        handoff: HintedHandoff,
        *,
        mark: Callable[[str, str, str], object],
    ) -> None:
        self.core = core
        self.ownership = ownership
        self.sources = sources
        self.contests = contests
        self.distribution = distribution
        self.handoff = handoff
        self.marks = Marks(core, distribution, handoff, mark=mark)
        self._incoming: dict[str, Incoming] = {}
        self.get = self._incoming.get
        self._number = 0

    def is_open(self, client_id: str) -> bool:
        """Return whether the session of a client is on its way here, and not whole yet."""
        incoming = self._incoming.get(client_id)
        return incoming is not None and not incoming.committed

    async def take(self, client_id: str, claimant: Claimant | None) -> Fetched:
        """Move the session of a client here, unless it stays where it is; see :meth:`Takeovers.fetch`."""
        return await self.run(client_id, lambda token: Incoming(self, client_id, token, claimant))

    async def run(self, client_id: str, make: Callable[[str], Incoming]) -> Fetched:
        """Run the move that ``make`` returns for a token."""
        self._number += 1
        token = f"{self.ownership.node}/{self.distribution.runtime.creation}/{self._number}"
        incoming = self._incoming[client_id] = make(token)
        self.marks.listen(token, incoming.marked)
        try:
            return await incoming.run()
        finally:
            if self._incoming.get(client_id) is incoming:
                del self._incoming[client_id]
            self.marks.over(*incoming.tokens)
            incoming.over.set()

    def node_down(self, node: str) -> None:
        """Report to all moves that a node is down."""
        for incoming in list(self._incoming.values()):
            incoming.feed(moves.NodeDown(node))


class Incoming:
    """One move to this node. ``over`` is set when it has ended, successfully or not."""

    def __init__(self, home: Targets, client_id: str, token: str, claimant: Claimant | None) -> None:
        self.token = token
        self.tokens = [token]
        """Of the moves whose marks it takes."""
        self.claimant = claimant
        """The connection that requests it; None: this node does."""
        self._stamp = home.contests.stamp(client_id) if claimant is None else claimant.stamp
        self._routed: int | None = None
        """Sequence number of the write of its routes."""
        self._above = 0
        """Epoch of the source."""
        self.over = asyncio.Event()
        self.committed = False
        """The session is complete, and on disc."""
        self._home = home
        self._fanout, self._table, self._router = home.core.fanout, home.core.table, home.core.router
        self._ownership, self._distribution = home.ownership, home.distribution
        self._client_id = client_id
        self._machine = MigrationTarget(token, now=self._fanout.now())
        self._actions: deque[Action] = deque()
        self._awake = asyncio.Event()
        self._session: Session | None = None
        self._pending = transfer.Pending(None, None, None)
        self._before: list[Item] = []
        """Queue of the source."""
        self._older: list[Item] = []
        """Messages of a superseded session here."""
        self.known = Once()
        """QoS 2 messages that the client has had from that session, and from others that are over."""
        self._left: MigrationSource | None = None
        """The move in which the superseded session here went to another node, if any."""
        self._listened = False
        """The superseded session here never went to the source, and took what came until now."""
        self._theirs: list[str] | None = None
        """Filters of the source, without ``$share``; None: the same as here."""
        self._foreign = False
        """The session stays there since it is another user's."""
        self._asked: list[str] = []
        """Nodes that were asked for marks."""
        self._aside: list[tuple[str | None, Item, int]] = []
        """Messages for the source to queue: origin, message, and length of the queue here at that time. They
        are queued here if the source fails."""

    def marked(self, origin: str, token: str) -> None:
        """Take the mark of ``origin``: everything that it sent before the move ``token`` is here."""
        if token == self.token:
            self.feed(moves.Marked(origin, token))
        elif self._left is not None and token == self._left.token:
            self._left.marked.add(origin)

    def feed(self, event: Event) -> None:
        """Pass an event to the machine, and queue its actions."""
        self._actions += self._machine.handle(event, self._fanout.now(), self._rows())
        self._awake.set()

    async def run(self) -> Fetched:
        """Run the move to its end; see :meth:`Takeovers.fetch` for the result."""
        self._actions += self._machine.begin(self._fanout.now(), self._rows())
        done = False
        try:
            while self._machine.state != MigrationTarget.DONE or self._actions:
                if not self._actions:
                    await self._something()
                    continue
                action = self._actions.popleft()
                done = done or isinstance(action, moves.Own)
                event = await self._perform(action)
                if event is not None:
                    self.feed(event)
        finally:
            session = self._session
            if session is not None and not done:
                # The source keeps it.
                self._table.end(session, None)
        if self._machine.kept:
            return FOREIGN if self._foreign else "elsewhere"
        return "here"

    async def _something(self) -> None:
        """Wait for an event, or feed a tick after :data:`LOOK` seconds."""
        self._awake.clear()
        try:
            async with asyncio.timeout(LOOK):
                await self._awake.wait()
        except TimeoutError:
            self.feed(moves.Tick())

    def _rows(self) -> dict[str, int]:
        return self._ownership.better(self._client_id)

    async def _perform(self, action: Action) -> Event | None:
        match action:
            case moves.AskFreeze(node):
                return await self._ask(node)
            case moves.Wait(until):
                await asyncio.sleep(max(0.0, until - self._fanout.now()))
                return moves.Tick()
            case moves.Install(state):
                return await self._install(*state)
            case moves.SendMarks():
                return await self._send_marks()
            case moves.AskRelease(node):
                return moves.Released(await self._ask_release(node))
            case moves.Commit(rest):
                return await self._commit(rest)
            case moves.Own():
                assert self._session is not None  # noqa: S101 - it was put together
                self.committed = True
                if self._machine.source in self._distribution.nodes():
                    log.info("session_moved", client_id=self._client_id, source=self._machine.source)
                await self._ownership.announce(self._session, self._machine.source)
                if self._session.subscriptions:
                    # Until then hints are for an older one, whose node may be away.
                    self._home.handoff.settle(self._session)
                recorder = self._fanout.recorder
                if recorder is not None:
                    recorder.taken_over(self._session, self._machine.source)
                    recorder.subscribed(self._session, list(self._session.subscriptions), "moved")
            case moves.Done(complete):
                if not complete:
                    log.warning("takeover_incomplete", client_id=self._client_id, source=self._machine.source)
        return None

    async def _ask(self, node: str) -> Event:
        ask = partial(self._call, node, "mqtt.freeze", self._ownership.node, self._stamp)
        claimant, contests = self.claimant, self._home.contests
        if claimant is not None and claimant.is_closed:
            # Its client may have been served elsewhere since, and be about to come back there.
            return moves.Answered("kept")
        user = contests.user_of(claimant)
        answer = await ask(contests.age(claimant), claimant is None, user)
        if answer == "served" and claimant is not None and not claimant.is_closed:
            answer = await ask(contests.age(claimant), True, user)
        self._foreign = answer == FOREIGN
        if answer in ("newer", "served", FOREIGN):
            return moves.Answered("kept")
        if answer in ("busy", "ended", "outbid"):
            return moves.Answered(answer)
        if not isinstance(answer, dict):
            return moves.Answered("none" if answer is None else "unreachable")
        entries = await self._pull(node, answer["parts"])
        if entries is None:
            return moves.Answered("unreachable")
        return moves.Answered("state", (answer, entries))

    async def _install(self, state: dict[str, Any], entries: list[Any]) -> Event:
        known = self._left_behind(state["username"])
        older: list[Message] = []
        halves: list[int] = []
        unreleased: list[tuple[int, bytes]] = []
        flying: list[in_flight.Flying] = []
        wanted: list[list[object]] = []
        revised = state["revised"]
        if known is not None:
            note_successor(known, state["moves"], self._ownership.node)
            # Superseded, and older than what comes.
            given = transfer.is_given(known, state["moves"])
            older = transfer.left_of(known, given=given)
            move = self._home.sources.move_of(known)
            # One that moved completely waits only for what was sent before.
            self._listened = not given and (move is None or not move.complete)
            if move is not None and move.token:
                self._left, self.tokens = move, [self.token, move.token]
                self._home.marks.listen(move.token, self.marked)
            same = known.born == state["born"]
            if not given and (same or not state["clean"]):
                # The client cannot tell its sessions apart, whichever it began to publish or take one in.
                halves = in_flight.halves_of(known)
                unreleased = transfer.unreleased_in(known)
                if known.version == state["version"]:
                    # So what is in flight keeps the packet identifier under which the client may have it.
                    flying = in_flight.flying_in(known)
            if same:
                revised = max(revised, known.revised)
            if revised > state["revised"] or (not given and not same and not state["clean"]):
                wanted = list(transfer.subscriptions_in(known))
            if known.once is not None:
                # What went with a move from here is among what comes, and the client has not had it.
                known.once.release(message.id for message in transfer.left_of(known, given=False))
                self.known.load(known.once.dump())
            self._table.end(known, None)
        session = self._session = self._table.create(self._client_id, state["expiry"])
        transfer.resemble(session, state)
        session.revised = revised
        session.gate = self._admit
        self._above = state["epoch"]
        queued = transfer.install(session, entries, self._fanout.now())
        if revised > state["revised"] or (wanted and not session.subscriptions):
            # Its client changed them here later, or never saw that the session is new: it believes to have
            # the subscriptions that it had here.
            theirs = [name for name in session.subscriptions if not name.startswith("$share/")]
            self._theirs = [body_of(name) for name in theirs]
            for name in list(session.subscriptions):
                session.unsubscribe(name)
            transfer.install(session, wanted, self._fanout.now())
        older = in_flight.fly_on(session, flying, older)
        session.end_halves(halves)
        transfer.know(session, unreleased)
        self._older = list(transfer.packed(older, session, self._fanout.now()))
        self._before = queued
        self._pending = transfer.pending_of(state)
        self._routed = self._table.subscribe_again(session)
        if self._routed is not None:
            await self._router.visible(self._routed)
        return moves.Installed()

    def _left_behind(self, username: str | None) -> Session | None:
        """Return the superseded session here if it is this user's; end another user's."""
        known = self._table.sessions.get(self._client_id)
        if known is None or self._table.belongs(known, username):
            return known
        self._fanout.dropped("session_superseded", len(known.inflight) + len(known.queue))
        self._table.end(known)
        return None

    def _admit(self, item: Item) -> bool:
        origin = self._fanout.where()
        if self._machine.admits(origin):
            return True
        if self._left is not None and origin is not None and self._left.admits(origin):
            # Sent before the session moved from here, and late: no other node has it.
            self._older.append(item)
            return False
        assert self._session is not None  # noqa: S101 - it is of its gate
        self._aside.append((origin, item, len(self._session.queue)))
        return False

    async def _send_marks(self) -> Event:
        # This node's own mark is among those that the source waits for.
        self._asked = [self._ownership.node, *self._distribution.nodes()]
        return moves.MarksSent(await self._home.marks.ask(self.token, self._machine.source, self._routed))

    async def _ask_release(self, node: str) -> list[Item] | None:
        parts = await self._call(node, "mqtt.release", self._asked)
        if not isinstance(parts, int):
            # What the source could not send is among what was set aside here.
            return None
        entries = await self._pull(node, parts)
        if entries is None:
            return None
        return transfer.rest_of(entries, self.known, self._fanout.now())

    async def _commit(self, rest: list[Item] | None) -> Event:
        session = self._session
        assert session is not None  # noqa: S101 - it was installed
        session.gate = None
        # Messages that were set aside are queued if the source may not have them: it did not answer, their
        # node's mark came there but not here, or only the superseded session here had routes.
        marked = self._machine.marked if rest is not None and not self._listened else ()
        aside = [
            (item, place, origin not in marked or self._is_ours(item)) for origin, item, place in self._aside
        ]
        since = transfer.in_order(rest or [], session.queue, aside)
        queued = transfer.behind(self._older, [*self._before, *since])
        session.refill(transfer.distinct(queued, in_flight.ids_in_flight(session)))
        if self.known:
            transfer.forget(session, self.known)
        for item in session.queue:
            session.admits_item(item)
        if rest is not None:
            session.moves = (*session.moves[1 - REMEMBERED_MOVES :], self.token)
        session.epoch = max(self._stamp, self._above + 1)
        # Should this node die before the source has let go, the source still has all of it.
        session.given = EVERYTHING
        self._table.revive(session, self._pending)
        if session.store is not None:
            await session.store.disc.settled()
        return moves.Committed()

    def _is_ours(self, item: Item) -> bool:
        """Return whether the source had no filter for a message."""
        if self._theirs is None or self._session is None:
            return False
        topic = in_flight.inside_of(self._session, topic_in(item[0])).decode()
        return not any(matches(topic_filter, topic) for topic_filter in self._theirs)

    async def _call(self, node: str, function: str, *args: object) -> object:
        """Call a function of the source; return its result, or :data:`NO_ANSWER`."""
        answer = await remote.call(node, function, self._client_id, self.token, *args, timeout=CALL_TIMEOUT)
        return answer.value if isinstance(answer, remote.Returned) else NO_ANSWER

    async def _pull(self, node: str, parts: int) -> list[Any] | None:
        entries: list[Any] = []
        for number in range(parts):
            part = await self._call(node, "mqtt.part", number)
            if not isinstance(part, list):
                return None
            entries += part
        return entries
