"""Asking a group of the cluster by its kind, from any process of any node.

A request that is not answered is made again until the time is over, by way of whichever node leads then: it
must be one that may be done twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from gossamer.raft.errors import NotReadyError
from gossamer.raft.host.messages import (
    NO_GROUP,
    NO_LEADER,
    RAFT,
    Ask,
    Done,
    NotDone,
    ReadHere,
    Submit,
    Wanted,
    Where,
)
from gossamer.supervisor import CallFailed, Runtime, call

PATIENCE = 5.0
"""Seconds in which an answer is expected, by default."""
ATTEMPT = 2.0
_PAUSE = 0.1
FOUND_TIMEOUT = 12.0
_FOUND_INTERVAL = 0.5


async def found(kind: str) -> None:
    """Have a group of a kind founded, unless there is one, and wait for it.

    Raises:
        NotReadyError: it is not there in time.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + FOUND_TIMEOUT
    while loop.time() < until:
        if (await call(RAFT, Where(kind)))[0]:
            return
        await call(RAFT, Wanted(kind))
        await asyncio.sleep(_FOUND_INTERVAL)
    raise NotReadyError("found", f"no group {kind} is there yet: nodes may have come or gone just now")


async def request(kind: str, data: bytes, *, timeout: float = PATIENCE) -> Any:
    """Have a request committed; return its result.

    Raises:
        NotReadyError: it is not known to be done: no quorum could be reached in time.
    """
    own = Runtime.current().node

    async def submit(left: float) -> object:
        group, leader = await call(RAFT, Where(kind), left)
        if not (group and leader):
            return NotDone(NO_LEADER if group else NO_GROUP)
        return await call(RAFT if leader == own else (RAFT, leader), Submit(group, data), min(left, ATTEMPT))

    return await _until("request", submit, timeout)


async def read(kind: str, question: bytes, *, max_staleness: float = 0.0, timeout: float = PATIENCE) -> Any:
    """Return the answer to a question, by a state that has all that was done before it was asked.

    With ``max_staleness`` the state may lack what was done in so many seconds before that: the replica of
    this node answers, without a round to any other, if its state is no older; else the leader is asked.

    Raises:
        NotReadyError: no quorum could be reached in time.
    """
    if max_staleness > 0:
        try:
            answer = await call(RAFT, ReadHere(kind, question, max_staleness), timeout)
        except CallFailed as error:
            raise NotReadyError("read", str(error)) from None
        if answer is not None:
            return answer
    asked = Ask(kind, question)
    return await _until("read", lambda left: call(RAFT, asked, min(left, ATTEMPT)), timeout)


async def _until(what: str, attempt: Callable[[float], Awaitable[object]], timeout: float) -> Any:
    """Make attempts, each with the seconds that are left, until one is :class:`Done`; return its value."""
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout
    why = NO_GROUP
    while (left := until - loop.time()) > 0:
        try:
            answer = await attempt(left)
            if isinstance(answer, Done):
                return answer.value
            why = answer.why if isinstance(answer, NotDone) else f"got a {type(answer).__name__}"
        except CallFailed as error:
            why = str(error)
        # What is left may be less than a clock can tell from nothing.
        await asyncio.sleep(min(_PAUSE, max(until - loop.time(), 0.001)))
    raise NotReadyError(what, why)
