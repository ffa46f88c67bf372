"""Nodes that went while this one was away itself: what their persistent sessions want is asked of the others.

Rows of a node come from that node alone. One that starts, or comes from behind a cut, while another is away
has what that wanted when it saw it last: a session that began there since, or moved there, would miss all
that is published here. So every node that comes up is asked which nodes it knows to be away, and a node that
starts waits for the answers before it lets clients in.

Known limit: one that was away itself for longer than gossip remembers a member that has left
(``left_retention``) tells of it as of one that is away, and the others keep for it, within the limits of what
is kept, until it is seen again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any

import structlog

from gossamer.distribution import rpc as remote

if TYPE_CHECKING:
    from gossamer.distribution import Distribution
    from gossamer.gossip import MembershipView
    from gossamer.mqtt.handoff.keeper import Keeping
    from gossamer.routes import Router

log = structlog.get_logger(__name__)

ABSENT = "mqtt.absent"
CALL_TIMEOUT = 5.0
RETRY_INTERVAL = 0.25
PART_BYTES = 512 * 1024
STEP = 5000
"""Filters looked at in a turn."""

Part = list[list[object]]
"""Of several nodes: name, what :meth:`Keeping.absent` says of it, and filters."""


class Absences:
    """Asks nodes that come up which others are away, and answers them; not of those that have left
    permanently, of which the disc of one that was away then may still tell."""

    def __init__(
        self, keeping: Keeping, router: Router, distribution: Distribution, members: MembershipView
    ) -> None:
        self._members = members
        self._keeping = keeping
        self._router = router
        self._distribution = distribution
        self._node = distribution.runtime.node
        self._asking: set[str] = set()
        self._told: set[str] = set()
        """The nodes that are up and have said everything."""
        self._news = asyncio.Event()
        self._telling: dict[str, AsyncIterator[Part]] = {}
        """What is left to be said to nodes that ask."""
        self.functions: dict[str, Callable[..., object]] = {ABSENT: self._tell}
        """What other nodes call."""

    def node_up(self, peer: str) -> None:
        """A node is there."""
        if peer not in self._asking:
            self._asking.add(peer)
            self._distribution.runtime.spawn(self._ask, peer, label="mqtt_absences")

    def node_down(self, peer: str) -> None:
        """A node is gone."""
        self._telling.pop(peer, None)
        self._asking.discard(peer)
        self._told.discard(peer)
        self._news.set()

    async def learned(self, peers: Iterable[str]) -> None:
        """Wait until these have said everything, or are gone."""
        for peer in peers:
            while peer in self._distribution.nodes() and peer not in self._told:
                self._news.clear()
                await self._news.wait()

    async def _ask(self, peer: str) -> None:
        again = True
        while peer in self._asking:
            answer = await remote.call(peer, ABSENT, self._node, again, timeout=CALL_TIMEOUT)
            if peer not in self._asking:
                return
            part: Any = answer.value if isinstance(answer, remote.Returned) else None
            again = part is None
            if again:
                await asyncio.sleep(RETRY_INTERVAL)
                continue
            for name, sessions, moved, seen, filters in part:
                member = self._members.get(name)
                if member is None or not member.left:
                    self._keeping.learned(name, sessions, moved, filters, seen=seen)
            if not part:
                self._asking.discard(peer)
                self._told.add(peer)
                self._news.set()

    async def _tell(self, asker: str, again: bool) -> Part | None:
        """Return the next part of the nodes away to one that has come up, an empty one last; None: ask
        again."""
        if again:
            self._telling[asker] = self._parts(asker)
        parts = self._telling.get(asker)
        if parts is None:
            return None
        async for part in parts:
            return part
        self._telling.pop(asker, None)
        return []

    async def _parts(self, asker: str) -> AsyncIterator[Part]:
        for peer, *absence in self._keeping.absent():
            # Gossip does not know a node that went before this one started, or long ago.
            member = self._members.get(peer)
            if peer == asker or (member is not None and member.left):
                continue
            filters: list[str] = []
            size = 0
            for count, topic_filter in enumerate(self._router.persistent_filters(peer), 1):
                filters.append(topic_filter)
                size += len(topic_filter)
                if size >= PART_BYTES:
                    yield [[peer, *absence, filters]]
                    filters, size = [], 0
                if count % STEP == 0:
                    await asyncio.sleep(0)
            yield [[peer, *absence, filters]]
