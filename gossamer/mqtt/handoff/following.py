"""Forwarding of hints: those for a session on a node that was away follow the session to another node.

Two nodes on one side of a partition move a session, unseen by a node on the other side: it keeps hints for
the node that had the session, which has lost it when the partition heals. So before it replays its hints to
that node, it asks which sessions have left, and hands their hints to the nodes that have them now. It asks
even where nothing is kept yet: until those nodes are back, no other node keeps for them.

Rules: 1. A node that still has something of a session offers that itself (``superseded``).  2. A message of
QoS 2 is taken once, whichever way it comes (``qos2``); one of QoS 1 may come twice.  3. A node that has such
sessions and is away is waited for, since it may be about to come back; after that, hints go to its hint log.
What comes from then on is kept for the filters that they had where they were (:meth:`.HintKeeper._live`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import structlog

from gossamer.distribution import rpc as remote
from gossamer.mqtt.flow.commits import SETTLE_TIMEOUT
from gossamer.mqtt.handoff.hints import Moved, is_for
from gossamer.mqtt.messages.records import read_record, walk
from gossamer.mqtt.session.qos2 import Block
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.transfer import had_from, rightful, wanted_by

if TYPE_CHECKING:
    from gossamer.distribution import Distribution
    from gossamer.mnesia_like import OwnedTable
    from gossamer.mqtt.handoff.keeper import HintKeeper
    from gossamer.mqtt.session.sessions import SessionTable

log = structlog.get_logger(__name__)

GONE = "mqtt.gone"
FOLLOW = "mqtt.follow"
HAD = "mqtt.had"
CALL_TIMEOUT = 5.0
RETURN_TIMEOUT = 10.0
"""Seconds from the return of the first node of the other side of a partition to that of the last."""
CHUNK = 100
"""Entries handed on in one call."""


class Following:
    """Hands hints on to sessions that have moved, and takes those that other nodes hand on.

    ``loaded(node)``: whether its rows are here; ``dismiss(client)`` releases what is left of a superseded
    session and returns whether it has gone; ``is_moving(client)``: whether the session is migrating;
    ``delivered(client, had)`` is called with QoS 2 messages that a client has had from another node.
    """

    def __init__(
        self,
        table: SessionTable,
        keeper: HintKeeper,
        distribution: Distribution,
        claims: OwnedTable,
        *,
        now: Callable[[], float],
        loaded: Callable[[str], bool],
        dismiss: Callable[[str], bool],
        is_moving: Callable[[str], bool],
        delivered: Callable[[str, Iterable[Block]], object],
    ) -> None:
        self._table = table
        self._keeper = keeper
        self._distribution = distribution
        self._node = distribution.runtime.node
        self._claims = claims
        self._now = now
        self._loaded = loaded
        self._dismiss = dismiss
        self._is_moving = is_moving
        self._delivered = delivered
        self._since: dict[str, float] = {}
        """By node, when it first turned out to have lost sessions to an owner that is away, or unknown."""
        self.functions: dict[str, Callable[..., object]] = {
            GONE: self._gone,
            FOLLOW: self._accept,
            HAD: self._had,
        }
        """Functions that other nodes call, by name."""

    async def hand_on(self, peer: str, moved: Moved, taken: int, frames: Mapping[int, int]) -> bool:
        """Hand on the hints for sessions that ``peer`` had and has lost; False: try again, since a node did
        not answer, or one that has such sessions is on its way back.

        ``moved``: numbers that are not for a client; ``taken`` and ``frames``: how far ``peer`` got.
        """
        done = await self._hand_on(peer, moved, taken, frames)
        if done:
            self._since.pop(peer, None)
        return done

    async def _hand_on(self, peer: str, moved: Moved, taken: int, frames: Mapping[int, int]) -> bool:
        if not all(map(self._loaded, self._distribution.nodes())):
            # The node that has them now may not be known, nor where to send what comes from now on.
            return False
        departed = self._keeper.departures.departed(peer)
        gone = await remote.call(peer, GONE, departed, self._node, timeout=CALL_TIMEOUT)
        if not (isinstance(gone, remote.Returned) and isinstance(gone.value, list)):
            return False
        clients: dict[str, dict[str, Sequence[int]]] = defaultdict(dict)
        away: dict[str, dict[str, Sequence[int]]] = defaultdict(dict)
        there = {self._node, *self._distribution.nodes()}
        for client_id, reported in gone.value:
            owner = rightful(self._claims.read(client_id))
            if owner is None or owner == peer:
                # The claim of a node that is not back yet, which that one has seen.
                owner = reported
            if owner in there:
                clients[owner][client_id] = moved.get(client_id, ())
            elif self._is_early(peer, owner):
                return False
            elif owner is not None:
                away[owner][client_id] = moved.get(client_id, ())
        upto = taken
        # More comes meanwhile, and nothing is for them there any more.
        while clients and (entries := self._keeper.hint_store.kept(peer, upto, frames)):
            for owner, whose in clients.items():
                if owner != self._node and (had := self.had_here(whose)):
                    await remote.call(owner, HAD, had, timeout=CALL_TIMEOUT)
                for start in range(0, len(entries), CHUNK):
                    taken_there = await self._hand_to(owner, whose, entries[start : start + CHUNK])
                    # Of a session that has left it again, the next attempt asks where it is.
                    if not taken_there and (taken_there is False or self._is_early(peer, owner)):
                        return False
                log.info("hints_followed", peer=peer, to=owner, sessions=len(whose), entries=len(entries))
            upto = entries[-1][0]
        # Last, and at once, or it would be kept again with the next attempt.
        return all(
            self._keeper.keep_elsewhere(peer, owner, whose, taken, frames) for owner, whose in away.items()
        )

    def had_here(self, clients: Iterable[str]) -> dict[str, list[Block]]:
        """Return the QoS 2 messages that each of these clients has had from a session that it has here.

        One that is moving is left out: it knows messages that are not in its queue yet, and its client has
        not had. What it knows goes with it.
        """
        sessions = self._table.sessions
        return {
            client_id: had
            for client_id in clients
            if (session := sessions.get(client_id)) is not None
            and not self._is_moving(client_id)
            and (had := had_from(session))
        }

    def _had(self, had: Mapping[str, list[Block]]) -> None:
        for client_id, blocks in had.items():
            self._delivered(client_id, blocks)

    def _is_early(self, peer: str, owner: str | None) -> bool:
        """Return whether the owner of some of these sessions, perhaps unknown, may be about to come back."""
        now = self._now()
        since = self._since.setdefault(peer, now)
        awaited = owner is not None or self._keeper.awaits_others(peer)
        return awaited and now - since < RETURN_TIMEOUT

    async def _hand_to(
        self, owner: str, clients: dict[str, Sequence[int]], entries: list[tuple[int, int, bytes]]
    ) -> bool | None:
        """Return what :meth:`_accept` does there; False also without an answer."""
        if owner == self._node:
            return await self._accept(clients, entries)
        answer = await remote.call(owner, FOLLOW, clients, entries, timeout=CALL_TIMEOUT)
        if not isinstance(answer, remote.Returned):
            return False
        return None if answer.value is None else bool(answer.value)

    def _gone(self, clients: list[str] | None, asker: str) -> list[tuple[str, str | None]]:
        """Return those of ``clients``, and of the clients that left since ``asker`` was last seen, whose
        sessions are not here any more, each with its owner if known. None: not known to ``asker``."""
        sessions = self._table.sessions
        left = self._keeper.departures.left(asker, self._node)
        return [
            (client_id, rightful(self._claims.read(client_id)))
            for client_id in dict.fromkeys([*(clients or ()), *left])
            if client_id not in sessions or self._dismiss(client_id)
        ]

    async def _accept(
        self, clients: dict[str, Sequence[int]], entries: list[tuple[int, int, bytes]]
    ) -> bool | None:
        """Take hints of another node for sessions that are here now; False: not now. None: one of them has
        left for another node since that one asked where it is, and lacks them."""
        sessions, store = self._table.sessions, self._table.store
        # What is taken while the disc fails is not acknowledged, and would be handed on and queued again.
        if store is not None and not await store.disc.settled(SETTLE_TIMEOUT):
            return False
        # A session that is moving away takes it too. To wait for the end of the move would be a deadlock:
        # the mark that the move waits for comes behind what is handed on.
        if any(self._is_moving(client_id) for client_id in clients if client_id not in sessions):
            return False
        left = any(map(self._has_left, clients))
        before = 0 if store is None else store.notes
        for number, kept_at, records in entries:
            for client_id, numbers in clients.items():
                session = sessions.get(client_id)
                if session is None or not is_for(client_id, number, {client_id: numbers} if numbers else {}):
                    continue
                # Microseconds of the day, as epochs are: one that began clean later is another session.
                if not (session.clean and session.born > kept_at):
                    self._give(session, records)
        if store is not None:
            await store.settled(peer=store.since(before))
        return None if left else True

    def _has_left(self, client_id: str) -> bool:
        owner = None if client_id in self._table.sessions else rightful(self._claims.read(client_id))
        return owner not in (None, self._node)

    def _give(self, session: Session, records: bytes) -> None:
        wanted = wanted_by(session, shared=False)
        now = self._now()
        for _, topic, record in walk(records):
            if qos := wanted(topic):
                message, _ = read_record(record, 0, len(record), now)
                if message.qos and session.admits(message):
                    gate, session.gate = session.gate, None
                    session.take(message, qos=min(message.qos, qos), retain=False)
                    session.gate = gate
