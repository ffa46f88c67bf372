"""Keeper of hints for the persistent sessions of other nodes: follows nodes that go away and come back.

The router passes the messages (:class:`gossamer.routes.forwarding.nodes.Keeper`), ``hint_store`` holds them.
``departures`` has the clients whose sessions moved, and for whom they are not any more.

The filters of persistent sessions on nodes that are away are in the journal too, so that this node goes on
keeping for them after a restart. Nothing here waits on the loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import structlog

from gossamer.mnesia_like import Journal
from gossamer.mqtt.flow.commits import Soon
from gossamer.mqtt.handoff.departures import Departures
from gossamer.mqtt.handoff.hint_journal import OnSafe
from gossamer.mqtt.handoff.hint_store import HintStore
from gossamer.mqtt.handoff.hints import MOVED_LIMIT, NO_END, Hint, Moved, is_for
from gossamer.mqtt.messages.records import MOVE_MARK, walk
from gossamer.mqtt.session.qos2 import Block
from gossamer.routes import Router

log = structlog.get_logger(__name__)

PAGE = 256 * 1024
"""Bytes of hints that are handed over in one answer, about."""
STEP = 200
"""Hints looked at in a turn of the loop."""


class HintKeeper:
    """Keeps messages for the persistent sessions of nodes that are away, and delivers them in order.

    ``clients(peer)`` returns the clients with a session on a node, ``claims(client)`` the epochs of all
    claims to a client's session by node, ``session(peer)`` the number of the link session with a node.
    """

    def __init__(
        self,
        hint_store: HintStore,
        *,
        routes: Router,
        identity: str,
        soon: Soon,
        clients: Callable[[str], Iterable[str]],
        claims: Callable[[str], Mapping[str, int]],
        session: Callable[[str], int],
    ) -> None:
        self.identity = identity
        """Distinguishes this node's entries from those of a namesake that has lost its disc."""
        self.hint_store = hint_store
        hint_store.live = self._live
        self._routes = routes
        self._soon = soon
        self._clients = clients
        self._session = session
        self._journal = hint_store.journal
        self.wanted = self._journal.wanted
        self.departures = Departures(
            hint_store.by_peer, clients=clients, claims=claims, changed=hint_store.note_moved
        )
        self._sessions: dict[str, int] = {}
        self._creations: dict[str, int] = {}
        """Creation in which each node went away."""
        self._marks: OrderedDict[str, int] = OrderedDict()
        """By token of a move, the number of the first hint behind its mark."""
        self._up: set[str] = set()
        self._rounds: Counter[str] = Counter()
        self._away_at: defaultdict[str, set[str]] = defaultdict(set)
        """By node that is up, those that it reported as away too."""
        self._fresh: set[str] = set()
        """Live nodes that are up and have not yet answered which sessions they have."""

    # -- events of the router

    def up(self, peer: str) -> bool:
        """Ask a node that is back, or new, what it has; return whether it is live, and forwarded to."""
        self._up.add(peer)
        self._rounds[peer] += 1
        hint_log = self.hint_store.of(peer)
        # Known now, but not any more when it goes down.
        self._sessions[peer] = self._session(peer)
        if hint_log.state == "live":
            # A node that comes back with another generation of sessions has lost these.
            self._fresh.add(peer)
            self.hint_store.ask(peer)
            return True
        self.hint_store.do(peer, hint_log.up())
        return False

    def down(self, peer: str, creation: int) -> None:
        """Begin to keep for a node that is away; ``creation`` is the one that went."""
        self._up.discard(peer)
        self._fresh.discard(peer)
        self._away_at.pop(peer, None)
        hint_log = self.hint_store.of(peer)
        self.departures.away(peer)
        # Hints are for sessions that began in this creation or before.
        self._creations.setdefault(peer, creation)
        self._journal.node(peer, self.sessions_of(peer))
        self.hint_store.do(peer, *hint_log.down())
        # Behind what was on its way, which may have come before or after the client went.
        self._soon(partial(self.departures.guess, peer))

    def gone(self, peer: str) -> None:
        """Drop all hints of a node that will not come back."""
        self.departures.rejoined(peer)
        self._up.discard(peer)
        self._fresh.discard(peer)
        self._away_at.pop(peer, None)
        if self.hint_store.gone(peer):
            self._forget(peer)
            self._journal.node(peer, None)

    def take(self, peer: str, record: bytes, on_safe: OnSafe) -> None:
        """Keep a record of QoS 1 or 2 for a node that is away, or on its way back."""
        hint_log = self.hint_store.of(peer)
        if hint_log.state == "away" and record[:1] == MOVE_MARK:
            self._marked(record[2 : 2 + record[1]].decode(errors="replace"), hint_log.next)
            self._soon(partial(on_safe, True))
            return
        self.hint_store.add(peer, record, [on_safe])

    def _marked(self, token: str, number: int) -> None:
        self._marks[token] = number
        while len(self._marks) > MOVED_LIMIT:
            self._marks.popitem(last=False)

    async def handed(
        self, peer: str, client_id: str, token: str, after: int, wanted: Callable[[bytes], int]
    ) -> tuple[list[tuple[int, bytes]], int]:
        """Return the hints behind number ``after`` for a client's session at a node that is away, each with
        its time of day in µs, and the number of the last that was looked at; 0: that was the last of all.

        They are those before the mark ``token``, behind which messages go to the node that has the session
        now. They are for that one alone once it has them (``Departures.handed``) and is settled there.
        """
        hint_log = self.hint_store.by_peer.get(peer)
        until = self._marks.get(token, NO_END)
        if hint_log is None or hint_log.state == "live":
            # It is up, as this node sees it.
            return [], 0
        found: list[tuple[int, bytes]] = []
        size = 0
        numbers = [number for number in hint_log.entries if after < number < until]
        for count, number in enumerate(numbers, 1):
            hint = hint_log.entries.get(number)
            if hint is not None and is_for(client_id, number, hint_log.moved):
                for record in self.hint_store.wanted(hint, wanted):
                    found.append(record)
                    size += len(record[1])
            if size >= PAGE:
                return found, number
            if count % STEP == 0:
                # Let other tasks run.
                await asyncio.sleep(0)
        return found, 0

    def left(self, peer: str, number: int, records: bytes, waiting: list[OnSafe]) -> int:
        """Keep the records of frame ``number`` (0: never sent) that a node had not acknowledged; return how
        many messages were not kept, since no persistent session there has a filter for them."""
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
        self.hint_store.add(peer, b"".join(wanted), waiting, session=session, frame=number)
        return others

    # -- greeting nodes that are back

    async def greeting(self, peer: str) -> tuple[str, int, Moved, dict[str, list[Block]]]:
        """Return the greeting for a node that is back: this keeper's identity, the number of messages that
        wait, by client the numbers that are not for it, and the QoS 2 messages that it has had."""
        hint_log = self.hint_store.of(peer)
        if not hint_log.waiting:
            return self.identity, 0, {}, {}
        return self.identity, hint_log.waiting, *await self.departures.not_for(peer)

    def answered(
        self, peer: str, turn: int, sessions: tuple[str, int], taken: int, frames: Mapping[int, int]
    ) -> None:
        """Take a node's answer, unless it went down since; ``turn`` is what :meth:`asking` returned then.

        ``sessions``: generation and first creation; ``taken``, ``frames`` as for :meth:`HintLog.answered`.
        """
        hint_log = self.hint_store.of(peer)
        if self.asking(peer) != turn:
            return
        generation, born = sessions
        self._fresh.discard(peer)
        renewed = born > self._creations.get(peer, born)
        self.hint_store.answered(peer, generation, taken, frames, renewed=renewed)
        # Until it goes again.
        self._creations.pop(peer, None)
        self._journal.node(peer, [generation, 0])
        self.hint_store.settle(peer, hint_log)

    @property
    def anybody_away(self) -> bool:
        """Return whether any node is away, or has not received all its hints yet."""
        return bool(self.departures.had)

    def awaits_others(self, peer: str) -> bool:
        """Return whether nodes other than ``peer`` are away."""
        return any(other not in self._up for other in self.departures.had if other != peer)

    def keep_elsewhere(
        self, peer: str, owner: str, clients: Moved, taken: int, frames: Mapping[int, int]
    ) -> bool:
        """Keep for ``owner``, which is away too, the hints of ``peer`` for ``clients``, whose sessions moved
        there, beyond ``taken`` and ``frames``; ``clients`` has the numbers that are not for each.

        True also where nothing is known of ``owner``. False: it is up, and can be sent the hints itself.
        """
        hint_log = self.hint_store.of(owner)
        if hint_log.state != "away":
            return owner not in self._up
        lacking = [
            hint
            for hint in self.hint_store.of(peer).lacking(taken, frames)
            if hint.records[:1] != MOVE_MARK
            and any(is_for(client_id, hint.number, clients) for client_id in clients)
        ]
        # Other sessions there have had it, or it is older than they are.
        others = (client_id for client_id in self._clients(owner) if client_id not in clients)
        not_for = dict.fromkeys(islice(others, MOVED_LIMIT), (0, NO_END))
        self.hint_store.do(owner, *hint_log.adopt(lacking, {**clients, **not_for}))
        return True

    # -- nodes that this one did not see go

    def sessions_of(self, peer: str) -> list[object]:
        """Return the row of a node that is away, as in :attr:`.hint_journal.Restored.node`."""
        creation = self._creations.get(peer, 0)
        return [self.hint_store.of(peer).generation, creation, *self.departures.remembered(peer)]

    def absent(self) -> Iterator[tuple[str, list[object], list[str], bool]]:
        """Yield each node that is away, its row, its clients that moved, and whether this node saw it go."""
        for peer in list(self.departures.had):
            # The consumer may await between one and the next.
            if peer not in self._up and peer in self.departures.had:
                yield peer, self.sessions_of(peer), *self.departures.elsewhere(peer)

    def learned(
        self, peer: str, sessions: list[Any], moved: list[str], filters: list[str], *, seen: bool, by: str
    ) -> None:
        """Take the report ``by`` another node of one that is away, as :meth:`absent` yields it, and of its
        filters."""
        self._away_at[by].add(peer)
        if peer in self._up:
            return
        if self.hint_store.of(peer).state == "live":
            self._begins_away(peer, sessions)
        self.departures.learned(peer, sessions[2:], moved, seen=seen)
        self._expect(peer, filters)
        self._journal.node(peer, self.sessions_of(peer))

    # -- handed over where a node leaves

    def adopt(
        self, peer: str, sessions: list[Any], hints: list[list[Any]], moved: Moved, on_safe: OnSafe
    ) -> bool:
        """Keep another node's hints; call ``on_safe`` once they are on disc. False: ``peer`` is not away."""
        hint_log = self.hint_store.of(peer)
        if peer not in self._up and hint_log.state == "live":
            self._begins_away(peer, sessions)
            self._routes.expect(peer, ())
        if hint_log.state != "away":
            return False
        adopted = [self._journal.read(number, row) for number, *row in hints]
        self.hint_store.do(peer, *hint_log.adopt(adopted, moved))
        self._journal.when_safe([on_safe])
        return True

    def asking(self, peer: str) -> int:
        """Return the number of the return for which a node has yet to answer; 0: for none."""
        hint_log = self.hint_store.by_peer.get(peer)
        waits = hint_log is not None and (hint_log.state == "asking" or peer in self._fresh)
        return self._rounds[peer] if waits and peer in self._up else 0

    # -- the disc

    def restore(self, journal: Journal, rows: Mapping[object, object]) -> None:
        """Keep on disc from now on; ``rows`` are those it has."""
        self.identity, found = self._journal.restore(journal, rows, self.identity)
        for peer, restored in found.items():
            self._begins_away(peer, restored.node, restored.entries, restored.moved)
            self._routes.expect(peer, restored.filters)
            if peer in self._up:
                self.hint_store.do(peer, self.hint_store.of(peer).up())
        if entries := sum(len(restored.entries) for restored in found.values()):
            log.info("kept_messages_restored", entries=entries)

    def tick(self, *, has_left: Callable[[str], bool]) -> None:
        """Call it about once a second. ``has_left(peer)``: it left permanently, perhaps unseen."""
        for peer, hint_log in list(self.hint_store.by_peer.items()):
            if peer in self._up:
                self.hint_store.settle(peer, hint_log)
            elif has_left(peer):
                self._routes.live(peer)
                self.gone(peer)
        self.hint_store.tick()

    # -- inside

    def _begins_away(
        self, peer: str, sessions: list[Any], entries: Iterable[Hint] = (), moved: Moved | None = None
    ) -> None:
        """Begin to keep for a node that this one did not see go; ``sessions`` as :meth:`sessions_of`."""
        generation, creation, *had = sessions
        self.departures.restored(peer, had[0] if had else None)
        if creation:
            self._creations[peer] = creation
        self.hint_store.do(peer, *self.hint_store.of(peer).restore(entries, generation, moved or {}))
        self._journal.node(peer, sessions)

    def _live(self, peer: str) -> None:
        self._forget(peer)
        left = self._routes.live(peer)
        for other in self.departures.had:
            if other not in self._away_at[peer]:
                # A session may have gone there meanwhile, and its node is not back yet, or its rows are not.
                self._expect(other, left)

    def _expect(self, peer: str, filters: Collection[str]) -> None:
        self._routes.expect(peer, filters)
        for topic_filter in filters:
            self.wanted(peer, topic_filter, True)

    def _forget(self, peer: str) -> None:
        self.departures.forget(peer)
        self._creations.pop(peer, None)
