"""Hinted handoff wired into a node: both sides of it.

``keeper`` keeps hints for other nodes, in ``hint_store``; ``replay`` takes those that others kept for this
one. A node that is back is greeted with the number of messages that wait for it, and answers how far it got.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from gossamer.distribution import Distribution, Gathered
from gossamer.distribution import rpc as remote
from gossamer.mnesia_like import Change, OwnedTable, Store
from gossamer.mqtt.handoff.absences import Absences
from gossamer.mqtt.handoff.following import Following
from gossamer.mqtt.handoff.hint_journal import HintJournal
from gossamer.mqtt.handoff.hint_store import HintStore
from gossamer.mqtt.handoff.hint_transfer import HintTransfer
from gossamer.mqtt.handoff.keeper import HintKeeper
from gossamer.mqtt.handoff.replay import HintReplay
from gossamer.mqtt.publish.recording import report_lost
from gossamer.mqtt.session.transfer import had_from, matching, rightful

if TYPE_CHECKING:
    from gossamer.config import MqttSessionsConfig
    from gossamer.gossip import MembershipView
    from gossamer.mqtt.publish.core import Core
    from gossamer.mqtt.session.qos2 import Block
    from gossamer.mqtt.session.session import Session

log = structlog.get_logger(__name__)

GREET = "mqtt.kept"
SETTLED = "mqtt.settled"
PING = "mqtt.ping"
PING_TIMEOUT = 0.5
ANSWER_TIMEOUT = 5.0
RETRY_INTERVAL = 0.25
SUBSCRIBE_TIMEOUT = 2.0
"""Seconds after its first SUBACK that the client of a new session has to send its other SUBSCRIBE packets."""
_TABLES = ("routes", "sessions")
"""Tables whose rows of a node must be here before that node is greeted."""


class HintedHandoff:
    """Greets nodes that are back and exchanges hints with each. There is one in each creation of a node."""

    def __init__(
        self,
        core: Core,
        store: Store,
        distribution: Distribution,
        members: MembershipView,
        config: MqttSessionsConfig,
    ) -> None:
        fanout, router, wall = core.fanout, core.router, core.clock.wall
        self._fanout, self._table = fanout, core.table
        self._runtime = distribution.runtime
        self._store = store
        self._distribution = distribution
        self._node = distribution.runtime.node
        self._sessions: OwnedTable | None = None
        self._following: Following | None = None
        self.gathered = Gathered(distribution.runtime.spawn)
        """Calls for sessions that move, of which there may be thousands at once."""
        self._greeting: set[str] = set()
        self._settling: dict[str, Session] = {}
        """By client, the session for which it still has time to subscribe."""
        creation = distribution.runtime.creation
        born = f"{self._node} {creation} {wall():.6f}"
        self.replay = HintReplay(core, generation=born, creation=creation)
        self.hint_store = HintStore(
            HintJournal(now=fanout.now, wall=wall, soon=self._soon),
            router,
            first=creation << 20,
            now=fanout.now,
            wall=wall,
            limit=config.away_messages,
            max_bytes=config.away_bytes,
            keep_oldest=config.overflow == "drop_newest",
            loaded=self._loaded,
            ask=self._ask,
            lost=partial(report_lost, fanout),
        )
        self.keeper = HintKeeper(
            self.hint_store,
            routes=router,
            identity=born,
            soon=self._soon,
            clients=self._clients,
            claims=self._claims_of,
            session=distribution.session_at,
        )
        self._members = members
        self.absences = Absences(self.keeper, router, distribution, members)
        self.transfer = HintTransfer(self.keeper, distribution, has_left=self._has_left)
        self._keeps = config.away_messages > 0
        self.replay.over = self.keeper.departures.rejoined
        if self._keeps:
            router.keep_with(self.keeper)

    async def learned(self, peers: Iterable[str]) -> None:
        """Wait until these nodes have answered which others are away, and with which filters."""
        if self._keeps:
            await self.absences.learned(peers)

    async def level(self, peer: str) -> bool:
        """Return whether a node answers now, and all its rows are here."""
        result = await remote.call(peer, PING, timeout=PING_TIMEOUT)
        return isinstance(result, remote.Returned) and self._loaded(peer)

    def begin(
        self,
        sessions: OwnedTable,
        functions: dict[str, Callable[..., object]],
        *,
        dismiss: Callable[[str], bool],
        is_moving: Callable[[str], bool],
        delivered: Callable[[str, Iterable[Block]], object],
    ) -> None:
        """Add the functions that other nodes call, and follow the claims in ``sessions``; called again after
        a restart. See :class:`Following` for ``dismiss`` and ``is_moving``; ``delivered(client, had)`` is
        called with QoS 2 messages that a client has had from another node."""
        self.replay.delivered = delivered
        functions[PING] = _pong
        self._sessions = sessions
        sessions.subscribe_batches(self._claimed)
        functions[GREET] = self.replay.asked
        self._following = Following(
            self._table,
            self.keeper,
            self._distribution,
            sessions,
            now=self._fanout.now,
            loaded=self._loaded,
            dismiss=dismiss,
            is_moving=is_moving,
            delivered=delivered,
        )
        functions |= self._following.functions
        functions |= self.transfer.functions
        functions |= self.absences.functions
        functions[SETTLED] = self._settled

    async def restore(self) -> None:
        """Read the hints on disc, and keep them there from now on."""
        journal, rows = await self._store.create_journal("mqtt_kept")
        self.keeper.restore(journal, rows)

    @property
    def anybody(self) -> bool:
        """Return whether a node is away for which hints may be kept."""
        return self.keeper.anybody_away

    @property
    def pending(self) -> bool:
        """Return whether hints may still be on their way here."""
        return self.replay.pending

    def had_one(self, client_id: str) -> bool:
        """Return whether a node that is away had a client's session, and no other is known to have it."""
        return self.keeper.departures.misses(client_id)

    async def handed(
        self, client_id: str, token: str, peer: str, after: int, filters: Iterable[str]
    ) -> tuple[list[tuple[int, bytes]], int]:
        """Return hints of a node that is away for a client whose session, with these filters, goes on
        elsewhere by the move ``token``; see :meth:`HintKeeper.handed`."""
        return await self.keeper.handed(peer, client_id, token, after, matching(filters))

    def node_up(self, peer: str) -> None:
        """Expect the greeting of a node that is up, and ask it which others are away."""
        self.replay.node_up(peer)
        if self._keeps:
            self.absences.node_up(peer)

    def node_down(self, peer: str) -> None:
        """Note which sessions were here when a node went down: hints that it keeps may be for them."""
        if self._keeps and not self._has_left(peer):
            self.keeper.departures.parted(peer, self._clients(self._node))
        self.replay.node_down(peer)
        self.absences.node_down(peer)

    def subscribed(self, client_id: str) -> None:
        """Settle a session that began here once its client, which has subscribed, had time for the rest."""
        session = self._table.sessions.get(client_id)
        if session is not None and self.keeper.anybody_away and self._settling.get(client_id) is not session:
            self._settling[client_id] = session
            self._runtime.loop.call_later(SUBSCRIBE_TIMEOUT, self._has_subscribed, session)

    def _has_subscribed(self, session: Session) -> None:
        if self._settling.get(session.client_id) is session:
            del self._settling[session.client_id]
        # Its client may have begun another one since, which is subscribed to nothing yet.
        if self._table.sessions.get(session.client_id) is session:
            self.settle(session, resumed=False)

    def settle(self, session: Session, *, resumed: bool = True) -> None:
        """Report to all nodes, while any is away, that a session here has all its routes: from now on hints
        of its client are for it alone. ``resumed``: it was there before.

        Reported any sooner, what is published in between would be for neither. The QoS 2 messages that the
        client of a new session has had so far go to the node that had it before, which may go on with its
        own session should this node die.
        """
        if self.keeper.anybody_away:
            had = [] if resumed else had_from(session)
            settled = session.client_id, self._node, session.epoch, resumed, had
            self._settled(*settled)
            for node in self._distribution.nodes():
                self.gathered.cast(node, SETTLED, *settled)

    def tick(self) -> None:
        """Do what is due. Call it about once a second."""
        self.keeper.tick(has_left=self._has_left)

    # -- inside

    def _soon(self, callback: Callable[[], None]) -> None:
        self._runtime.loop.call_soon(callback)

    def _has_left(self, peer: str) -> bool:
        member = self._members.get(peer)
        return member is not None and member.left

    def _ask(self, peer: str) -> None:
        if peer not in self._greeting:
            self._greeting.add(peer)
            self._runtime.spawn(self._greet, peer, label="mqtt_greeting")

    async def _greet(self, peer: str) -> None:
        try:
            while turn := self.keeper.asking(peer):
                if self._loaded(peer) and await self._greeted(peer, turn):
                    continue
                await asyncio.sleep(RETRY_INTERVAL)
        finally:
            self._greeting.discard(peer)

    async def _greeted(self, peer: str, turn: int) -> bool:
        identity, waiting, moved, had = await self.keeper.greeting(peer)
        if waiting and self._following is not None:
            # Before any hint: clients that were served on both sides of a cut have had some of them here.
            for client_id, blocks in self._following.had_here(self._clients(peer)).items():
                had[client_id] = [*had.get(client_id, ()), *blocks]
        greeting = identity, waiting, moved, had
        result = await remote.call(peer, GREET, self._node, *greeting, timeout=ANSWER_TIMEOUT)
        if not isinstance(result, remote.Returned):
            return False
        try:
            answer: Any = result.value
            (generation, born), taken, frames = answer
            sessions = str(generation), int(born)
            done = sessions, int(taken), {int(session): int(frame) for session, frame in frames}
        except (TypeError, ValueError):
            log.warning("greeting_not_understood", peer=peer)
            return False
        if self._following is not None and not await self._following.hand_on(peer, moved, *done[1:]):
            return False
        self.keeper.answered(peer, turn, *done)
        return True

    def _loaded(self, peer: str) -> bool:
        """Return whether all that a node's tables had when it came back is here."""
        for name in _TABLES:
            state = self._store.replication.tables.get(name)
            replica = None if state is None else state.replicas.get(peer)
            if replica is None or replica.purging or not replica.caught_up:
                return False
        return True

    def _clients(self, peer: str) -> Iterable[str]:
        return () if self._sessions is None else self._sessions.rows_of(peer)

    def _claims_of(self, client_id: str) -> Mapping[str, int]:
        return {} if self._sessions is None else self._sessions.read(client_id)

    def _claimed(self, change: Change) -> None:
        if self.keeper.anybody_away:
            for client_id in change.written:
                self.keeper.departures.claimed(client_id, rightful(self._claims_of(client_id)) or "")

    def _settled(self, client_id: str, owner: str, epoch: int, resumed: bool, had: list[Block]) -> None:
        """Take the report of a node, see :meth:`settle`; one that another claim has overtaken is ignored."""
        # A node that came back with a later claim has the client: what is kept for it is for that session.
        if all((other, node) <= (epoch, owner) for node, other in self._claims_of(client_id).items()):
            self.keeper.departures.settled(client_id, owner, resumed=resumed, had=had)


def _pong() -> bool:
    return True
