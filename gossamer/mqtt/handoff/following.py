"""Forwarding of hints: what was kept for a session on a node that was away follows the session elsewhere.

Two nodes on one side of a cut move a session, and a node on the other side does not see it: it keeps for the
node that had the session, which has it no more when the cut heals. So before it gives that node what it kept,
it asks which of its sessions have left it, and hands to the nodes that have these now what is for them. It
asks even where nothing is kept yet: until the nodes that have them are back, it is all that keeps for them.

Rules: 1. A node that still has something of a session offers that itself (``superseded``).  2. A message of
QoS 2 is taken once, whichever way it comes (``once``); one of QoS 1 may come twice.  3. A node that has such
sessions and is away itself is waited for, for it may be about to come back; then it is kept for that node.

Known limit: what comes after that, before that node is back, is kept for filters that it wanted before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gossamer.distribution import rpc as remote
from gossamer.mqtt.flow.commits import SETTLE_TIMEOUT
from gossamer.mqtt.handoff.hints import Moved, is_for
from gossamer.mqtt.messages.records import read_record, walk
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.transfer import rightful, wanted_by

if TYPE_CHECKING:
    from gossamer.distribution import Distribution
    from gossamer.mnesia_like import OwnedTable
    from gossamer.mqtt.handoff.keeper import Keeping
    from gossamer.mqtt.session.sessions import SessionTable

GONE = "mqtt.gone"
FOLLOW = "mqtt.follow"
CALL_TIMEOUT = 5.0
RETURN_TIMEOUT = 10.0
"""Seconds between the first node of the other side of a cut that is back, and the last."""
CHUNK = 100
"""Entries handed on in one call."""


class Following:
    """Has what was kept follow sessions that have moved: asks for them, and answers who asks.

    ``loaded(node)``: whether its rows are here; ``dismiss(client)``
    stops waiting with what is left of a session, ``is_moving(client)``: whether it is on its way.
    """

    def __init__(
        self,
        table: SessionTable,
        keeping: Keeping,
        distribution: Distribution,
        claims: OwnedTable,
        *,
        now: Callable[[], float],
        loaded: Callable[[str], bool],
        dismiss: Callable[[str], bool],
        is_moving: Callable[[str], bool],
    ) -> None:
        self._table = table
        self._keeping = keeping
        self._distribution = distribution
        self._node = distribution.runtime.node
        self._claims = claims
        self._now = now
        self._loaded = loaded
        self._dismiss = dismiss
        self._is_moving = is_moving
        self._since: dict[str, float] = {}
        """When a node was found to have sessions no more whose owner is away, or not known."""
        self.functions: dict[str, Callable[..., object]] = {GONE: self._gone, FOLLOW: self._accept}
        """What other nodes call."""

    async def hand_on(self, peer: str, moved: Moved, taken: int, frames: Mapping[int, int]) -> bool:
        """Hand on what is kept for sessions that ``peer`` had and has no more; False: not all of it yet, or
        more has to be kept, since a node that has them is on its way back.

        ``moved``: what of it is not for a client; ``taken`` and ``frames``: what the node has had.
        """
        done = await self._hand_on(peer, moved, taken, frames)
        if done:
            self._since.pop(peer, None)
        return done

    async def _hand_on(self, peer: str, moved: Moved, taken: int, frames: Mapping[int, int]) -> bool:
        if not all(map(self._loaded, self._distribution.nodes())):
            # Whoever has them now may not be known, nor where to send what comes from now on.
            return False
        departed = self._keeping.departures.departed(peer)
        gone = await remote.call(peer, GONE, departed, self._node, timeout=CALL_TIMEOUT)
        if not (isinstance(gone, remote.Returned) and isinstance(gone.value, list)):
            return False
        clients: dict[str, dict[str, Sequence[int]]] = defaultdict(dict)
        away: dict[str, dict[str, Sequence[int]]] = defaultdict(dict)
        there = {self._node, *self._distribution.nodes()}
        for client_id, told in gone.value:
            owner = rightful(self._claims.read(client_id))
            if owner is None or owner == peer:
                # The claim of a node that is not back yet, which that one has seen.
                owner = told
            if owner in there:
                clients[owner][client_id] = moved.get(client_id, ())
            elif self._is_early(peer, owner):
                return False
            elif owner is not None:
                away[owner][client_id] = moved.get(client_id, ())
        upto = taken
        # More comes meanwhile, and nothing is for them there any more.
        while clients and (entries := self._keeping.spools.kept(peer, upto, frames)):
            for owner, whose in clients.items():
                for start in range(0, len(entries), CHUNK):
                    if not await self._hand_to(owner, whose, entries[start : start + CHUNK]):
                        return False
            upto = entries[-1][0]
        # Last, and at once, or it would be kept again with the next attempt.
        return all(
            self._keeping.keep_elsewhere(peer, owner, whose, taken, frames) for owner, whose in away.items()
        )

    def _is_early(self, peer: str, owner: str | None) -> bool:
        """Return whether the node that has some of these sessions, if known, may be about to come back
        too."""
        now = self._now()
        since = self._since.setdefault(peer, now)
        awaited = owner is not None or self._keeping.awaits_others(peer)
        return awaited and now - since < RETURN_TIMEOUT

    async def _hand_to(
        self, owner: str, clients: dict[str, Sequence[int]], entries: list[tuple[int, int, bytes]]
    ) -> bool:
        if owner == self._node:
            return await self._accept(clients, entries)
        answer = await remote.call(owner, FOLLOW, clients, entries, timeout=CALL_TIMEOUT)
        return isinstance(answer, remote.Returned) and bool(answer.value)

    def _gone(self, clients: list[str] | None, asker: str) -> list[tuple[str, str | None]]:
        """Those of them, and of those that have left since ``asker`` was seen, of which nothing is here, nor
        is waited for any more; and who has them, as far as is known. None: whoever has left."""
        sessions = self._table.sessions
        left = self._keeping.departures.left(asker, self._node)
        return [
            (client_id, rightful(self._claims.read(client_id)))
            for client_id in dict.fromkeys([*(clients or ()), *left])
            if client_id not in sessions or self._dismiss(client_id)
        ]

    async def _accept(self, clients: dict[str, Sequence[int]], entries: list[tuple[int, int, bytes]]) -> bool:
        """Take what another node kept for sessions that are here now; False: not now."""
        sessions, store = self._table.sessions, self._table.store
        # What is taken while the disc fails is not answered for, and would be handed on and queued again.
        if store is not None and not await store.settled(SETTLE_TIMEOUT):
            return False
        # A session that is moving takes it besides. To wait for the end of the move would be to wait for
        # oneself: the mark that the move waits for comes behind what is handed on.
        if any(self._is_moving(client_id) for client_id in clients if client_id not in sessions):
            return False
        for number, kept_at, records in entries:
            for client_id, numbers in clients.items():
                session = sessions.get(client_id)
                if session is None or not is_for(client_id, number, {client_id: numbers} if numbers else {}):
                    continue
                # Microseconds of the day, as epochs are: one that began clean later is another session.
                if not (session.clean and session.born > kept_at):
                    self._give(session, records)
        if store is not None:
            await store.settled()
        return True

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
