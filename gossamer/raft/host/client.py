"""Asking a group of the cluster by its kind, from any process of any node.

A request that is not answered is made again until the time is over, by way of whichever node leads then: it
must be one that may be done twice.
"""

from __future__ import annotations

import asyncio
from typing import Any

from gossamer.raft.errors import NotReadyError
from gossamer.raft.host.messages import RAFT, Done, NotDone, Read, ReadHere, Submit, Wanted, Where
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
    return await _ask("request", kind, Submit, data, timeout)


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
    return await _ask("read", kind, Read, question, timeout)


async def _ask(what: str, kind: str, make: type[Submit | Read], data: bytes, timeout: float) -> Any:
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout
    own = Runtime.current().node
    why = "no group of replicas is known"
    while (left := until - loop.time()) > 0:
        try:
            group, leader = await call(RAFT, Where(kind), left)
            if group and leader:
                to = RAFT if leader == own else (RAFT, leader)
                answer = await call(to, make(group, data), min(left, ATTEMPT))
                if isinstance(answer, Done):
                    return answer.value
                why = answer.why if isinstance(answer, NotDone) else f"got a {type(answer).__name__}"
            elif group:
                why = "no leader is known: fewer than half of the voters can be reached"
        except CallFailed as error:
            why = str(error)
        # What is left may be less than a clock can tell from nothing.
        await asyncio.sleep(min(_PAUSE, max(until - loop.time(), 0.001)))
    raise NotReadyError(what, why)
