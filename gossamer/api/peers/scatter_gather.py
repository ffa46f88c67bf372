"""Scatter-gather: other nodes are asked on behalf of a caller, and one answer is made of theirs.

A list is merged from a page of each node, or is one stream of JSON lines: each node is asked once and sends
its lines in the order of their keys, piece by piece; they are merged as they come. A line stays the bytes
that its node wrote: only its key is read here. The stream ends with one line ``{"missing": {node: reason}}``,
which is empty when every node answered to the end.

Rules: 1. A node that is down, or slow, leaves an answer that says so, within a bounded time; it is not asked
again in the same list, and what it said before stays.  2. What is held is a page or a piece of each node,
however long the list and however slow its reader: a node that is not asked for its next piece stops after a
few.  3. Whatever a node answers counts as data: what cannot be read is a node that did not answer.
4. However a stream ends, every node hears of it; a turn of the loop takes ``SLICE`` lines at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from bisect import bisect_right
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from gossamer.api.http.tokens import Principal
from gossamer.api.model.base import Value
from gossamer.api.peers.paging import Key, Row, Walked, cursor_of, walk_in_order
from gossamer.api.peers.requests import More, PeerAnswer, PeerSilentError, ask_of
from gossamer.api.view import NodeView
from gossamer.errors import GossamerError, UsageError, mismatch

T = TypeVar("T")

TIMEOUT = 2.0
"""Seconds that a node has for each page."""
STREAM_TIMEOUT = 30.0
"""Seconds that it has for the next piece of a long answer."""
SLICE = 500
_LAST = b'{"missing"'

Lines = list[tuple[Key, bytes]]
"""Lines of one node, with their keys, in order."""
_KEY: Callable[[tuple[Key, bytes]], Key] = itemgetter(0)


class Rows(msgspec.Struct):
    """A page of rows, of one node or merged; ``missing`` is who did not answer, and why."""

    items: Sequence[Row]
    next: str | None = None
    missing: Mapping[str, str] = {}


def check_node(view: NodeView, node: str) -> None:
    """Raise UsageError unless ``node`` is one of the cluster."""
    known = [row.name for row in view.nodes()]
    if node not in known:
        raise mismatch(UsageError, "node", repr(node[:100]), f"one of {', '.join(known)}")


class Peers:
    """The nodes of the cluster, asked on behalf of ``principal``."""

    def __init__(self, view: NodeView, principal: Principal) -> None:
        self._view = view
        self._principal = principal

    async def ask(
        self, node: str, method: str, target: str, body: bytes = b"", *, timeout: float = TIMEOUT
    ) -> PeerAnswer:
        """The answer of another node to a request.

        Raises:
            UsageError: there is no such node.
            PeerSilentError: it gave none.
        """
        check_node(self._view, node)
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
        own: Callable[[], Awaitable[Rows]],
        key: Callable[[Row], Key],
        limit: int,
        after: str | None,
        node: str | None = None,
    ) -> Rows:
        """The first ``limit`` rows of the lists at ``path`` of all nodes; ``own`` is this one's page."""

        def keyed(page: Rows) -> tuple[list[tuple[Key, Row]], bool]:
            return [(key(row), row) for row in page.items], page.next is not None

        async def fetch() -> tuple[list[tuple[Key, Row]], bool]:
            return keyed(await own())

        query = _query(params, limit=limit, after=after)
        pages, missing = await self.gather(
            f"{path}?{query}",
            lambda body: keyed(msgspec.json.decode(body, type=Rows)),
            own=fetch,
            node=node,
        )
        rows = heapq.merge(*(page for page, _ in pages), key=itemgetter(0))
        found = list(islice(rows, limit))
        more = any(unfinished for _, unfinished in pages) or next(rows, None) is not None
        following = cursor_of(found[-1][0]) if more and found else None
        return Rows([row for _, row in found], following, missing)

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
        return _merged(parts, missing)

    async def rest(
        self, node: str, cursor: str, *, timeout: float = STREAM_TIMEOUT
    ) -> AsyncGenerator[bytes, None]:
        """Yield the pieces of an answer after the first; the other node is informed of an early end."""
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

    async def _answered(self, node: str, target: str, timeout: float = TIMEOUT) -> PeerAnswer:
        answer = await self.ask(node, "GET", target, timeout=timeout)
        if answer.status != 200:
            raise PeerSilentError(node=node, reason=f"it answered {answer.status}")
        return answer

    async def _lines(self, node: str, target: str, fields: Sequence[str]) -> AsyncGenerator[Lines, None]:
        """Another node's part. Raises PeerSilentError if it makes no sense, or breaks off."""
        # Rows of the release before have no tenant, as those of the default one.
        there = [(name, str, "") if name == "tenant" else (name, str) for name in fields]
        head = msgspec.json.Decoder(msgspec.defstruct("Head", there, kw_only=True))
        answer = await self._answered(node, target)
        piece, rest = answer.body, b""
        async with contextlib.aclosing(self.rest(node, answer.cursor, timeout=TIMEOUT)) as pieces:
            while True:
                *lines, rest = (rest + piece).split(b"\n")
                for at in range(0, len(lines), SLICE):
                    slice_ = [line for line in lines[at : at + SLICE] if line]
                    whole = bool(slice_) and slice_[-1].startswith(_LAST)
                    try:
                        part = [
                            (msgspec.structs.astuple(head.decode(line)), line)
                            for line in slice_[: len(slice_) - whole]
                        ]
                    except msgspec.DecodeError as error:
                        reason = f"its answer makes no sense: {error}"
                        raise PeerSilentError(node=node, reason=reason) from None
                    if part:
                        yield part
                    if whole:
                        return
                    await asyncio.sleep(0)
                try:
                    piece = await anext(pieces)
                except StopAsyncIteration:
                    raise PeerSilentError(node=node, reason="its answer broke off") from None


async def own_lines(
    items: Callable[[], Iterable[Walked[Value]]], *, above: Key
) -> AsyncGenerator[Lines, None]:
    """This node's part, made slice by slice."""
    async for part in walk_in_order(items, above=above):
        yield [(key, _json(show())) for key, show in part]
        await asyncio.sleep(0)


async def _merged(
    parts: dict[str, AsyncGenerator[Lines, None]], missing: dict[str, str]
) -> AsyncGenerator[bytes, None]:
    """The lines of all nodes, and the last one; who falls silent is added to ``missing``."""
    held: dict[str, Lines] = {node: [] for node in parts}

    async def fill(node: str) -> None:
        try:
            held[node] = await anext(parts[node])
        except StopAsyncIteration:
            del held[node]
        except GossamerError as error:
            missing[node] = str(error)
            del held[node]

    try:
        while True:
            await asyncio.gather(*(fill(node) for node, lines in list(held.items()) if not lines))
            if not held:
                break
            # Up to the smallest of the last keys nothing smaller can come.
            bound = min(lines[-1][0] for lines in held.values())
            batch: Lines = []
            for node, lines in held.items():
                end = bisect_right(lines, bound, key=_KEY)
                batch += lines[:end]
                held[node] = lines[end:]
            batch.sort(key=_KEY)
            yield b"\n".join([line for _, line in batch]) + b"\n"
        yield msgspec.json.encode({"missing": missing}) + b"\n"
    finally:
        for part in parts.values():
            await part.aclose()


def _json(row: Value) -> bytes:
    return row.__pydantic_serializer__.to_json(row)


def _query(params: Mapping[str, str], **more: str | int | None) -> str:
    """The query for another node's own part of a list: as here, but for what concerns all nodes."""
    given: dict[str, str | int | None] = {**params, "node": None, "scope": "node", **more}
    return urlencode({name: value for name, value in given.items() if value is not None})
