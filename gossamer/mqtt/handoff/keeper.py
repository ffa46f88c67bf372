"""Keeping what the lasting sessions of other nodes want while those are away: a spool for each, and the disc.

The router gives what comes (:class:`gossamer.routes.ports.Keeper`), a
:class:`~gossamer.mqtt.handoff.hint_log.Spool` decides, and here it is carried out: entries go to the journal
and publishers hear once they are there; a node that is back is asked, and gets its entries by the router's
way to its lasting sessions.

Where the node has no disc, or keeps no sessions there, what is kept is in memory, and is acknowledged at the
end of the turn, as sessions in memory are.

Which filters nodes that are away have lasting sessions for stands in the journal too, a little late, so that
this node goes on keeping for them after a restart.

Rules: 1. Nothing here waits on the loop.  2. What a publisher was told is safe is on disc, or in the memory
of a node without one.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import structlog

from gossamer.mnesia_like import Journal
from gossamer.mqtt.handoff import hint_log
from gossamer.mqtt.messages.records import MOVE_MARK, acknowledged, encode_kept, fresh, walk
from gossamer.mqtt.session.qos2 import Block
from gossamer.routes import Router

__all__ = ["Keeping"]

log = structlog.get_logger(__name__)

OnSafe = Callable[[bool], None]

_encode = msgspec.msgpack.Encoder().encode
STEP = 500
"""Clients looked at in a turn."""
_ID, _NODE, _FILTER, _KEPT, _MOVED = range(5)
"""The kinds of rows."""
FILTERS = 5000
"""Filters written to disc in a tick."""


class _Anybody(frozenset[str]):
    """The clients that a node may have had of which nobody remembers which they were."""

    def __contains__(self, _client_id: object) -> bool:
        return True


class Keeping:
    """Keeps messages for the lasting sessions of nodes that are away, and delivers them in order.

    ``loaded(peer)`` says whether the rows of a node are here, ``clients(peer)`` whose
    sessions it has, ``owner(client)`` which node is known to have a client's, ``session(peer)`` under which
    number it knows its session with this node; ``ask`` is told whom to ask, ``lost(peer, records, reason,
    left)`` what nobody gets any more.
    """

    def __init__(
        self,
        *,
        routes: Router,
        identity: str,
        first: int,
        now: Callable[[], float],
        wall: Callable[[], float],
        soon: Callable[[Callable[[], None]], object],
        limit: int,
        max_bytes: int,
        keep_oldest: bool,
        loaded: Callable[[str], bool],
        clients: Callable[[str], Iterable[str]],
        owner: Callable[[str], str | None],
        session: Callable[[str], int],
        ask: Callable[[str], object],
        lost: Callable[[str, Iterable[bytes], str, bytes], object],
    ) -> None:
        self.identity = identity
        """Tells the numbers of this node's entries from those of a namesake that has lost its disc."""
        self.spools: dict[str, hint_log.Spool] = {}
        self.counts: Counter[str] = Counter()
        """Of spools that are no more."""
        self.since: dict[str, float] = {}
        """Time of day at which a spool first had no room, until its node is back."""
        self._routes = routes
        self._first = first
        self._now = now
        self._wall = wall
        self._soon = soon
        self._options: dict[str, Any] = {"limit": limit, "max_bytes": max_bytes, "keep_oldest": keep_oldest}
        self._loaded = loaded
        self._clients = clients
        self._owner = owner
        self._session = session
        self._ask = ask
        self._lost = lost
        self._journal: Journal | None = None
        self._waiting: deque[tuple[int, list[OnSafe]]] = deque()
        self._sessions: dict[str, int] = {}
        self._had: dict[str, frozenset[str]] = {}
        self._guessed: dict[str, set[str]] = {}
        """By node that is away, clients that seemed to have left it before."""
        self._delivered: dict[str, dict[str, list[Block]]] = {}
        """By node that is away, what clients have had elsewhere before it was known that they are there."""
        self._claimed: set[str] = set()
        """Clients that came to this side while somebody was away."""
        self._lives: dict[str, int] = {}
        """In which life nodes were that are away."""
        self._up: set[str] = set()
        self._rounds: Counter[str] = Counter()
        self._fresh: set[str] = set()
        """Nodes that are up and have not said yet which sessions they have."""
        self._filters: dict[tuple[str, str], bool] = {}
        """Changes that the disc does not have yet."""
        self._filters_ticket = 0

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
        self._had.setdefault(peer, frozenset(self._clients(peer)))
        # What it had in this life, or before, is what is kept for.
        self._lives.setdefault(peer, life)
        row: list[Any] = [spool.generation, self._lives[peer]]
        if not isinstance(self._had[peer], _Anybody):
            row.append(list(islice(self._had[peer], hint_log.MOVED_LIMIT)))
        self._put((peer, _NODE, 0), row)
        actions, changed = spool.down()
        self._do(peer, actions)
        for client_id in changed:
            self._put((peer, _MOVED, client_id), spool.moved.get(client_id))
        # Behind what was on its way, of which nobody knows whether it came before or after the client went.
        self._soon(partial(self._note_moved, peer))

    def gone(self, peer: str) -> None:
        """A node will not come back."""
        self._up.discard(peer)
        self._fresh.discard(peer)
        spool = self.spools.pop(peer, None)
        if spool is None:
            return
        if spool.messages:
            log.warning("kept_messages_dropped", peer=peer, reason="removed", messages=spool.messages)
        moved = list(spool.moved)
        self._do(peer, spool.gone("removed"))
        self.counts.update(spool.counts)
        self._forget(peer, moved)
        self._put((peer, _NODE, 0), None)

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

    def wanted(self, peer: str, topic_filter: str, lasting: bool) -> None:
        """Lasting sessions of a node have come to want a filter, or do so no more."""
        if self._journal is not None:
            self._filters[peer, topic_filter] = lasting

    # -- what nodes say

    async def greeting(self, peer: str) -> tuple[str, int, dict[str, Sequence[int]], dict[str, list[Block]]]:
        """What to tell a node that is asked: who keeps, how much waits, which numbers are not for a client,
        and what a client is known to have had of the others.

        Of a session that left the node at an unknown moment, everything is given back: rather twice than
        never. One that was on this side all the time has had it here.
        """
        spool = self._spool(peer)
        if not spool.waiting:
            return self.identity, 0, {}, {}
        moved = dict(spool.moved)
        for client_id in self._guessed.get(peer, ()):
            if not self._elsewhere(client_id, peer):
                # Back there by now, and where it was meanwhile was as far away: it takes what is new to it.
                moved.pop(client_id, None)
        had = self._had.get(peer, frozenset())
        for count, client_id in enumerate(list(self._clients(peer)), 1):
            stayed = client_id not in had and client_id not in self._claimed
            if stayed and client_id not in moved and self._elsewhere(client_id, peer):
                moved[client_id] = 0, hint_log.NO_END
            if count % STEP == 0:
                await asyncio.sleep(0)
        return self.identity, spool.waiting, moved, self._delivered.get(peer, {})

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
        self._put((peer, _NODE, 0), [generation, 0])
        self._settle(peer, spool)

    @property
    def anybody_away(self) -> bool:
        """Whether a node is away, or has not been given everything yet."""
        return bool(self._had)

    def claimed(self, client_id: str, owner: str) -> None:
        """A node has a client's session that it had not before; ``owner`` is whose claim is the highest."""
        if owner in self._had:
            # It has been away, and a session on this side takes nothing more. What comes is for any other.
            for peer in self._had:
                if self.spools[peer].returns(client_id):
                    self._put((peer, _MOVED, client_id), self.spools[peer].moved[client_id])
        if self._had and len(self._claimed) < hint_log.MOVED_LIMIT:
            self._claimed.add(client_id)

    def settled(self, client_id: str, owner: str, *, resumed: bool, had: list[Block]) -> None:
        """A client's subscriptions are known at ``owner`` from now on: a node that is away gets nothing more
        for it, whether it had its session or came by one while it was cut off.

        ``resumed``: the session was on this side before, and nothing that is kept is for another one; or
        ``had`` are the messages of QoS 2 that its client has had from it.
        """
        stayed = resumed and client_id not in self._claimed
        for peer, clients in self._had.items():
            if peer != owner:
                self._move(peer, client_id, always=stayed and client_id not in clients)
                delivered = self._delivered.setdefault(peer, {})
                if had and len(delivered) < hint_log.MOVED_LIMIT:
                    delivered[client_id] = had

    def departed(self, peer: str) -> list[str]:
        """Clients whose sessions a node had when it went, and has no more."""
        return [client_id for client_id in self._had.get(peer, ()) if self._owner(client_id) != peer]

    def awaits_others(self, peer: str) -> bool:
        """Whether others than ``peer`` are away."""
        return any(other not in self._up for other in self._had if other != peer)

    def kept(self, peer: str, taken: int, frames: Mapping[int, int]) -> list[tuple[int, int, bytes]]:
        """What a node is to get that has taken so much: numbers, time of day in microseconds, and records
        with the time that they have left."""
        now, wall = self._now(), self._wall()
        return [
            (kept.number, int((kept.at - now + wall) * 1e6), fresh(kept.records, now - kept.at)[0])
            for kept in self._spool(peer).entries.values()
            if not kept.is_known(taken, frames)
        ]

    # -- handed over where a node leaves

    @property
    def kept_for(self) -> dict[str, bool]:
        """The nodes for which something is kept, and whether they are away."""
        return {peer: spool.state == "away" for peer, spool in self.spools.items() if spool.entries}

    def hints(self, peer: str) -> tuple[list[Any], list[list[Any]]]:
        """What another node has to know to keep for ``peer`` as this one does: which sessions it had and in
        which life, and the entries, as :meth:`adopt` takes them."""
        spool = self._spool(peer)
        entries = [[kept.number, *self._row(kept)] for kept in spool.entries.values()]
        return [spool.generation, self._lives.get(peer, 0)], entries

    def adopt(
        self, peer: str, sessions: list[Any], hints: list[list[Any]], moved: hint_log.Moved, on_safe: OnSafe
    ) -> bool:
        """Keep what another node has kept for ``peer``; False: that is not away, as far as is known here."""
        spool = self._spool(peer)
        if peer not in self._up and spool.state == "live":
            # It went before this node came.
            generation, life = sessions
            self._had[peer] = _Anybody()
            if life:
                self._lives[peer] = life
            spool.restore([], generation, {})
            self._put((peer, _NODE, 0), [generation, life])
            self._routes.expect(peer, ())
        if spool.state != "away":
            return False
        actions, changed = spool.adopt([self._read(hint[0], hint[1:]) for hint in hints], moved)
        self._do(peer, actions)
        for client_id in changed:
            self._put((peer, _MOVED, client_id), spool.moved[client_id])
        self._when_safe([on_safe])
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
        self._journal = journal
        journal.on_commit(self._committed)
        identity = rows.get(("", _ID, 0))
        if identity:
            self.identity = identity
        else:
            self._put(("", _ID, 0), self.identity)
        entries: dict[str, list[hint_log.Kept]] = {}
        filters: dict[str, list[str]] = {}
        moved: dict[str, dict[str, Sequence[int]]] = {}
        for (peer, kind, key), value in rows.items():
            if kind == _KEPT:
                entries.setdefault(peer, []).append(self._read(key, value))
            elif kind == _FILTER:
                filters.setdefault(peer, []).append(key)
            elif kind == _MOVED:
                moved.setdefault(peer, {})[key] = value
        for peer in {*entries, *filters}:
            spool = self._spool(peer)
            generation, life, *had = rows.get((peer, _NODE, 0), ("", 0))
            if life:
                self._lives[peer] = life
            self._had[peer] = frozenset(had[0]) if had else _Anybody()
            spool.restore(entries.get(peer, []), generation, moved.get(peer, {}))
            self._routes.expect(peer, filters.get(peer, ()))
            if peer in self._up:
                self._do(peer, spool.up())
        if entries:
            log.info("kept_messages_restored", peers=len(entries), entries=sum(map(len, entries.values())))

    def tick(self, *, known: Callable[[str], bool]) -> None:
        """About once a second. ``known(peer)``: it has not gone for good, as far as anybody can tell."""
        for peer, spool in list(self.spools.items()):
            if peer not in self._up and not known(peer):
                self._routes.live(peer)
                self.gone(peer)
            elif peer in self._up:
                self._settle(peer, spool)
            if spool.overflowed and peer not in self.since:
                self.since[peer] = self._wall()
                log.error("kept_messages_overflow", peer=peer, **self._options)
            elif not spool.overflowed:
                self.since.pop(peer, None)
        self._write_filters()

    # -- looking in

    def alarms(self) -> Iterator[tuple[float, str]]:
        """For each node for which more came than is kept: since when, and in words."""
        for peer, since in self.since.items():
            spool = self.spools.get(peer)
            if spool is not None:
                text = (
                    f"{spool.overflowed} messages for sessions of {peer}, which is away, found no room: at "
                    f"most {self._options['limit']} are kept, and {self._options['max_bytes']} bytes"
                )
                yield since, text

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

    def _note_moved(self, peer: str) -> None:
        """Clients may have left a node before anybody noticed that it is away."""
        for client_id in self._had.get(peer, ()):
            if self._elsewhere(client_id, peer) and self._move(peer, client_id):
                self._guessed.setdefault(peer, set()).add(client_id)

    def _elsewhere(self, client_id: str, peer: str) -> bool:
        """Whether a client's session is known to be on another node. Of a node that dies again before it has
        said which sessions it has, none is known to be anywhere: these are its own still."""
        return self._owner(client_id) not in (None, peer)

    def _move(self, peer: str, client_id: str, *, always: bool = False) -> bool:
        new = self._spool(peer).moves(client_id, always=always)
        if new:
            self._put((peer, _MOVED, client_id), self.spools[peer].moved[client_id])
        return new

    def _spool(self, peer: str) -> hint_log.Spool:
        spool = self.spools.get(peer)
        if spool is None:
            spool = self.spools[peer] = hint_log.Spool(refresh=fresh, first=self._first, **self._options)
        return spool

    def _add(
        self, peer: str, spool: hint_log.Spool, records: bytes, waiting: list[OnSafe], **place: int
    ) -> None:
        self._do(peer, spool.add(records, acknowledged(records), self._now(), **place))
        self._when_safe(waiting)

    def _when_safe(self, waiting: list[OnSafe]) -> None:
        """Tell these once all that was noted until now is on disc; never within this call."""
        if self._journal is not None:
            self._waiting.append((self._journal.ticket, waiting))
            if self._journal.ticket > self._journal.committed:
                return
        else:
            self._waiting.append((0, waiting))
        self._soon(self._release)

    def _committed(self) -> None:
        # What follows from a commit is none of the disc process's business.
        self._soon(self._release)

    def _release(self) -> None:
        committed = 0 if self._journal is None else self._journal.committed
        while self._waiting and self._waiting[0][0] <= committed:
            for on_safe in self._waiting.popleft()[1]:
                try:
                    on_safe(True)
                except Exception:
                    # The others still have to be told, and in order.
                    log.exception("on_safe_failed")

    def _do(self, peer: str, actions: list[hint_log.Action]) -> None:
        for action in actions:
            match action:
                case hint_log.Keep(kept):
                    self._put((peer, _KEPT, kept.number), self._row(kept))
                case hint_log.Drop(numbers):
                    for number in numbers:
                        self._put((peer, _KEPT, number), None)
                case hint_log.Lost(records, reason, left):
                    self._lost(peer, records, reason, left)
                case hint_log.Ask():
                    self._ask(peer)
                case hint_log.Send(kept, records):
                    self._send(peer, encode_kept(kept.number, records, live=kept.live), kept.number)
                case hint_log.Over():
                    self._send(peer, encode_kept(0, b"", live=False), 0)
                case hint_log.Live():
                    self._had.pop(peer, None)
                    self._routes.live(peer)

    def _send(self, peer: str, entry: bytes, number: int) -> None:
        self._routes.to_kept(peer).append_acked(entry, partial(self._sent, peer, number))

    def _sent(self, peer: str, number: int, done: bool) -> None:
        spool = self.spools.get(peer)
        if done and spool is not None:
            self._do(peer, spool.confirmed(number, self._now()))
            self._settle(peer, spool)

    def _settle(self, peer: str, spool: hint_log.Spool) -> None:
        if spool.state == "sending" and not spool.entries and self._loaded(peer):
            moved = list(spool.moved)
            self._do(peer, spool.settled())
            self._forget(peer, moved)

    def _forget(self, peer: str, moved: Iterable[str]) -> None:
        self._had.pop(peer, None)
        self._guessed.pop(peer, None)
        self._delivered.pop(peer, None)
        if not self._had:
            self._claimed.clear()
        self._lives.pop(peer, None)
        self.since.pop(peer, None)
        for client_id in moved:
            self._put((peer, _MOVED, client_id), None)

    def _put(self, key: tuple[str, int, Any], value: Any) -> None:
        if self._journal is not None:
            self._journal.put(_encode(key), None if value is None else _encode(value))

    def _row(self, kept: hint_log.Kept) -> list[Any]:
        at = kept.at - self._now() + self._wall()
        return [at, kept.records, kept.count, kept.live, kept.session, kept.frame]

    def _read(self, number: int, row: list[Any]) -> hint_log.Kept:
        at, *rest = row
        return hint_log.Kept(number, at - self._wall() + self._now(), *rest)

    def _write_filters(self) -> None:
        journal = self._journal
        if journal is None or self._filters_ticket > journal.committed:
            return
        some = list(islice(self._filters.items(), FILTERS))
        for (peer, topic_filter), lasting in some:
            del self._filters[peer, topic_filter]
            self._put((peer, _FILTER, topic_filter), True if lasting else None)
        self._filters_ticket = journal.ticket
