"""Absent nodes that this one did not see go: their sessions' filters are requested from the other nodes.

The rows of a node come from that node alone. A node that starts, or returns from a partition, while another
is away has that one's rows as it saw them last: a session that began there since, or moved there, would miss
all that is published here. So every node that comes up is asked which nodes are away, and a node that starts
waits for the answers before it accepts clients.

Known limit: a node that was away for longer than gossip remembers a member that has left (``left_retention``)
reports that member as away, and the others keep hints for it, within their limits, until it is seen again.
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
    from gossamer.mqtt.handoff.keeper import HintKeeper
    from gossamer.routes import Router

log = structlog.get_logger(__name__)

ABSENT = "mqtt.absent"
CALL_TIMEOUT = 5.0
RETRY_INTERVAL = 0.25
PART_BYTES = 512 * 1024
STEP = 5000
"""Filters examined in a turn of the loop."""

Part = list[list[object]]
"""For each node in the part: its name, the rest of its item in :meth:`HintKeeper.absent`, and filters."""


class Absences:
    """Asks nodes that come up which others are away, and answers the same question; nodes that have left
    permanently are skipped, though the disc of a node that missed it may still list them."""

    def __init__(
        self, keeper: HintKeeper, router: Router, distribution: Distribution, members: MembershipView
    ) -> None:
        self._members = members
        self._keeper = keeper
        self._router = router
        self._distribution = distribution
        self._node = distribution.runtime.node
        self._asking: set[str] = set()
        self._answered: set[str] = set()
        """Nodes that are up and have answered in full."""
        self._news = asyncio.Event()
        self._answers: dict[str, AsyncIterator[Part]] = {}
        """By node that asks, the parts that it has not fetched yet."""
        self.functions: dict[str, Callable[..., object]] = {ABSENT: self._answer}
        """Functions that other nodes call, by name."""

    def node_up(self, peer: str) -> None:
        """Ask a node that is up."""
        if peer not in self._asking:
            self._asking.add(peer)
            self._distribution.runtime.spawn(self._ask, peer, label="mqtt_absences")

    def node_down(self, peer: str) -> None:
        """Stop asking and answering a node that is down."""
        self._answers.pop(peer, None)
        self._asking.discard(peer)
        self._answered.discard(peer)
        self._news.set()

    async def learned(self, peers: Iterable[str]) -> None:
        """Wait until these have answered in full, or are down."""
        for peer in peers:
            while peer in self._distribution.nodes() and peer not in self._answered:
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
                    self._keeper.learned(name, sessions, moved, filters, seen=seen, by=peer)
            if not part:
                self._asking.discard(peer)
                self._answered.add(peer)
                self._news.set()

    async def _answer(self, asker: str, again: bool) -> Part | None:
        """Return the next part of the answer, an empty one last; ``again`` starts over, as None asks to."""
        if again:
            self._answers[asker] = self._parts(asker)
        parts = self._answers.get(asker)
        if parts is None:
            return None
        async for part in parts:
            return part
        self._answers.pop(asker, None)
        return []

    async def _parts(self, asker: str) -> AsyncIterator[Part]:
        for peer, *absence in self._keeper.absent():
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
