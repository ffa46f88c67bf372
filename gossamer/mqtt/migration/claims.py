"""Two connections of one client, on two nodes: which of them is served.

Each has a *stamp*: the wall clock at its CONNECT in microseconds, raised above every epoch of the client that
its node has seen. The epoch of a claim is the stamp of the connection that made it, so of two concurrent
claims to a client the later wins, whatever the names of the nodes.

Rules: 1. A connection is ended for a claim of another node only while there is a connection behind that
claim, and a later one. The claim of a connection that has ended is outbid, unless its node went on with a
copy of the session: what it has told the client since counts.  2. A node whose own client came
later than the connection that requests its session keeps it; otherwise it answers ``served`` once, and gives
the session when asked again, since that connection may have ended meanwhile: then no node asks again.  3.
Clocks are compared only between claims that crossed. A node that fetches a session sends how long ago its
client came, which needs no time of day.

Rejected: a coordinator for each client, chosen by hashing. It costs a round trip for nearly every CONNECT,
and the order in which two requests reach it is no better than two clocks of one network.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from gossamer.distribution import rpc as remote
from gossamer.mqtt.copies.succession import note_successor
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.transfer import rightful

if TYPE_CHECKING:
    from gossamer.mqtt.migration.ownership import Ownership
    from gossamer.mqtt.migration.source import Sources
    from gossamer.mqtt.publish.core import Core

SERVES = "mqtt.serves"
"""Name of :meth:`Contests.serves` for other nodes."""
MOVES = "mqtt.moves"
"""Name of the function that returns the moves which brought a session to a node."""
SERVES_TIMEOUT = 1.0
"""Seconds for which two connections are served at most while one of the nodes does not answer."""
ROUNDS = 5
RETRY_INTERVAL = 0.1

Standing = Literal["", "served", "newer"]
FOREIGN: Final = "foreign"
"""Answer of a node whose session is another user's."""
Fetched: TypeAlias = Literal["here", "elsewhere", "foreign", "unavailable"]


class Claimant(Protocol):
    """A connection that requests a session."""

    stamp: int
    """Its stamp: microseconds of the day, for comparison with connections to other nodes."""
    came: float
    """Time of its CONNECT on this node's monotonic clock."""
    username: str | None
    """Its user; None: anonymous."""

    @property
    def is_closed(self) -> bool: ...


async def moves_at(node: str, client_id: str) -> list[str] | None:
    """Return the tokens of the latest moves that brought a session to ``node``; None: it does not say."""
    answer = await remote.call(node, MOVES, client_id, timeout=SERVES_TIMEOUT)
    if not isinstance(answer, remote.Returned) or answer.value is None:
        return None
    tokens: Any = answer.value
    return list(tokens)


class Contests:
    """Stamps connections, and decides which of two of one client came later.

    ``claimant(client)`` returns the connection that waits for a session on its way here, if any; ``asks()``
    whether sessions are copied.
    """

    def __init__(
        self,
        core: Core,
        ownership: Ownership,
        sources: Sources,
        spawn: Callable[..., object],
        claimant: Callable[[str], Claimant | None],
        *,
        asks: Callable[[], bool],
    ) -> None:
        self._ownership = ownership
        self._sources = sources
        self._spawn = spawn
        self._sessions = core.table.sessions
        self._clock = core.clock
        self._claimant = claimant
        self._asks = asks
        self._open: set[str] = set()

    def stamp(self, client_id: str) -> int:
        """Return the stamp of a connection that comes now."""
        session = self._sessions.get(client_id)
        known = max(self._ownership.claims(client_id).values(), default=0)
        now = int(self._clock.wall() * 1e6)
        return max(now, known + 1, 0 if session is None else session.epoch + 1)

    def serves(self, client_id: str) -> int:
        """Return the stamp of the client's connection here; 0: it has none."""
        channel = self._channel(client_id)
        return 0 if channel is None else channel.stamp

    def age(self, channel: Claimant | None) -> float:
        """Return the seconds since a connection came; 0 for None, where the node itself fetches a session."""
        return 0.0 if channel is None else self._clock.monotonic() - channel.came

    def standing(self, client_id: str, age: float, *, insist: bool) -> Standing:
        """Return why a connection of that age elsewhere may not have the session; blank: it may.
        ``insist``: it asks again after ``served``."""
        channel = self._channel(client_id)
        if channel is None:
            return ""
        if self.age(channel) < age:
            return "newer"
        return "" if insist else "served"

    def user_of(self, channel: Claimant | None) -> list[str | None]:
        """Return ``[user]`` of a connection, for other nodes; empty where the node itself fetches."""
        return [] if channel is None else [channel.username]

    def begin(self, session: Session) -> None:
        """Decide whether a session that is connected here yields to another node's claim."""
        if session.client_id not in self._open:
            self._open.add(session.client_id)
            self._spawn(self._settle, session, label="mqtt_contest")

    async def _settle(self, session: Session) -> None:
        owners, client_id = self._ownership, session.client_id
        try:
            for _ in range(ROUNDS):
                owner, channel = rightful(owners.claims(client_id)), session.channel
                if owner in (None, owners.node) or self._sessions.get(client_id) is not session:
                    return
                assert owner is not None  # noqa: S101 - or it had returned
                if channel is not None:
                    answer = await remote.call(owner, SERVES, client_id, timeout=SERVES_TIMEOUT)
                    began = await self._begun(owner, client_id)
                    if session.channel is not channel or rightful(owners.claims(client_id)) != owner:
                        continue
                    theirs = answer.value if isinstance(answer, remote.Returned) else None
                    later = isinstance(theirs, int) and (theirs, owner) < (channel.stamp, owners.node)
                    if later and began is not None and not self._went_on(session, began):
                        owners.outbid(session)
                        return
                self._sources.supersede(session, owner)
                return
        finally:
            self._open.discard(client_id)

    async def _begun(self, owner: str, client_id: str) -> list[str] | None:
        """Return what a session of another node began with; None: it does not say in time."""
        if not self._asks():
            return []
        for _ in range(ROUNDS):
            if (moves := await moves_at(owner, client_id)) is not None:
                return moves
            # It may be moving.
            await asyncio.sleep(RETRY_INTERVAL)
        return None

    def _went_on(self, session: Session, began: list[str]) -> bool:
        """Return whether another node, which says what its session ``began`` with, had a copy of this one."""
        note_successor(session, began, self._ownership.node)
        return session.store is not None and session.store.is_usurped(session)

    def _channel(self, client_id: str) -> Claimant | None:
        session = self._sessions.get(client_id)
        channel: Claimant | None = None if session is None else session.channel
        return channel or self._claimant(client_id)
