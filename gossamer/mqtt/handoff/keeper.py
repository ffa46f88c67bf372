"""Keeping what the lasting sessions of other nodes want while those are away: a spool for each, and the disc.

The router gives what comes (:class:`gossamer.routes.forwarding.nodes.Keeper`), a
:class:`~gossamer.mqtt.handoff.hint_log.Spool` decides, and here it is carried out: entries go to the journal
and publishers hear once they are there; a node that is back is asked, and gets its entries by the router's
way to its lasting sessions. Which of these it is not for any more, since they moved, ``departures`` knows.

Which filters nodes that are away have lasting sessions for stands in the journal too, so that this node goes
on keeping for them after a restart.

Rules: 1. Nothing here waits on the loop.  2. What a publisher was told is safe is on disc, or in the memory
of a node without one.
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
from gossamer.mqtt.handoff.hint_journal import HintJournal, OnSafe
from gossamer.mqtt.handoff.hint_log import Spool
from gossamer.mqtt.handoff.hints import (
    MOVED_LIMIT,
    NO_END,
    Action,
    Ask,
    Drop,
    Keep,
    Kept,
    Live,
    Lost,
    Moved,
    Over,
    Send,
    is_for,
)
from gossamer.mqtt.messages.records import MOVE_MARK, acknowledged, encode_kept, fresh, walk
from gossamer.mqtt.session.qos2 import Block
from gossamer.routes import Router

log = structlog.get_logger(__name__)


class Keeping:
    """Keeps messages for the lasting sessions of nodes that are away, and delivers them in order.

    ``loaded(peer)`` says whether the rows of a node are here, ``clients(peer)`` whose sessions it has,
    ``claims(client)`` which nodes are known to claim a client's, ``session(peer)`` under which number it
    knows its session with this node; ``ask`` is told whom to ask, ``lost(peer, records, reason, left)`` what
    nobody gets any more.
    """

    def __init__(
        self,
        *,
        routes: Router,
        identity: str,
        first: int,
        now: Callable[[], float],
        wall: Callable[[], float],
        soon: Soon,
        limit: int,
        max_bytes: int,
        keep_oldest: bool,
        loaded: Callable[[str], bool],
        clients: Callable[[str], Iterable[str]],
        claims: Callable[[str], Mapping[str, int]],
        session: Callable[[str], int],
        ask: Callable[[str], object],
        lost: Callable[[str, Iterable[bytes], str, bytes], object],
    ) -> None:
        self.identity = identity
        """Tells the numbers of this node's entries from those of a namesake that has lost its disc."""
        self.spools: dict[str, Spool] = {}
        self.counts: Counter[str] = Counter()
        """Of spools that are no more."""
        self._routes = routes
        self._first = first
        self._now = now
        self._wall = wall
        self._soon = soon
        self._options: dict[str, Any] = {"limit": limit, "max_bytes": max_bytes, "keep_oldest": keep_oldest}
        self._loaded = loaded
        self._clients = clients
        self._session = session
        self._ask = ask
        self._lost = lost
        self._journal = HintJournal(now=now, wall=wall, soon=soon)
        self.wanted = self._journal.wanted
        self.departures = Departures(self.spools, clients=clients, claims=claims, changed=self._note_moved)
        self._sessions: dict[str, int] = {}
        self._lives: dict[str, int] = {}
        """In which life nodes were that are away."""
        self._up: set[str] = set()
        self._rounds: Counter[str] = Counter()
        self._fresh: set[str] = set()
        """Nodes that are up and have not said yet which sessions they have."""

    # -- what the router tells

    def up(self, peer: str) -> bool:
        """A node is back, or new."""
        self._up.add(peer)
        self._rounds[peer] += 1
        spool = self._spool(peer)
        # Known now, and not any more when it goes.
        self._sessions[peer] = self._session(peer)
        if spool.state == "live":
            # What it has now is what it has lost if it comes back with something else.
            self._fresh.add(peer)
            self._ask(peer)
            return True
        self._do(peer, spool.up())
        return False

    def down(self, peer: str, life: int) -> None:
        """A node is away; ``life`` is its creation."""
        self._up.discard(peer)
        self._fresh.discard(peer)
        spool = self._spool(peer)
        self.departures.away(peer)
        # What it had in this life, or before, is what is kept for.
        self._lives.setdefault(peer, life)
        self._journal.node(peer, self._sessions_of(peer))
        actions, changed = spool.down()
        self._do(peer, actions)
        for client_id in changed:
            self._note_moved(peer, client_id)
        # Behind what was on its way, of which nobody knows whether it came before or after the client went.
        self._soon(partial(self.departures.guess, peer))

    def gone(self, peer: str) -> None:
        """A node will not come back."""
        self.departures.rejoined(peer)
        self._up.discard(peer)
        self._fresh.discard(peer)
        if (spool := self.spools.pop(peer, None)) is None:
            return
        if spool.messages:
            log.warning("kept_messages_dropped", peer=peer, reason="removed", messages=spool.messages)
        moved = list(spool.moved)
        self._do(peer, spool.gone("removed"))
        self.counts.update(spool.counts)
        self._forget(peer, moved)
        self._journal.node(peer, None)

    def take(self, peer: str, record: bytes, on_safe: OnSafe) -> None:
        """Records of QoS 1 and 2 for a node that is away, or on its way back."""
        spool = self._spool(peer)
        if spool.state == "away" and record[:1] == MOVE_MARK:
            self._soon(partial(on_safe, True))
            return
        self._add(peer, spool, record, [on_safe])

    def left(self, peer: str, number: int, records: bytes, waiting: list[OnSafe]) -> int:
        """What a node had not acknowledged; how many messages nobody lasting there wants."""
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
        self._add(peer, self._spool(peer), b"".join(wanted), waiting, session=session, frame=number)
        return others

    # -- what nodes say

    async def greeting(self, peer: str) -> tuple[str, int, Moved, dict[str, list[Block]]]:
        """What to tell a node that is asked: who keeps, how much waits, which numbers are not for a client,
        and what a client is known to have had of the others."""
        spool = self._spool(peer)
        if not spool.waiting:
            return self.identity, 0, {}, {}
        return self.identity, spool.waiting, *await self.departures.not_for(peer)

    def answered(
        self, peer: str, turn: int, sessions: tuple[str, int], taken: int, frames: Mapping[int, int]
    ) -> None:
        """A node has said what it has; ``turn`` is what :meth:`asking` said when it was asked.

        ``sessions``: which those are, and in which life of the node they began.
        """
        spool = self._spool(peer)
        if self.asking(peer) != turn:
            return
        generation, born = sessions
        self._fresh.discard(peer)
        before = spool.counts["dropped_sessions_lost"]
        anew = born > self._lives.get(peer, born)
        self._do(peer, spool.answered(generation, taken, frames, self._now(), anew=anew))
        if lost := spool.counts["dropped_sessions_lost"] - before:
            log.warning("kept_messages_dropped", peer=peer, reason="sessions_lost", messages=lost)
        # Until it goes again.
        self._lives.pop(peer, None)
        self._journal.node(peer, [generation, 0])
        self._settle(peer, spool)

    @property
    def anybody_away(self) -> bool:
        """Whether a node is away, or has not been given everything yet."""
        return bool(self.departures.had)

    def awaits_others(self, peer: str) -> bool:
        """Whether others than ``peer`` are away."""
        return any(other not in self._up for other in self.departures.had if other != peer)

    def kept(self, peer: str, taken: int, frames: Mapping[int, int]) -> list[tuple[int, int, bytes]]:
        """What a node lacks that has taken so much: numbers, microseconds of the day, records, aged."""
        now, wall = self._now(), self._wall()
        return [
            (kept.number, int((kept.at - now + wall) * 1e6), fresh(kept.records, now - kept.at)[0])
            for kept in self._spool(peer).entries.values()
            if not kept.is_known(taken, frames)
        ]

    def keep_elsewhere(
        self, peer: str, owner: str, clients: Moved, taken: int, frames: Mapping[int, int]
    ) -> bool:
        """Keep for ``owner``, which is away too, what ``peer`` lacks and is for sessions that have moved to
        that; False: it is not away, as far as is known here, and can be given that itself.

        ``clients``: whose sessions they are, and which numbers of ``peer`` are not for them.
        """
        spool = self._spool(owner)
        if spool.state != "away":
            return owner not in self._up
        lacking = [
            kept
            for kept in self._spool(peer).entries.values()
            if not kept.is_known(taken, frames)
            and kept.records[:1] != MOVE_MARK
            and any(is_for(client_id, kept.number, clients) for client_id in clients)
        ]
        # Other sessions there have had it, or it is older than they are.
        others = (client_id for client_id in self._clients(owner) if client_id not in clients)
        not_for = dict.fromkeys(islice(others, MOVED_LIMIT), (0, NO_END))
        self._adopt(owner, lacking, {**clients, **not_for})
        return True

    # -- nodes that went while this one was away

    def absent(self) -> Iterator[tuple[str, list[Any], list[str], bool]]:
        """The nodes that are away: which sessions they had, in which life and whose, as far as is known;
        whose are elsewhere now; and whether this node has seen that itself."""
        for peer in list(self.departures.had):
            # Time may pass between one and the next.
            if peer not in self._up and peer in self.departures.had:
                yield peer, self._sessions_of(peer), *self.departures.elsewhere(peer)

    def learned(
        self, peer: str, sessions: list[Any], moved: list[str], filters: list[str], *, seen: bool
    ) -> None:
        """Another node knows this one to be away, as :meth:`absent` says, and that it wants these filters."""
        if peer in self._up:
            return
        if self._spool(peer).state == "live":
            self._begins_away(peer, sessions)
        self.departures.learned(peer, sessions[2:], moved, seen=seen)
        self._routes.expect(peer, filters)
        for topic_filter in filters:
            self.wanted(peer, topic_filter, True)
        self._journal.node(peer, self._sessions_of(peer))

    # -- handed over where a node leaves

    @property
    def kept_for(self) -> dict[str, bool]:
        """The nodes for which something is kept, and whether they are away."""
        return {peer: spool.state == "away" for peer, spool in self.spools.items() if spool.entries}

    def hints(self, peer: str) -> tuple[list[Any], list[list[Any]]]:
        """What another node has to know to keep for ``peer`` as this one does: which sessions it had and in
        which life, and the entries, as :meth:`adopt` takes them."""
        entries = [[kept.number, *self._journal.row(kept)] for kept in self._spool(peer).entries.values()]
        return self._sessions_of(peer), entries

    def adopt(
        self, peer: str, sessions: list[Any], hints: list[list[Any]], moved: Moved, on_safe: OnSafe
    ) -> bool:
        """Keep what another node has kept for ``peer``; False: that is not away, as far as is known here."""
        spool = self._spool(peer)
        if peer not in self._up and spool.state == "live":
            self._begins_away(peer, sessions)
            self._routes.expect(peer, ())
        if spool.state != "away":
            return False
        self._adopt(peer, [self._journal.read(hint[0], hint[1:]) for hint in hints], moved)
        self._journal.when_safe([on_safe])
        return True

    def adopted(self, peer: str, hints: Iterable[list[Any]]) -> int:
        """Another node has these on its disc; how many messages they are."""
        spool = self._spool(peer)
        before = spool.messages
        self._do(peer, spool.adopted([hint[0] for hint in hints], self._now()))
        return before - spool.messages

    def asking(self, peer: str) -> int:
        """The number of the return for which a node has still to answer; 0: for none."""
        spool = self.spools.get(peer)
        waits = spool is not None and (spool.state == "asking" or peer in self._fresh)
        return self._rounds[peer] if waits and peer in self._up else 0

    # -- the disc

    def restore(self, journal: Journal, rows: Mapping[Any, Any]) -> None:
        """Keep on disc from now on; ``rows`` are what it had."""
        self.identity, found = self._journal.restore(journal, rows, self.identity)
        for peer, restored in found.items():
            self._begins_away(peer, restored.node, restored.entries, restored.moved)
            self._routes.expect(peer, restored.filters)
            if peer in self._up:
                self._do(peer, self._spool(peer).up())
        if entries := sum(len(restored.entries) for restored in found.values()):
            log.info("kept_messages_restored", entries=entries)

    def tick(self, *, has_left: Callable[[str], bool]) -> None:
        """About once a second. ``has_left(peer)``: it has gone for good, perhaps while this node was away."""
        for peer, spool in list(self.spools.items()):
            if peer in self._up:
                self._settle(peer, spool)
            elif has_left(peer):
                self._routes.live(peer)
                self.gone(peer)
            if spool.fills_up(self._wall()):
                log.error("kept_messages_overflow", peer=peer, **self._options)
        self._journal.write_filters()

    # -- looking in

    def alarms(self) -> Iterator[tuple[float, str]]:
        """For each node for which more came than is kept: since when, and in words."""
        for peer, spool in self.spools.items():
            if spool.full_since is not None:
                text = (
                    f"{spool.overflowed} messages for sessions of {peer}, which is away, found no room: at "
                    f"most {self._options['limit']} are kept, and {self._options['max_bytes']} bytes"
                )
                yield spool.full_since, text

    def stats(self) -> dict[str, int]:
        """Sizes and counts."""
        total = Counter(self.counts)
        for spool in self.spools.values():
            total.update(spool.counts)
        return {
            "away_waiting": sum(spool.messages for spool in self.spools.values()),
            "away_bytes": sum(spool.bytes for spool in self.spools.values()),
            **{f"away_{what}": count for what, count in sorted(total.items())},
        }

    # -- inside

    def _sessions_of(self, peer: str) -> list[Any]:
        """Which sessions a node that is away had, in which life, and whose, as far as is known."""
        return [self._spool(peer).generation, self._lives.get(peer, 0), *self.departures.remembered(peer)]

    def _begins_away(
        self, peer: str, sessions: list[Any], entries: Iterable[Kept] = (), moved: Moved | None = None
    ) -> None:
        """A node went in a former life of this one, before it came, or was seen by another alone."""
        generation, life, *had = sessions
        self.departures.restored(peer, had[0] if had else None)
        if life:
            self._lives[peer] = life
        self._spool(peer).restore(entries, generation, moved or {})
        self._journal.node(peer, sessions)

    def _note_moved(self, peer: str, client_id: str) -> None:
        self._journal.moved(peer, client_id, self.spools[peer].moved.get(client_id))

    def _adopt(self, peer: str, hints: Iterable[Kept], moved: Moved) -> None:
        actions, changed = self._spool(peer).adopt(hints, moved)
        self._do(peer, actions)
        for client_id in changed:
            self._note_moved(peer, client_id)

    def _spool(self, peer: str) -> Spool:
        spool = self.spools.get(peer)
        if spool is None:
            spool = self.spools[peer] = Spool(refresh=fresh, first=self._first, **self._options)
        return spool

    def _add(self, peer: str, spool: Spool, records: bytes, waiting: list[OnSafe], **place: int) -> None:
        self._do(peer, spool.add(records, acknowledged(records), self._now(), **place))
        self._journal.when_safe(waiting)

    def _do(self, peer: str, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Keep(kept):
                    self._journal.keep(peer, kept)
                case Drop(numbers):
                    for number in numbers:
                        self._journal.drop(peer, number)
                case Lost(records, reason, left):
                    self._lost(peer, records, reason, left)
                case Ask():
                    self._ask(peer)
                case Send(kept, records):
                    self._send(peer, encode_kept(kept.number, records, live=kept.live), kept.number)
                case Over():
                    self._send(peer, encode_kept(0, b"", live=False), 0)
                case Live():
                    self.departures.had.pop(peer, None)
                    self._routes.live(peer)

    def _send(self, peer: str, entry: bytes, number: int) -> None:
        self._routes.to_kept(peer).append_acked(entry, partial(self._sent, peer, number))

    def _sent(self, peer: str, number: int, done: bool) -> None:
        spool = self.spools.get(peer)
        if done and spool is not None:
            self._do(peer, spool.confirmed(number, self._now()))
            self._settle(peer, spool)

    def _settle(self, peer: str, spool: Spool) -> None:
        if spool.state == "sending" and not spool.entries and self._loaded(peer):
            moved = list(spool.moved)
            self._do(peer, spool.settled())
            self._forget(peer, moved)

    def _forget(self, peer: str, moved: Iterable[str]) -> None:
        self.departures.forget(peer)
        self._lives.pop(peer, None)
        for client_id in moved:
            self._journal.moved(peer, client_id, None)
