"""Bodies of large retained messages: on a few nodes, fetched by the others on demand.

The index (``retained``) has the *tag* of a topic's body, new with every publish. A body is kept and fetched
under topic and tag together, so a wrong one cannot be served: without its tag in the index it is never found,
whichever node still has it.

Rules: 1. The nodes of a body are its publisher's and those that rank next for its topic (highest hash of
topic and node).  2. Each holder has a row of its own (``retained_copies``, owned): no two nodes write the
same one.  3. Where there are too few holders, the first by name gives the body to one more.  4. A body that
was not in the index for :data:`LINGER` seconds is dropped; not at once, since the index may be slower than
the body.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable, Iterator

from gossamer.distribution import Distribution
from gossamer.distribution import rpc as remote
from gossamer.errors import UnavailableError
from gossamer.mnesia_like import DiscError, LocalTable, OwnedTable

DISC_FAILS = (DiscError, UnavailableError)
LINGER = 30.0
KEEP = "mqtt.retained_keep"
FETCH = "mqtt.retained_fetch"
_PART = 64 * 1024
"""Most bytes of a body in a row on disc."""

Name = tuple[str, str]
"""Topic and tag."""


class Links:
    """Remote calls to other nodes."""

    def __init__(self, distribution: Distribution, timeout: float) -> None:
        self._distribution = distribution
        self._timeout = timeout

    def nodes(self) -> list[str]:
        """Return the nodes that can be reached."""
        return self._distribution.nodes()

    async def keep(self, node: str, topic: str, tag: str, record: bytes) -> bool:
        """Send a body to ``node`` to hold; False: it does not answer in time."""
        result = await remote.call(node, KEEP, topic, tag, record, timeout=self._timeout)
        return isinstance(result, remote.Returned) and result.value is True

    async def fetch(self, node: str, topic: str, tag: str) -> bytes | None:
        """Fetch a body from ``node``; None: it has none, or does not answer in time."""
        result = await remote.call(node, FETCH, topic, tag, timeout=self._timeout)
        value = result.value if isinstance(result, remote.Returned) else None
        return value if isinstance(value, bytes) else None


class Body:
    """A body that is held here."""

    __slots__ = ("record", "since")

    def __init__(self, record: bytes, since: float) -> None:
        self.record = record
        self.since = since


class Bodies:
    """Bodies of large retained messages: this node's own, and those it fetches from their holders.

    ``copies`` nodes hold each; ``current(topic)`` returns the tag in the index.
    """

    def __init__(
        self,
        *,
        node: str,
        copies: int,
        links: Links,
        table: OwnedTable,
        disc: LocalTable | None,
        current: Callable[[str], str | None],
        now: Callable[[], float],
    ) -> None:
        self.held: dict[Name, Body] = {}
        self._node = node
        self._copies = copies
        self._links = links
        self._table = table
        self._disc = disc
        self._current = current
        self._now = now
        self._fetching: dict[Name, asyncio.Future[bytes | None]] = {}

    def restore(self, rows: dict[tuple[str, str, int], bytes]) -> None:
        """Restore the bodies on disc; incomplete ones are dropped."""
        parts: dict[Name, list[bytes]] = {}
        for topic, tag, number in sorted(rows):
            found = parts.setdefault((topic, tag), [])
            if number == len(found):
                found.append(rows[topic, tag, number])
        for name, pieces in parts.items():
            if len(pieces[-1]) < _PART:
                self.held[name] = Body(b"".join(pieces), self._now())
                self._table.write(name, 1)

    def keep(self, topic: str, tag: str, record: bytes) -> None:
        """Hold a body here."""
        # First what may raise: a body that is held stands in the table too.
        if self._disc is not None:
            # One part more than there are bytes for: a short last part says that it is whole.
            for number in range(len(record) // _PART + 1):
                self._disc.write((topic, tag, number), record[number * _PART : (number + 1) * _PART])
        self.held[topic, tag] = Body(record, self._now())
        self._table.write((topic, tag), 1)

    def drop(self, name: Name) -> None:
        """Drop a body; if the disc fails it is held as before."""
        if self._disc is not None:
            # The last part first: without it, what is left of them is no body.
            for number in reversed(range(len(self.held[name].record) // _PART + 1)):
                self._disc.delete((*name, number))
        del self.held[name]
        self._table.delete(name)

    def holders(self, topic: str, tag: str) -> list[str]:
        """Return the nodes within reach with a row for a body, this one too; in the order of names."""
        reachable = {self._node, *self._links.nodes()}
        return sorted(reachable & self._table.read((topic, tag)).keys())

    async def spread(self, topic: str, tag: str) -> int:
        """Send a body that is held here to other nodes; return how many hold it now."""
        body = self.held.get((topic, tag))
        if body is None:
            return 0
        holders = self.holders(topic, tag)
        others = [node for node in self._ranked(topic) if node not in holders]
        missing = max(0, self._copies - len(holders))
        asked = (self._links.keep(node, topic, tag, body.record) for node in others[:missing])
        return len(holders) + sum(await asyncio.gather(*asked))

    async def fetch(self, topic: str, tag: str) -> bytes | None:
        """Return a body, from this node or another; None: no node within reach has it."""
        name = (topic, tag)
        body = self.held.get(name)
        if body is not None:
            return body.record
        # Many subscribers ask for the same body at the same time.
        future = self._fetching.get(name)
        if future is None:
            future = self._fetching[name] = asyncio.get_running_loop().create_future()
            try:
                future.set_result(await self._ask(topic, tag))
            finally:
                del self._fetching[name]
                if not future.done():
                    future.set_result(None)
        return await asyncio.shield(future)

    async def _ask(self, topic: str, tag: str) -> bytes | None:
        holders = self.holders(topic, tag)
        # Its publisher's node has it, even if its row is not here yet.
        publisher = tag.partition("/")[0]
        if publisher not in holders and publisher in self._links.nodes():
            holders.append(publisher)
        for node in holders:
            record = await self._links.fetch(node, topic, tag)
            if record is not None:
                return record
        return None

    def upkeep(self) -> Iterator[Awaitable[int]]:
        """Drop bodies that are not in the index; yield awaitables that make missing copies."""
        now = self._now()
        for name, body in list(self.held.items()):
            topic, tag = name
            if self._current(topic) != tag:
                if now - body.since > LINGER:
                    # Tried again next time; the others may need copies meanwhile.
                    with contextlib.suppress(*DISC_FAILS):
                        self.drop(name)
                continue
            holders = self.holders(topic, tag)
            if len(holders) < self._copies and holders[0] == self._node and now - body.since > 1.0:
                yield self.spread(topic, tag)

    def _ranked(self, topic: str) -> list[str]:
        def rank(node: str) -> bytes:
            return hashlib.blake2b(f"{topic}\0{node}".encode(), digest_size=8).digest()

        return sorted(self._links.nodes(), key=rank)
