"""Scatter-gather: other nodes are asked on behalf of a caller, and one answer is made of theirs.

Rules: 1. A node that is down, or slow, leaves an answer that says so, within a bounded time; it is not asked
again in the same list.  2. However long the list, what is held is a page of each node.  3. Whatever a node
answers counts as data: what cannot be read is a node that did not answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Protocol, TypeVar
from urllib.parse import urlencode

import msgspec

from gossamer.api.http.tokens import Principal
from gossamer.api.model.cluster import NodeInfo
from gossamer.api.peers.merge import Lines, lines_of, merged
from gossamer.api.peers.paging import Key, cursor_of
from gossamer.api.peers.requests import Answer, Ask, More, PeerSilentError, ask_of
from gossamer.errors import GossamerError, UsageError

__all__ = ["MergedPage", "Neighbours", "Peers", "Row"]

T = TypeVar("T")
Row = dict[str, Any]
Fetch = Callable[[], Awaitable[tuple[Sequence[Row], str | None]]]

TIMEOUT = 2.0
"""Seconds that a node has for each page."""
STREAM_TIMEOUT = 30.0
"""Seconds that it has for the next piece of a long answer."""


class Neighbours(Protocol):
    """The part of a node's view that peers are found and asked by."""

    @property
    def name(self) -> str:
        """The node's name."""

    def nodes(self) -> Sequence[NodeInfo]:
        """Every node with the state of the link to it."""

    async def ask_peer(self, node: str, ask: Ask | More, timeout: float) -> Answer:
        """The answer of another node's API. Raises PeerSilentError if there is none."""


class _Page(msgspec.Struct):
    items: Sequence[Row]
    next: str | None = None


class MergedPage(msgspec.Struct):
    """Some rows of all nodes, in order; ``missing`` is who did not answer, and why."""

    items: list[Row]
    next: str | None
    missing: dict[str, str]


class Peers:
    """The nodes of the cluster, asked on behalf of ``principal``."""

    def __init__(self, view: Neighbours, principal: Principal) -> None:
        self._view = view
        self._principal = principal

    async def ask(
        self, node: str, method: str, target: str, body: bytes = b"", *, timeout: float = TIMEOUT
    ) -> Answer:
        """The answer of another node to a request.

        Raises:
            UsageError: there is no such node.
            PeerSilentError: it gave none.
        """
        known = [row.name for row in self._view.nodes()]
        if node not in known:
            raise UsageError.about("node", repr(node[:100]), f"one of {', '.join(known)}")
        return await self._view.ask_peer(node, ask_of(self._principal, method, target, body), timeout)

    async def get(self, node: str, target: str, read: Callable[[bytes], T], *, timeout: float = TIMEOUT) -> T:
        """Another node's answer as ``read`` has it; what it cannot read is a PeerSilentError, too."""
        answer = await self._answered(node, target, timeout)
        try:
            return read(answer.body)
        except (msgspec.DecodeError, ValueError, TypeError, LookupError) as error:
            raise PeerSilentError(node=node, reason=f"its answer makes no sense: {error}") from None

    async def gather(
        self,
        target: str,
        read: Callable[[bytes], T],
        *,
        own: Callable[[], Awaitable[T]],
        node: str | None = None,
        timeout: float = TIMEOUT,
    ) -> tuple[list[T], dict[str, str]]:
        """The answers of every node that is not gone, or of ``node``, and who gave none and why."""
        asked, missing = self._select(node)

        async def one(name: str) -> list[T]:
            try:
                if name == self._view.name:
                    return [await own()]
                return [await self.get(name, target, read, timeout=timeout)]
            except GossamerError as error:
                missing[name] = str(error)
                return []

        found = await asyncio.gather(*map(one, asked))
        return [answer for answers in found for answer in answers], missing

    async def page(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        own: Fetch,
        key: Callable[[Row], Key],
        limit: int,
        after: str | None,
        node: str | None = None,
    ) -> MergedPage:
        """The first ``limit`` rows of the lists at ``path`` of all nodes; ``own`` is this one's page."""

        def keyed(page: _Page) -> tuple[list[tuple[Key, Row]], bool]:
            return [(key(row), row) for row in page.items], page.next is not None

        async def fetch() -> tuple[list[tuple[Key, Row]], bool]:
            return keyed(_Page(*await own()))

        query = _query(params, limit=limit, after=after)
        pages, missing = await self.gather(
            f"{path}?{query}",
            lambda body: keyed(msgspec.json.decode(body, type=_Page)),
            own=fetch,
            node=node,
        )
        rows = heapq.merge(*(page for page, _ in pages), key=itemgetter(0))
        found = list(islice(rows, limit))
        more = any(unfinished for _, unfinished in pages) or next(rows, None) is not None
        following = cursor_of(found[-1][0]) if more and found else None
        return MergedPage([row for _, row in found], following, missing)

    def stream(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        own: AsyncGenerator[Lines, None],
        fields: Sequence[str],
        after: str | None,
        node: str | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """The same as JSON lines, all of them; ``fields`` of a row are its key."""
        asked, missing = self._select(node)
        target = f"{path}?{_query(params, format='ndjson', after=after)}"
        parts = {
            name: own if name == self._view.name else self._lines(name, target, fields) for name in asked
        }
        return merged(parts, missing)

    async def rest(
        self, node: str, cursor: str, *, timeout: float = STREAM_TIMEOUT
    ) -> AsyncGenerator[bytes, None]:
        """The pieces of an answer after the first; the other node is told when no more are wanted."""
        try:
            while cursor:
                answer = await self._view.ask_peer(node, More(cursor), timeout)
                cursor = answer.cursor
                # An empty line when nothing new has come, so that a reader who is gone is found out.
                yield answer.body or b"\n"
        finally:
            if cursor:
                with contextlib.suppress(PeerSilentError):
                    await self._view.ask_peer(node, More(cursor, over=True), TIMEOUT)

    # -- inside

    def _select(self, node: str | None) -> tuple[Sequence[str], dict[str, str]]:
        """The nodes to ask, and those that cannot be asked."""
        asked, missing = list[str](), dict[str, str]()
        for row in self._view.nodes():
            if row.status == "left" or node not in (None, row.name):
                continue
            if row.link != "self" and row.status in ("offline", "stopped"):
                missing[row.name] = f"it is {row.status}"
            else:
                asked.append(row.name)
        if node is not None and not asked and not missing:
            missing[node] = "no node of this cluster has this name"
        return asked, missing

    async def _answered(self, node: str, target: str, timeout: float = TIMEOUT) -> Answer:
        answer = await self.ask(node, "GET", target, timeout=timeout)
        if answer.status != 200:
            raise PeerSilentError(node=node, reason=f"it answered {answer.status}")
        return answer

    async def _lines(self, node: str, target: str, fields: Sequence[str]) -> AsyncGenerator[Lines, None]:
        async with (
            contextlib.aclosing(self._pieces(node, target)) as pieces,
            contextlib.aclosing(lines_of(node, pieces, fields)) as lines,
        ):
            async for part in lines:
                yield part

    async def _pieces(self, node: str, target: str) -> AsyncGenerator[bytes, None]:
        answer = await self._answered(node, target)
        async with contextlib.aclosing(self.rest(node, answer.cursor, timeout=TIMEOUT)) as rest:
            yield answer.body
            async for piece in rest:
                yield piece


def _query(params: Mapping[str, str], **more: str | int | None) -> str:
    """The query for another node's own part of a list: as here, but for what concerns all nodes."""
    given: dict[str, str | int | None] = {**params, "node": None, "scope": "node", **more}
    return urlencode({name: value for name, value in given.items() if value is not None})
