"""Comparison of this node's routes with the subscriptions of its peers: anti-entropy of routes.

Tables compare their rows with their owners' (:mod:`gossamer.mnesia_like`), and each node compares its index
with its tables. This closes the chain: filters with subscribers at a peer against filters that lead there in
the index here.

A digest is the sum of the CRC-32 of all filters in each of 256 buckets, so that a few differences show in a
few buckets; all rows of these are compared, and those that differ once more after a moment, since rows are in
transit all the time. A row that differs the same way twice is wrong. The peer, as the owner of its rows, then
announces them again, which corrects every copy by the usual way of rows.

Rules: 1. A peer that does not answer is counted and skipped.  2. Filters are walked in steps, so as not to
block the loop.  3. Requests and answers are bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from itertools import chain
from typing import Any
from zlib import crc32

import structlog

from gossamer.mnesia_like import OwnedTable
from gossamer.routes.audit.verify import Findings
from gossamer.routes.forwarding.nodes import NodeSlot
from gossamer.routes.index.index import local_of, mask_of
from gossamer.routes.resolver import Resolver
from gossamer.routes.shared import is_shared
from gossamer.routes.subscriptions import PERSISTENT, PRESENT

log = structlog.get_logger(__name__)

Ask = Callable[..., Awaitable[Any]]
"""``await ask(peer, function, *args)`` returns the result of the peer's function; None: no answer."""

DIGEST, ROWS, VALUES, ANNOUNCE = "routes.digest", "routes.rows", "routes.values", "routes.announce"

BUCKETS = 256
MOST_ROWS = 20_000
"""Most rows in an answer, and filters in a request."""
SETTLE = 1.0
"""Seconds that a row may be in transit: after them a difference is checked again."""
FRESH = 5.0
"""Seconds for which a digest is reused."""
_STEP = 500


class PeerAudit:
    """Comparison of this node's index with the subscriptions of each peer."""

    def __init__(
        self,
        node: str,
        *,
        resolver: Resolver,
        row: Callable[[str], int],
        table: OwnedTable,
        ask: Ask,
    ) -> None:
        self._node = node
        self._index = resolver.index
        self._shared = resolver.shared
        self._nodes = resolver.nodes
        self._row = row
        self._table = table
        self._ask = ask
        self._digest: tuple[float, list[int]] | None = None

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Functions that the audits of other nodes call, by name."""
        return {
            DIGEST: self._answer_digest,
            ROWS: self._answer_rows,
            VALUES: self._answer_values,
            ANNOUNCE: self._announce,
        }

    # Asking.

    async def compare(self, findings: Findings, *, repair: bool) -> None:
        """Compare with every peer that is up."""
        for slot in self._nodes:
            if slot.up:
                await self._compare(slot.name, findings, repair)

    async def _compare(self, peer: str, findings: Findings, repair: bool) -> None:
        theirs = await self._ask(peer, DIGEST)
        if not _is_digest(theirs):
            findings.silent += 1
            return
        mine = await self._tally(peer)
        findings.peers += 1
        buckets = [bucket for bucket in range(BUCKETS) if mine[bucket] != theirs[bucket]]
        if not buckets:
            return
        first = await self._differences(peer, buckets)
        if not first:
            return
        await asyncio.sleep(SETTLE)
        asked = list(first)
        values = await self._ask(peer, VALUES, asked)
        if not isinstance(values, list) or len(values) != len(asked):
            return
        wrong = [
            topic_filter
            for topic_filter, value in zip(asked, values, strict=True)
            if first[topic_filter] == (value, self._at(peer, topic_filter))
            and value != self._at(peer, topic_filter)
        ]
        if not wrong:
            return
        wanted = sum(1 for topic_filter in wrong if first[topic_filter][0])
        findings.unheard += wanted
        findings.unwanted += len(wrong) - wanted
        log.warning("routes_differ_from_peer", peer=peer, unheard=wanted, unwanted=len(wrong) - wanted)
        if repair:
            await self._ask(peer, ANNOUNCE, wrong)
            await asyncio.sleep(SETTLE)

    async def _differences(self, peer: str, buckets: list[int]) -> dict[str, tuple[int, int]]:
        """Return filters of these buckets whose values differ at the peer and here, with both values."""
        answer = await self._ask(peer, ROWS, buckets)
        if not isinstance(answer, list) or len(answer) != 2 or not isinstance(answer[1], dict):
            return {}
        done, rows = set(answer[0]), answer[1]
        found = {
            topic_filter: (value, self._at(peer, topic_filter))
            for topic_filter, value in rows.items()
            if value != self._at(peer, topic_filter)
        }
        async for topic_filter, value in self._walk(peer):
            if _bucket(_sum(topic_filter, 1)) in done and topic_filter not in rows:
                found[topic_filter] = (0, value)
            if len(found) >= MOST_ROWS:
                break
        return found

    def _at(self, peer: str, topic_filter: str) -> int:
        """Return a peer's row in the index here: its value, or the row of a share group; 0: none."""
        if is_shared(topic_filter):
            group = self._shared.get(topic_filter)
            return 0 if group is None else group.others.get(peer, 0)
        slot = self._nodes.get(peer)
        return 0 if slot is None else _value(slot, mask_of(self._index.get(topic_filter)))

    # Answering.

    async def _answer_digest(self) -> list[int]:
        now = asyncio.get_running_loop().time()
        if self._digest is None or now - self._digest[0] > FRESH:
            self._digest = (now, await self._tally(self._node))
        return self._digest[1]

    async def _answer_rows(self, buckets: list[int]) -> list[object]:
        """Return ``[buckets, values of their rows]``, as many whole buckets as fit an answer."""
        by_bucket: dict[int, dict[str, int]] = {bucket: {} for bucket in buckets}
        async for topic_filter, value in self._walk(self._node):
            rows = by_bucket.get(_bucket(_sum(topic_filter, 1)))
            if rows is not None:
                rows[topic_filter] = value
        answer: dict[str, int] = {}
        done: list[int] = []
        for bucket, rows in by_bucket.items():
            if answer and len(answer) + len(rows) > MOST_ROWS:
                break
            answer.update(rows)
            done.append(bucket)
        return [done, answer]

    def _answer_values(self, filters: list[str]) -> list[int]:
        return [self._here(topic_filter) for topic_filter in filters[:MOST_ROWS]]

    def _announce(self, filters: list[str]) -> int:
        """Write or delete these rows again, so that every copy gets a delta for them."""
        for topic_filter in filters[:MOST_ROWS]:
            value = self._here(topic_filter)
            if value:
                self._table.delete(topic_filter)
                self._table.write(topic_filter, value)
            else:
                self._table.write(topic_filter, 1)
                self._table.delete(topic_filter)
        log.warning("routes_announced_again", count=len(filters))
        return len(filters)

    def _here(self, topic_filter: str) -> int:
        """Return the value that this node's row should have; 0: none."""
        if is_shared(topic_filter):
            group = self._shared.get(topic_filter)
            return 0 if group is None else group.row
        return self._row(topic_filter) if any(True for _ in local_of(self._index.get(topic_filter))) else 0

    # Walking.

    async def _tally(self, node: str) -> list[int]:
        sums = [0] * BUCKETS
        async for topic_filter, value in self._walk(node):
            # The bucket of a filter must not depend on its value.
            sums[_bucket(_sum(topic_filter, 1))] += _sum(topic_filter, value)
        return [total & 0xFFFFFFFF for total in sums]

    async def _walk(self, node: str) -> AsyncIterator[tuple[str, int]]:
        """Yield every filter that leads to a node, this one or a peer, and the value of its row."""
        value_of = self._here if node == self._node else partial(self._at, node)
        names = chain(self._index.filters(), [group.name for group in self._shared])
        for number, topic_filter in enumerate(names, 1):
            if number % _STEP == 0:
                await asyncio.sleep(0)
            value = value_of(topic_filter)
            if value:
                yield topic_filter, value


def _value(slot: NodeSlot, mask: int) -> int:
    """Return the value of a node's row from the mask of its filter; 0: none."""
    if not mask & slot.bit:
        return 0
    return PERSISTENT if mask & slot.persistent_bit else PRESENT


def _sum(topic_filter: str, value: int) -> int:
    return crc32(topic_filter.encode()) if value == 1 else crc32(b"%d" % value, crc32(topic_filter.encode()))


def _bucket(total: int) -> int:
    return total % BUCKETS


def _is_digest(answer: object) -> bool:
    return isinstance(answer, list) and len(answer) == BUCKETS and all(type(total) is int for total in answer)
