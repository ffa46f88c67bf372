"""Long lists of all nodes as one stream of JSON lines, in the order of their keys.

Each node is asked once and sends its own lines in order, piece by piece; they are merged as they come. A line
stays the bytes that its node wrote: only its key is read here. The stream ends with one line
``{"missing": {node: reason}}``, which is empty when every node answered to the end.

Rules: 1. What is held is a piece of each node, however long the list and however slow its reader: a node that
is not asked for its next piece stops after a few.  2. A node that does not answer in time, or whose answer
breaks off, is named, and what it said before stays.  3. However the stream ends, every node hears of it.
4. A turn of the loop takes ``SLICE`` lines at most.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from gossamer.api.model.base import Value
from gossamer.api.peers.ordered_scan import walk_in_order
from gossamer.api.peers.paging import Key, Walked
from gossamer.api.peers.requests import PeerSilentError
from gossamer.errors import GossamerError

__all__ = ["Lines", "lines_of", "merged", "own_lines"]

SLICE = 500
_LAST = b'{"missing"'

Lines = list[tuple[Key, bytes]]
"""Some lines of one node, with their keys, in order."""
_KEY: Callable[[tuple[Key, bytes]], Key] = itemgetter(0)


async def own_lines(
    items: Callable[[], Iterable[Walked[Value]]], *, above: Key
) -> AsyncGenerator[Lines, None]:
    """This node's part, made slice by slice."""
    async for part in walk_in_order(items, above=above):
        yield [(key, _json(show())) for key, show in part]
        await asyncio.sleep(0)


async def lines_of(
    node: str, pieces: AsyncIterable[bytes], fields: Sequence[str]
) -> AsyncGenerator[Lines, None]:
    """Another node's part, from the pieces of its answer.

    Raises:
        PeerSilentError: it makes no sense, or breaks off.
    """
    head = msgspec.json.Decoder(msgspec.defstruct("Head", [(name, str) for name in fields]))
    rest = b""
    try:
        async for piece in pieces:
            *lines, rest = (rest + piece).split(b"\n")
            for at in range(0, len(lines), SLICE):
                part: Lines = []
                whole = False
                for line in lines[at : at + SLICE]:
                    if line.startswith(_LAST):
                        whole = True
                    elif line:
                        part.append((msgspec.structs.astuple(head.decode(line)), line))
                if part:
                    yield part
                if whole:
                    return
                await asyncio.sleep(0)
    except msgspec.DecodeError as error:
        raise PeerSilentError(node=node, reason=f"its answer makes no sense: {error}") from None
    raise PeerSilentError(node=node, reason="its answer broke off")


async def merged(
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
    written: Any = row.__pydantic_serializer__
    text: bytes = written.to_json(row)
    return text
