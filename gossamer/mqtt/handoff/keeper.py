"""Keeper of hints for the persistent sessions of other nodes that are away: who is away, and who is back.

The router gives what comes (:class:`gossamer.routes.forwarding.nodes.Keeper`), and it is kept in ``spools``.
Which of these it is not for any more, since they moved, ``departures`` knows.

Which filters nodes that are away have persistent sessions for stands in the journal too, so that this node
goes on keeping for them after a restart. Nothing here waits on the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import structlog

from gossamer.mnesia_like import Journal
from gossamer.mqtt.flow.commits import Soon
from gossamer.mqtt.handoff.departures import Departures
from gossamer.mqtt.handoff.hint_journal import OnSafe
from gossamer.mqtt.handoff.hints import MOVED_LIMIT, NO_END, Kept, Moved, is_for
from gossamer.mqtt.handoff.spools import Spools
from gossamer.mqtt.messages.records import MOVE_MARK, walk
from gossamer.mqtt.session.qos2 import Block
from gossamer.routes import Router

log = structlog.get_logger(__name__)


class Keeping:
    """Keeps messages for the persistent sessions of nodes that are away, and delivers them in order.

    ``clients(peer)`` says whose sessions a node has, ``claims(client)`` which nodes are known to claim a
    client's, ``session(peer)`` under which number a node knows its session with this one.
    """

    def __init__(
        self,
        spools: Spools,
        *,
        routes: Router,
        identity: str,
        soon: Soon,
        clients: Callable[[str], Iterable[str]],
        claims: Callable[[str], Mapping[str, int]],
        session: Callable[[str], int],
    ) -> None:
        self.identity = identity
        """Tells the numbers of this node's entries from those of a namesake that has lost its disc."""
        self.spools = spools
        spools.live = self._live
        self._routes = routes
        self._soon = soon
        self._clients = clients
        self._session = session
        self._journal = spools.journal
        self.wanted = self._journal.wanted
        self.departures = Departures(
            spools.by_peer, clients=clients, claims=claims, changed=spools.note_moved
        )
        self._sessions: dict[str, int] = {}
        self._creations: dict[str, int] = {}
        """In which creation nodes were that are away."""
        self._up: set[str] = set()
        self._rounds: Counter[str] = Counter()
        self._fresh: set[str] = set()
        """Nodes that are up and have not said yet which sessions they have."""

    # -- what the router tells

    def up(self, peer: str) -> bool:
        """A node is back, or new."""
        self._up.add(peer)
        self._rounds[peer] += 1
        spool = self.spools.of(peer)
        # Known now, and not any more when it goes.
        self._sessions[peer] = self._session(peer)
        if spool.state == "live":
            # What it has now is what it has lost if it comes back with something else.
            self._fresh.add(peer)
            self.spools.ask(peer)
            return True
        self.spools.do(peer, spool.up())
        return False

    def down(self, peer: str, creation: int) -> None:
        """A node is away; ``creation`` is the one that went."""
        self._up.discard(peer)
        self._fresh.discard(peer)
        spool = self.spools.of(peer)
        self.departures.away(peer)
        # What it had in this creation, or before, is what is kept for.
        self._creations.setdefault(peer, creation)
        self._journal.node(peer, self.sessions_of(peer))
        self.spools.do(peer, *spool.down())
        # Behind what was on its way, which may have come before or after the client went.
        self._soon(partial(self.departures.guess, peer))

    def gone(self, peer: str) -> None:
        """A node will not come back."""
        self.departures.rejoined(peer)
        self._up.discard(peer)
        self._fresh.discard(peer)
        if self.spools.gone(peer):
            self._forget(peer)
            self._journal.node(peer, None)

    def take(self, peer: str, record: bytes, on_safe: OnSafe) -> None:
        """Records of QoS 1 and 2 for a node that is away, or on its way back."""
        spool = self.spools.of(peer)
        if spool.state == "away" and record[:1] == MOVE_MARK:
            self._soon(partial(on_safe, True))
            return
        self.spools.add(peer, record, [on_safe])

    def left(self, peer: str, number: int, records: bytes, waiting: list[OnSafe]) -> int:
        """Keep what a node had not acknowledged; count what no persistent session there wants."""
        wanted: list[bytes] = []
        others = 0
        for qos, topic, record in walk(records):
            if qos and self._routes.awaits(peer, topic):
                wanted.append(record)
            else:
                others += bool(qos)
        if not wanted:
            for on_safe in waiting:
                self._soon(partial(on_safe, True))
            return others
        session = self._sessions.get(peer, 0) if number else 0
        self.spools.add(peer, b"".join(wanted), waiting, session=session, frame=number)
        return others

    # -- what nodes say

    async def greeting(self, peer: str) -> tuple[str, int, Moved, dict[str, list[Block]]]:
        """Return what to send to a node that is asked: who keeps, how much waits, which numbers are not for a
        client, and what a client is known to have had of the others."""
        spool = self.spools.of(peer)
        if not spool.waiting:
            return self.identity, 0, {}, {}
        return self.identity, spool.waiting, *await self.departures.not_for(peer)

    def answered(
        self, peer: str, turn: int, sessions: tuple[str, int], taken: int, frames: Mapping[int, int]
    ) -> None:
        """A node has said what it has; ``turn`` is what :meth:`asking` said when it was asked.

        ``sessions``: which those are, and in which creation of the node they began.
        """
        spool = self.spools.of(peer)
        if self.asking(peer) != turn:
            return
        generation, born = sessions
        self._fresh.discard(peer)
        renewed = born > self._creations.get(peer, born)
        self.spools.answered(peer, generation, taken, frames, renewed=renewed)
        # Until it goes again.
        self._creations.pop(peer, None)
        self._journal.node(peer, [generation, 0])
        self.spools.settle(peer, spool)

    @property
    def anybody_away(self) -> bool:
        """Return whether a node is away, or has not been given everything yet."""
        return bool(self.departures.had)

    def awaits_others(self, peer: str) -> bool:
        """Return whether others than ``peer`` are away."""
        return any(other not in self._up for other in self.departures.had if other != peer)

    def keep_elsewhere(
        self, peer: str, owner: str, clients: Moved, taken: int, frames: Mapping[int, int]
    ) -> bool:
        """Keep for ``owner``, which is away too, what ``peer`` lacks and is for sessions that have moved to
        that; False: it is not away, as far as is known here, and can be given that itself.

        ``clients``: whose sessions they are, and which numbers of ``peer`` are not for them.
        """
        spool = self.spools.of(owner)
        if spool.state != "away":
            return owner not in self._up
        lacking = [
            kept
            for kept in self.spools.of(peer).lacking(taken, frames)
            if kept.records[:1] != MOVE_MARK
            and any(is_for(client_id, kept.number, clients) for client_id in clients)
        ]
        # Other sessions there have had it, or it is older than they are.
        others = (client_id for client_id in self._clients(owner) if client_id not in clients)
        not_for = dict.fromkeys(islice(others, MOVED_LIMIT), (0, NO_END))
        self.spools.do(owner, *spool.adopt(lacking, {**clients, **not_for}))
        return True

    # -- nodes that went while this one was away

    def sessions_of(self, peer: str) -> list[object]:
        """Which sessions a node that is away had, in which creation, and whose, as far as is known."""
        creation = self._creations.get(peer, 0)
        return [self.spools.of(peer).generation, creation, *self.departures.remembered(peer)]

    def absent(self) -> Iterator[tuple[str, list[object], list[str], bool]]:
        """The nodes that are away: which sessions they had, in which creation and whose, as far as is known;
        whose are elsewhere now; and whether this node has seen that itself."""
        for peer in list(self.departures.had):
            # Time may pass between one and the next.
            if peer not in self._up and peer in self.departures.had:
                yield peer, self.sessions_of(peer), *self.departures.elsewhere(peer)

    def learned(
        self, peer: str, sessions: list[Any], moved: list[str], filters: list[str], *, seen: bool
    ) -> None:
        """Another node knows this one to be away, as :meth:`absent` says, and that it wants these filters."""
        if peer in self._up:
            return
        if self.spools.of(peer).state == "live":
            self._begins_away(peer, sessions)
        self.departures.learned(peer, sessions[2:], moved, seen=seen)
        self._routes.expect(peer, filters)
        for topic_filter in filters:
            self.wanted(peer, topic_filter, True)
        self._journal.node(peer, self.sessions_of(peer))

    # -- handed over where a node leaves

    def adopt(
        self, peer: str, sessions: list[Any], hints: list[list[Any]], moved: Moved, on_safe: OnSafe
    ) -> bool:
        """Keep what another node has kept for ``peer``; False: that is not away, as far as is known here."""
        spool = self.spools.of(peer)
        if peer not in self._up and spool.state == "live":
            self._begins_away(peer, sessions)
            self._routes.expect(peer, ())
        if spool.state != "away":
            return False
        adopted = [self._journal.read(number, row) for number, *row in hints]
        self.spools.do(peer, *spool.adopt(adopted, moved))
        self._journal.when_safe([on_safe])
        return True

    def asking(self, peer: str) -> int:
        """The number of the return for which a node has still to answer; 0: for none."""
        spool = self.spools.by_peer.get(peer)
        waits = spool is not None and (spool.state == "asking" or peer in self._fresh)
        return self._rounds[peer] if waits and peer in self._up else 0

    # -- the disc

    def restore(self, journal: Journal, rows: Mapping[object, object]) -> None:
        """Keep on disc from now on; ``rows`` are what it had."""
        self.identity, found = self._journal.restore(journal, rows, self.identity)
        for peer, restored in found.items():
            self._begins_away(peer, restored.node, restored.entries, restored.moved)
            self._routes.expect(peer, restored.filters)
            if peer in self._up:
                self.spools.do(peer, self.spools.of(peer).up())
        if entries := sum(len(restored.entries) for restored in found.values()):
            log.info("kept_messages_restored", entries=entries)

    def tick(self, *, has_left: Callable[[str], bool]) -> None:
        """Call it about once a second. ``has_left(peer)``: it left permanently, perhaps unseen."""
        for peer, spool in list(self.spools.by_peer.items()):
            if peer in self._up:
                self.spools.settle(peer, spool)
            elif has_left(peer):
                self._routes.live(peer)
                self.gone(peer)
        self.spools.tick()

    # -- inside

    def _begins_away(
        self, peer: str, sessions: list[Any], entries: Iterable[Kept] = (), moved: Moved | None = None
    ) -> None:
        """A node went in a former creation of this one, before it came, or was seen by another alone."""
        generation, creation, *had = sessions
        self.departures.restored(peer, had[0] if had else None)
        if creation:
            self._creations[peer] = creation
        self.spools.of(peer).restore(entries, generation, moved or {})
        self._journal.node(peer, sessions)

    def _live(self, peer: str) -> None:
        self._forget(peer)
        self._routes.live(peer)

    def _forget(self, peer: str) -> None:
        self.departures.forget(peer)
        self._creations.pop(peer, None)
