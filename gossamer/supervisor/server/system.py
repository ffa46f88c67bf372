"""System messages: look at a server's state, replace it, suspend it, trace it, count what it does.

OTP's ``sys`` module. A system request stands in the mailbox like any message, so it sees the state
between two messages, never in the middle of one. A suspended process takes system requests only; what
else arrives waits in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from gossamer.supervisor.errors import CallFailed, MailboxFull, NotInProcess
from gossamer.supervisor.process.entry import Tracer, current
from gossamer.supervisor.process.process import Process
from gossamer.supervisor.process.runtime import Runtime
from gossamer.supervisor.process.tracing import attach, clear
from gossamer.supervisor.values import NOPROC, TIMEOUT, Destination

__all__ = [
    "Statistics",
    "SystemRequest",
    "attend",
    "get_state",
    "replace_state",
    "resume",
    "statistics",
    "suspend",
    "trace",
]

_FRAMEWORK = frozenset({"_otp_process"})


class SystemRequest:
    """A request to the process rather than to what it serves."""

    __slots__ = ("answer", "argument", "operation")

    def __init__(self, operation: str, argument: Any, answer: asyncio.Future[Any]) -> None:
        self.operation = operation
        self.argument = argument
        self.answer = answer


class Statistics(Struct, frozen=True):
    """Counts of a process since it started."""

    reductions: int
    mailbox: int
    dropped: int
    status: str


async def get_state(destination: Destination, timeout: float = 5.0) -> dict[str, Any]:
    """Return the attributes of a server, copied one level deep."""
    state: dict[str, Any] = await _request(destination, "get_state", None, timeout)
    return state


async def replace_state(
    destination: Destination, change: Callable[[dict[str, Any]], dict[str, Any]], timeout: float = 5.0
) -> dict[str, Any]:
    """Replace a server's attributes by ``change(state)``; if that raises, the state stays."""
    state: dict[str, Any] = await _request(destination, "replace_state", change, timeout)
    return state


async def suspend(destination: Destination, timeout: float = 5.0) -> None:
    """Make a server take system requests only, until ``resume``."""
    await _request(destination, "suspend", None, timeout)


async def resume(destination: Destination, timeout: float = 5.0) -> None:
    """Make a suspended server continue with the messages that arrived meanwhile."""
    await _request(destination, "resume", None, timeout)


def trace(destination: Destination, tracer: Tracer | None) -> None:
    """Call ``tracer(event, about)`` for what a process or a port takes in and sends out; None ends the trace.

    ``tracing`` lists the events. The tracer runs in the turn of whoever acts: quick; one that raises is taken
    off and reported.
    """
    entry = _runtime().find(destination)
    if entry is None:
        raise CallFailed(destination, NOPROC)
    if tracer is None:
        clear(entry)
    else:
        attach(entry, tracer)


def statistics(destination: Destination) -> Statistics:
    """Return the counts of a process."""
    process = _find(destination)
    return Statistics(process.reductions, len(process.mailbox), process.dropped, process.state())


def _find(destination: Destination) -> Process:
    entry = _runtime().find(destination)
    if not isinstance(entry, Process):
        raise CallFailed(destination, NOPROC)
    return entry


def _runtime() -> Runtime:
    me = current.get(None)
    if me is None:
        raise NotInProcess("a system request")
    return me.runtime


async def _request(destination: Destination, operation: str, argument: Any, timeout: float) -> Any:
    process = _find(destination)
    answer: asyncio.Future[Any] = process.loop.create_future()
    request = SystemRequest(operation, argument, answer)

    def ended(_: object) -> None:
        if not answer.done():
            answer.set_exception(CallFailed(destination, NOPROC))

    if not process.deliver(request):
        raise MailboxFull(process.pid, process.label, process.overflow)
    ref = process.runtime.new_ref()
    process.watch(ref, ended)
    timer = process.loop.call_later(timeout, _late, answer, destination)
    try:
        return await answer
    finally:
        timer.cancel()
        if process.watchers is not None:
            process.watchers.pop(ref, None)


def _late(answer: asyncio.Future[Any], destination: Destination) -> None:
    if not answer.done():
        answer.set_exception(CallFailed(destination, TIMEOUT))


async def attend(process: Process, request: SystemRequest) -> None:
    """Serve a system request; a ``suspend`` comes back after the ``resume``."""
    _serve(process, request)
    if process.status != "suspended":
        return
    mailbox = process.mailbox
    aside: deque[Any] = deque()
    while process.status == "suspended":
        while not mailbox:
            if process.reason is not None:
                raise asyncio.CancelledError
            waiter = process.waiter = process.loop.create_future()
            await waiter
        message = mailbox.popleft()
        if type(message) is SystemRequest:
            _serve(process, message)
        else:
            aside.append(message)
    mailbox.extendleft(reversed(aside))


def _serve(process: Process, request: SystemRequest) -> None:
    server = process.behaviour
    if request.answer.done():
        return
    value: Any = None
    if request.operation == "suspend":
        process.status = "suspended"
    elif request.operation == "resume":
        process.status = None
    elif server is not None:
        state = {key: held for key, held in vars(server).items() if key not in _FRAMEWORK}
        if request.operation == "replace_state":
            try:
                state = request.argument(state)
            except Exception as error:  # noqa: BLE001 - the mistake is the requester's
                request.answer.set_exception(error)
                return
            kept = {key: held for key, held in vars(server).items() if key in _FRAMEWORK}
            vars(server).clear()
            vars(server).update(kept)
            vars(server).update(state)
        value = dict(state)
    request.answer.set_result(value)
