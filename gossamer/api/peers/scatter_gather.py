"""Long lists over all nodes: each is asked for its own part, and the parts are merged as they come.

Rules: 1. A node that is down, or slow, leaves a list that says so, within a bounded time; it is not asked
again in the same list.  2. However long the list, what is held is a page of each node.  3. Whatever a node
answers counts as data: a row that cannot be read is a node that did not answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import msgspec

from gossamer.api.http.tokens import Principal
from gossamer.api.peers.merge import Lines, lines_of, merged
from gossamer.api.peers.paging import Key, cursor_of
from gossamer.api.peers.requests import Answer, More, PeerSilentError, ask_of
from gossamer.api.view import NodeView
from gossamer.errors import GossamerError, UsageError

__all__ = ["MergedPage", "NoSuchNodeError", "Wide", "WideList"]

Row = dict[str, Any]
Fetch = Callable[[int, str | None], Awaitable[tuple[Sequence[Row], str | None]]]

PATIENCE = 2.0
"""Seconds that a node has for each page."""
LONG_PATIENCE = 30.0
"""Seconds that it has for the next piece of a long answer."""
PAGE = 1000


class _Page(msgspec.Struct):
    items: list[Row]
    next: str | None = None


@dataclass(slots=True)
class _Source:
    """One node's part of a list, a page at a time."""

    node: str
    fetch: Fetch
    cursor: str | None
    rows: deque[Row] = field(default_factory=deque)
    over: bool = False

    async def fill(self, limit: int) -> None:
        rows, self.cursor = await self.fetch(limit, self.cursor)
        self.rows.extend(rows)
        self.over = self.cursor is None


class NoSuchNodeError(UsageError):
    """No node of the cluster has this name."""

    def __init__(self, *, name: str, known: Sequence[str]) -> None:
        self.name = name
        super().__init__(f"node: got {name[:100]!r}, expected one of {', '.join(known)}")


@dataclass(slots=True)
class MergedPage:
    """Some rows of all nodes, in order; ``missing`` is who did not answer, and why."""

    items: list[Row]
    next: str | None
    missing: dict[str, str]


class WideList:
    """One walk through one list of all nodes."""

    def __init__(
        self, sources: Iterable[_Source], key: Callable[[Row], Key], missing: dict[str, str]
    ) -> None:
        self._sources = list(sources)
        self._key = key
        self.missing = missing

    async def rows(self, *, page: int = PAGE) -> AsyncGenerator[Row, None]:
        """All rows, in the order of their keys."""
        heads: list[tuple[Key, int]] = []
        empty = list(range(len(self._sources)))
        while True:
            filled = await asyncio.gather(*(self._fill(self._sources[at], page) for at in empty))
            for at, there in zip(empty, filled, strict=True):
                if there:
                    heapq.heappush(heads, (self._key(self._sources[at].rows[0]), at))
            empty = []
            while heads and not empty:
                _, at = heads[0]
                source = self._sources[at]
                yield source.rows.popleft()
                if source.rows:
                    heapq.heapreplace(heads, (self._key(source.rows[0]), at))
                else:
                    heapq.heappop(heads)
                    if not source.over:
                        empty.append(at)
            if not empty:
                return

    async def page(self, limit: int) -> MergedPage:
        """The first ``limit`` rows."""
        items: list[Row] = []
        rows = self.rows(page=limit + 1)
        following = None
        try:
            async for row in rows:
                if len(items) == limit:
                    following = cursor_of(self._key(items[-1]))
                    break
                items.append(row)
        finally:
            await rows.aclose()
        return MergedPage(items, following, self.missing)

    async def _fill(self, source: _Source, limit: int) -> bool:
        try:
            await source.fill(limit)
        except (GossamerError, msgspec.DecodeError) as error:
            self.missing[source.node] = str(error)
            source.over = True
        return bool(source.rows)


class Wide:
    """What other nodes are asked for on behalf of who asks here."""

    def __init__(self, view: NodeView, principal: Principal) -> None:
        self._view = view
        self._principal = principal

    def list(
        self,
        path: str,
        params: Mapping[str, str | int | bool | None],
        *,
        own: Fetch,
        key: Callable[[Row], Key],
        after: str | None,
        node: str | None = None,
    ) -> WideList:
        """The list at ``path`` of every node that is not gone, or of ``node``; ``own`` is this one's."""
        asked, missing = self.whom(node)
        sources = [
            _Source(name, own if name == self._view.name else self._pages(name, path, params), after)
            for name in asked
        ]
        return WideList(sources, key, missing)

    def stream(
        self,
        path: str,
        params: Mapping[str, str | int | bool | None],
        *,
        own: AsyncGenerator[Lines, None],
        fields: Sequence[str],
        after: str | None,
        node: str | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """The same as JSON lines, all of them; ``fields`` of a row are its key."""
        asked, missing = self.whom(node)
        query = _query(params, format="ndjson", after=after)
        parts = {
            name: own if name == self._view.name else self._lines(name, f"{path}?{query}", fields)
            for name in asked
        }
        return merged(parts, missing)

    def whom(self, node: str | None) -> tuple[Sequence[str], dict[str, str]]:
        """Who is asked for a list, and who cannot be."""
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

    async def ask(
        self, node: str, method: str, target: str, body: bytes = b"", *, patience: float = PATIENCE
    ) -> Answer:
        """The answer of another node to a request.

        Raises:
            NoSuchNodeError: there is no such node.
            PeerSilentError: it gave none.
        """
        known = [row.name for row in self._view.nodes()]
        if node not in known:
            raise NoSuchNodeError(name=node, known=known)
        return await self._view.ask_peer(node, ask_of(self._principal, method, target, body), patience)

    async def rest(
        self, node: str, cursor: str, *, patience: float = LONG_PATIENCE
    ) -> AsyncGenerator[bytes, None]:
        """The pieces of an answer after the first; the other node hears when nobody wants more of them."""
        try:
            while cursor:
                answer = await self._view.ask_peer(node, More(cursor), patience)
                cursor = answer.cursor
                # An empty line when nothing new has come, so that a reader who is gone is found out.
                yield answer.body or b"\n"
        finally:
            if cursor:
                with contextlib.suppress(PeerSilentError):
                    await self._view.ask_peer(node, More(cursor, over=True), PATIENCE)

    def _pages(self, node: str, path: str, params: Mapping[str, str | int | bool | None]) -> Fetch:
        async def fetch(limit: int, after: str | None) -> tuple[Sequence[Row], str | None]:
            answer = await self.ask(node, "GET", f"{path}?{_query(params, limit=limit, after=after)}")
            if answer.status != 200:
                raise PeerSilentError(node=node, reason=f"it answered {answer.status}")
            page = msgspec.json.decode(answer.body, type=_Page)
            return page.items, page.next

        return fetch

    async def _lines(self, node: str, target: str, fields: Sequence[str]) -> AsyncGenerator[Lines, None]:
        async with (
            contextlib.aclosing(self._pieces(node, target)) as pieces,
            contextlib.aclosing(lines_of(node, pieces, fields)) as lines,
        ):
            async for part in lines:
                yield part

    async def _pieces(self, node: str, target: str) -> AsyncGenerator[bytes, None]:
        answer = await self.ask(node, "GET", target)
        if answer.status != 200:
            raise PeerSilentError(node=node, reason=f"it answered {answer.status}")
        async with contextlib.aclosing(self.rest(node, answer.cursor, patience=PATIENCE)) as rest:
            yield answer.body
            async for piece in rest:
                yield piece


def _query(params: Mapping[str, str | int | bool | None], **more: str | int | bool | None) -> str:
    """What another node is asked for its own part of a list."""
    given = {**params, "scope": "node", **more}
    return urlencode({name: _text(value) for name, value in given.items() if value is not None})


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
