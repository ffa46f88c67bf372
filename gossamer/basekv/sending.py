"""Requests of a node's processes to ranges, until they are answered: whichever range has the keys by then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from gossamer.basekv.changes import Change, encoded
from gossamer.basekv.values import Answer, Busy, GetPart, decode_answer, encode, kind_of
from gossamer.raft import PATIENCE, NotReadyError, read, request

ATTEMPT = 2.0
"""Seconds after which it is asked where a range that does not answer has its keys now."""
PAUSE = 0.02
"""Seconds between two requests to a range that says to ask again."""
AskRange = Callable[[int, Change | GetPart], Awaitable[Answer]]
"""``ask(number, change)``: have a change done, or a question answered; raises GossamerError."""


class Request(Protocol):
    """:func:`gossamer.raft.request`, or what takes its place."""

    def __call__(self, kind: str, data: bytes, *, timeout: float) -> Awaitable[Any]: ...


async def send_batch(
    number: int,
    batch: bytes,
    whereabouts: Callable[[], Awaitable[int]],
    *,
    request: Request = request,
    patience: float = PATIENCE,
) -> Answer:
    """Have a range, or the one that has its keys by now, take a batch. Raises NotReadyError.

    Another range knows what the first has done, and refuses what it has not: so the batch stays the same.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + patience
    error = NotReadyError("write", "the range is about to be another's")
    while (left := until - loop.time()) > 0:
        try:
            answer = decode_answer(await request(kind_of(number), batch, timeout=min(left, ATTEMPT)))
        except NotReadyError as failed:
            error = failed
            number = await whereabouts()
            continue
        if not isinstance(answer, Busy):
            return answer
        await asyncio.sleep(PAUSE)
    raise error


async def ask_range(number: int, asked: Change | GetPart) -> Answer:
    """Have a change done, or a question answered. Raises NotReadyError."""
    data: Any
    if isinstance(asked, GetPart):
        data = await read(kind_of(number), encode(asked), timeout=PATIENCE)
    else:
        data = await request(kind_of(number), encoded(asked), timeout=PATIENCE)
    return decode_answer(data)
