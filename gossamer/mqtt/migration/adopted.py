"""The move of a session whose source is a copy that a quorum has: see ``adoption``.

What came since the copy was written last went nowhere but to the hints that other nodes keep for the one that
is down: each hands over those for this client, up to its mark; what it sends behind that comes here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from gossamer.distribution import rpc as remote
from gossamer.mqtt.messages.records import read_record
from gossamer.mqtt.migration import moves
from gossamer.mqtt.migration.moves import Action, Event
from gossamer.mqtt.migration.target import Incoming, Targets
from gossamer.mqtt.session import transfer
from gossamer.mqtt.session.qos2 import Once
from gossamer.mqtt.session.state import Item

if TYPE_CHECKING:
    from gossamer.mqtt.migration.claims import Claimant

log = structlog.get_logger(__name__)

T = TypeVar("T")

HANDED = "mqtt.handed"
"""Name of :meth:`HintedHandoff.handed` for other nodes."""
TAKEN = "mqtt.taken"
"""Name of :meth:`Departures.handed` for other nodes."""
CALL_TIMEOUT = 5.0
QUORUM_TIMEOUT = 3.0


def by_time(lists: Iterable[Iterable[tuple[int, T]]]) -> list[tuple[int, T]]:
    """Merge what several nodes keep, each with its time of day in µs, by time.

    What one of them keeps stays in its order: times of what it took at one moment differ by how long it took
    to read its clocks.
    """
    rising: list[tuple[int, T]] = []
    for kept in lists:
        latest = 0
        for at, record in kept:
            latest = max(latest, at)
            rising.append((latest, record))
    return sorted(rising, key=itemgetter(0))


class Adopted(Incoming):
    """The move of a session whose source is a copy; ``node`` had it."""

    def __init__(
        self,
        home: Targets,
        client_id: str,
        token: str,
        claimant: Claimant | None,
        *,
        node: str,
        state: tuple[dict[str, Any], list[Any]],
    ) -> None:
        self._node = node
        self._state = state
        self._had: set[str] = set()
        """Nodes that are away and may have had the session."""
        self._keepers: list[tuple[str, str]] = []
        """Nodes that have handed over all that they keep for one of these, and which."""
        super().__init__(home, client_id, token, claimant)

    def _rows(self) -> dict[str, int]:
        return {self._node: self._state[0]["epoch"]}

    async def _ask(self, node: str) -> Event:
        # The copy is this node's, so the session comes here, whether its client waits or not.
        return moves.Answered("state", self._state)

    async def _ask_release(self, node: str) -> list[Item] | None:
        """Return what nodes keep for the one that had the session, in the order in which they took it."""
        assert self._session is not None  # noqa: S101 - it was installed
        filters = list(self._session.subscriptions)
        self._had = {self._node, *self._home.handoff.keeper.departures.of(self._client_id)}
        nodes = [self._ownership.node, *self._distribution.nodes()]
        asked = [self._hints(keeper, away, filters) for keeper in nodes for away in self._had]
        return list(self._items(by_time(await asyncio.gather(*asked))))

    async def _hints(self, keeper: str, away: str, filters: list[str]) -> list[Any]:
        """Return what one node keeps for the one that is away."""
        found: list[Any] = []
        after = 0
        while True:
            asked = self._client_id, self.token, away, after, filters
            if keeper == self._ownership.node:
                page, after = await self._home.handoff.handed(*asked)
            else:
                gathered = self._home.handoff.gathered
                answer = await gathered.call(keeper, HANDED, *asked, timeout=CALL_TIMEOUT)
                if not isinstance(answer, remote.Returned):
                    log.warning("hints_not_handed_over", client_id=self._client_id, node=keeper)
                    return found
                value: Any = answer.value
                page, after = value
            found += page
            if not after:
                self._keepers.append((keeper, away))
                return found

    async def _perform(self, action: Action) -> Event | None:
        if isinstance(action, moves.Own):
            await self._owned()
        return await super()._perform(action)

    async def _owned(self) -> None:
        """Have those who handed hints over keep them for this node alone, once a quorum has the session."""
        session = self._session
        if session is not None and session.store is not None:
            if session.store.copies is not None:
                session.store.copies.taken(self._client_id, session.store.ticket)
            await session.store.settled(QUORUM_TIMEOUT, session.store.of((session,)))
        for keeper, away in self._keepers:
            if keeper == self._ownership.node:
                self._home.handoff.keeper.departures.handed(away, self._client_id)
            else:
                await self._home.handoff.gathered.call(keeper, TAKEN, self._client_id, away, timeout=1.0)

    def _items(self, found: Iterable[Any]) -> Iterable[Item]:
        session = self._session
        assert session is not None  # noqa: S101 - it was installed
        now = self._fanout.now()
        wanted = transfer.wanted_by(session, shared=False)
        known = Once.of(self._state[0]["once"])
        for _, record in found:
            message, _ = read_record(record, 0, len(record), now)
            message.qos = min(message.qos, wanted(message.topic))
            if not message.qos or (message.qos == 2 and not known.admit(message.id)):
                continue
            item = transfer.item_of_message(message, session.version, now)
            if item is not None:
                yield item
