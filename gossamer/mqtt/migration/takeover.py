"""Takeover: sessions follow their client from node to node. The interface to admission and to other nodes.

``machines`` decides how a session moves; ``source`` and ``target`` are its two sides; ``ownership`` has the
claims. Where there was no move, since a node was down or cut off while its client went elsewhere, the
session is left to ``superseded``.

Rule: a node that sees a higher claim than its own gives the session up, at once or, where its client is
connected, as soon as it knows that a later connection is behind that claim (``claims``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from gossamer.distribution import Distribution
from gossamer.distribution import rpc as remote
from gossamer.errors import UnavailableError
from gossamer.mnesia_like import Change, OwnedTable
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.messages.records import MOVE_MARK
from gossamer.mqtt.migration.adopted import HANDED, TAKEN
from gossamer.mqtt.migration.adoption import HAS, MISSES, Adoptions
from gossamer.mqtt.migration.claims import FOREIGN, MOVES, SERVES, Claimant, Contests, Fetched
from gossamer.mqtt.migration.machines import MARK
from gossamer.mqtt.migration.ownership import Ownership
from gossamer.mqtt.migration.source import Sources
from gossamer.mqtt.migration.successors import Successors
from gossamer.mqtt.migration.superseded import SupersededSessions
from gossamer.mqtt.migration.target import Targets
from gossamer.mqtt.session.qos2 import Block, Once
from gossamer.mqtt.session.transfer import forget, rightful

if TYPE_CHECKING:
    from gossamer.mqtt.handoff.hinted_handoff import HintedHandoff
    from gossamer.mqtt.publish.core import Core

KICK = "mqtt.kick"
"""Name of :meth:`SessionTable.kick` for other nodes."""
CALL_TIMEOUT = 5.0


class KickError(UnavailableError):
    """A client is on none of the nodes that answered."""

    def __init__(self, *, client_id: str, silent: Sequence[str]) -> None:
        self.client_id = client_id
        self.silent = tuple(silent)
        super().__init__(
            f"client {client_id!r}: not found, and {', '.join(silent)} did not answer; try again once they do"
        )


class Takeovers:
    """Moves sessions from and to this node.

    ``rows`` are the claims: epochs, by client and node.
    """

    def __init__(
        self, core: Core, rows: OwnedTable, distribution: Distribution, handoff: HintedHandoff
    ) -> None:
        self._node = distribution.runtime.node
        self._distribution = distribution
        self._handoff = handoff
        self._table, self._router = core.table, core.router
        spawn = distribution.runtime.spawn
        self.ownership = owners = Ownership(core, rows, distribution, handoff)
        self._sources = sources = Sources(core, owners, distribution)
        self.contests = contests = Contests(
            core, owners, sources, spawn, self._claimant, asks=self._has_copies
        )
        self._targets = Targets(core, owners, sources, contests, distribution, handoff, mark=self.mark)
        self.superseded = SupersededSessions(
            core, owners, sources, handoff, distribution, asks=self._has_copies
        )
        self.successors = Successors(
            core, is_leaving=self.superseded.has, is_moving=self.is_moving, delivered=self.delivered
        )
        self.adoptions = Adoptions(core, owners, self._targets, distribution, handoff, self.successors)
        self.ownership.check = self._check
        self._sources.on_done = self.superseded.end
        self.own, self.establish = self.ownership.own, self.ownership.establish
        self.claims = self.ownership.claims

    def _has_copies(self) -> bool:
        return self.adoptions.copies is not None

    def offer(self, functions: dict[str, Callable[..., object]]) -> None:
        """Add the functions that other nodes call."""
        functions["mqtt.freeze"] = self._freeze
        functions["mqtt.part"] = self._sources.part
        functions["mqtt.release"] = self._sources.release
        functions[MARK] = self.mark
        functions["mqtt.end"] = self._end
        functions[HAS] = self.adoptions.has
        functions[MISSES] = self.adoptions.misses
        functions[HANDED] = self._handoff.handed
        functions[TAKEN] = self._taken
        functions[MOVES] = self._moves
        functions[SERVES] = self.contests.serves
        functions[KICK] = self._table.kick
        functions.update(self.successors.functions)
        functions.update(self.ownership.functions)
        functions["mqtt.fetch"] = self._fetch

    # -- location

    def elsewhere(self, client_id: str, *, clean: bool, lasts: bool) -> bool:
        """Return whether a client may have a session elsewhere, or one here that is moving or superseded;
        ``clean``: any claim of another node counts, not only a higher one; ``lasts``: it asks for a
        persistent one."""
        if self._move_of(client_id) is not None or self.superseded.has(client_id):
            return True
        if self.adoptions.is_due(client_id, clean=clean, lasts=lasts):
            return True
        return bool(self.ownership.rows(client_id) if clean else self.ownership.better(client_id))

    def is_moving(self, client_id: str) -> bool:
        """Return whether a session is moving, here or away: what is queued now may come too late."""
        return self._targets.is_open(client_id) or self._sources.gives(client_id)

    def delivered(self, client_id: str, had: Iterable[Block]) -> None:
        """Note QoS 2 messages that a client has had from a session of another node."""
        incoming, session = self._targets.get(client_id), self._table.sessions.get(client_id)
        if incoming is not None:
            incoming.known.load(had)
        elif self._sources.gives(client_id):
            self._sources.delivered(client_id, had)
        elif session is not None and session.expiry:
            forget(session, Once.of(had))

    def _move_of(self, client_id: str) -> asyncio.Event | None:
        """Return the event that is set once a session's move is over; None: it is not moving."""
        if (adopted := self.adoptions.over(client_id)) is not None:
            return adopted
        incoming = self._targets.get(client_id)
        if incoming is not None:
            return incoming.over
        return self._sources.over(client_id) if self._sources.gives(client_id) else None

    def _claimant(self, client_id: str) -> Claimant | None:
        """Return the open connection that waits for a session on its way here, or looked for, if any."""
        incoming = self._targets.get(client_id)
        claimant = self.adoptions.claimant(client_id) if incoming is None else incoming.claimant
        return None if claimant is None or claimant.is_closed else claimant

    def disown(self, client_id: str) -> None:
        """Withdraw the claim to a session that has ended."""
        self._sources.forget(client_id)
        self.ownership.disown(client_id)

    def changed(self, change: Change) -> None:
        """Give up sessions of this node to which another one has made a higher claim."""
        if change.owner != self._node:
            for client_id in change.written:
                self._check(client_id)

    def _check(self, client_id: str) -> None:
        found = self.ownership.claims(client_id)
        mine = found.get(self._node)
        owner = rightful(found)
        if mine is not None and owner is not None and owner != self._node:
            session = self._table.sessions.get(client_id)
            # One that is being put together here has no claim yet, whatever an older row says.
            if session is not None and self._targets.get(client_id) is None:
                if session.channel is None:
                    self._sources.supersede(session, owner)
                else:
                    self.contests.begin(session)

    def node_down(self, node: str) -> None:
        """End the moves from and to a node that is down."""
        self._sources.node_down(node)
        self._targets.node_down(node)

    # -- calls of other nodes

    async def _freeze(
        self,
        client_id: str,
        token: str,
        target: str,
        stamp: int,
        age: float,
        insist: bool,
        user: list[str | None],
    ) -> dict[str, object] | str | None:
        session = self._table.sessions.get(client_id)
        none = "outbid" if self.ownership.is_outbid(client_id) else None
        if session is None:
            return none
        if user and not self._table.belongs(session, user[0]):
            return FOREIGN
        if self._targets.get(client_id) is not None:
            return "busy"
        standing = self.contests.standing(client_id, age, insist=insist)
        if standing:
            return standing
        if not session.expiry:
            # It ends with its connection, and that ends now ([MQTT-3.1.4-3]).
            if session.channel is not None:
                session.channel.disconnect(ReasonCode.SESSION_TAKEN_OVER)
            self._table.end(session)
            return "ended"
        answer = await self._sources.freeze(session, token, target, stamp)
        return none if answer == "none" else answer

    def _taken(self, client_id: str, node: str) -> bool:
        self._handoff.keeper.departures.handed(node, client_id)
        return True

    def _moves(self, client_id: str) -> list[str] | None:
        session = self._table.sessions.get(client_id)
        return None if session is None or self.is_moving(client_id) else list(session.moves)

    def mark(self, token: str, source: str, target: str) -> bool:
        """Send marks to both sides of a move, in the streams of messages to them; ``source`` is blank where
        there is none. False, and none sent: this node has just come up, and has not met both."""
        forwarders = self._router.forwarders()
        mark = MOVE_MARK + bytes((len(token.encode()),)) + token.encode()
        sides = [node for node in (source, target) if node]
        if self._node in sides:
            sides.remove(self._node)
            self.marked("", token)
        if any(node not in forwarders for node in sides):
            return False
        for node in sides:
            forwarders[node].append_acked(mark, lambda _safe: None)
        return True

    def marked(self, origin: str, token: str) -> None:
        """Take the mark ``token`` of ``origin`` (blank: this node): all that it sent before is here."""
        self._sources.marked(origin, token)
        self._targets.marks.marked(origin, token)
        self.superseded.marked(origin, token)

    # -- clean starts, and kicks

    async def _end(self, client_id: str, age: float, insist: bool, user: list[str | None]) -> bool | str:
        session = self._table.sessions.get(client_id)
        if session is None:
            return False
        if user and not self._table.belongs(session, user[0]):
            return FOREIGN
        standing = self.contests.standing(client_id, age, insist=insist)
        if standing:
            return standing
        await self._table.end_clean(client_id)
        return True

    async def kick(self, client_id: str) -> bool:
        """End a client's connection and session, wherever they are; False where no node has them.

        All nodes are asked, not only the one that claims the session: it may be on its way.

        Raises:
            KickError: it was found nowhere, but not every node has answered.
        """
        kicked = self._table.kick(client_id)
        answers = await remote.multicall(self._distribution.nodes(), KICK, client_id, timeout=CALL_TIMEOUT)
        silent = [node for node, answer in answers.items() if not isinstance(answer, remote.Returned)]
        kicked = kicked or any(
            isinstance(answer, remote.Returned) and answer.value is True for answer in answers.values()
        )
        if silent and not kicked:
            raise KickError(client_id=client_id, silent=silent)
        return kicked

    # -- fetching

    async def fetch(
        self, client_id: str, *, clean: bool, lasts: bool = True, claimant: Claimant | None = None
    ) -> Fetched:
        """Move the session of a client here, or with ``clean`` end it at every other node.

        Returns ``elsewhere`` where it stays, since a later connection is there or ``claimant`` has closed;
        ``foreign`` where it is another user's; ``unavailable`` where a quorum must confirm that there is no
        better one, and does not; otherwise ``here``, also if there is none.
        """
        while (moving := self._move_of(client_id)) is not None:
            # Others may have waited for its end too, and begun the next move.
            await moving.wait()
        if clean:
            fetched = await self._end_elsewhere(client_id, claimant)
            if fetched == "here" and self.adoptions.is_due(client_id, clean=True, lasts=lasts):
                fetched = await self.adoptions.discard(client_id, claimant)
            return fetched
        while True:
            if self.ownership.better(client_id):
                fetched = await self._targets.take(client_id, claimant)
                moved = client_id in self._table.sessions and not self.superseded.has(client_id)
                if fetched != "here" or (moved and not self.adoptions.is_strict):
                    return fetched
            if not self.adoptions.is_due(client_id, clean=False, lasts=lasts):
                break
            # The node that had it is down, or went down meanwhile.
            adopted = await self.adoptions.take(client_id, claimant)
            if adopted in (FOREIGN, "unavailable"):
                return adopted
            if (moving := self._move_of(client_id)) is not None:
                # It went from here meanwhile, where nobody had it yet.
                await moving.wait()
            elif adopted != "elsewhere":
                break
        if (left := self.superseded.reclaim(client_id)) is not None:
            # The node that claimed it is away: what is here of it is the best there is. Its client has begun
            # another one since, and must not go on here with what it published there. With its old claim it
            # would be superseded again before its client is served.
            left.former = True
            for packet_id in list(left.incoming):
                left.release(packet_id)
            self.ownership.outbid(left)
            await self._router.visible(self._sources.keep(left))
        return "here"

    async def _end_elsewhere(self, client_id: str, claimant: Claimant | None) -> Fetched:
        rows, user = self.ownership.rows, self.contests.user_of(claimant)
        for insist in (False, True):
            age = self.contests.age(claimant)
            answers = await remote.multicall(
                rows(client_id), "mqtt.end", client_id, age, insist, user, timeout=CALL_TIMEOUT
            )
            said = {answer.value for answer in answers.values() if isinstance(answer, remote.Returned)}
            if FOREIGN in said:
                return FOREIGN
            if "newer" in said or ("served" in said and claimant is not None and claimant.is_closed):
                return "elsewhere"
            if "served" not in said:
                break
        return "here"

    async def _fetch(self, client_id: str) -> bool:
        """Fetch a session before its client comes, for a node that is draining; return whether it is here."""
        if self._targets.get(client_id) is None:
            await self.fetch(client_id, clean=False)
        return client_id in self._table.sessions
