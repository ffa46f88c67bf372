"""System messages: read a server's state, replace it, suspend it, trace it, read its statistics.

OTP's ``sys`` module. A system request is queued in the mailbox like any message, so it sees the state
between two messages, never in the middle of one. A suspended process handles only system requests; other
messages wait in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from gossamer.supervisor.errors import CallFailed
from gossamer.supervisor.process.calls import Caller, Tracer
from gossamer.supervisor.process.entry import running
from gossamer.supervisor.process.process import Process
from gossamer.supervisor.process.tracing import attach, clear
from gossamer.supervisor.values import NOPROC, Destination

T = TypeVar("T")
State = dict[str, Any]
"""Attributes of a server, by name."""

_FRAMEWORK = frozenset({"_otp_process"})


class SystemRequest(Caller):
    """Request to the process rather than to its behaviour: a function, called with the process."""

    __slots__ = ()

    request: Callable[[Process], object]


class Statistics(Struct, frozen=True):
    """Counts of a process since it started."""

    reductions: int
    mailbox: int
    dropped: int
    status: str


async def get_state(destination: Destination, timeout: float = 5.0) -> State:
    """Return the attributes of a server, copied one level deep."""
    return await _request(destination, _state, timeout)


async def replace_state(
    destination: Destination, change: Callable[[State], State], timeout: float = 5.0
) -> State:
    """Replace a server's attributes by ``change(state)``; if that raises, the state stays."""

    def replace(process: Process) -> State:
        state = change(_state(process))
        if process.behaviour is not None:
            held = vars(process.behaviour)
            kept = {key: held[key] for key in _FRAMEWORK & held.keys()}
            new = kept | state
            held.clear()
            held.update(new)
        return dict(state)

    return await _request(destination, replace, timeout)


async def suspend(destination: Destination, timeout: float = 5.0) -> None:
    """Make a server handle only system requests, until ``resume``."""
    await _request(destination, lambda process: setattr(process, "status", "suspended"), timeout)


async def resume(destination: Destination, timeout: float = 5.0) -> None:
    """Make a suspended server continue with the queued messages."""
    await _request(destination, lambda process: setattr(process, "status", None), timeout)


def trace(destination: Destination, tracer: Tracer | None) -> None:
    """Call ``tracer(event, about)`` for a process's or port's messages and signals; None ends the trace.

    ``tracing`` lists the events. The tracer runs in the turn of the event and must be fast; one that raises
    is removed and reported.
    """
    entry = running("a system request").runtime.find(destination)
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
    entry = running("a system request").runtime.find(destination)
    if not isinstance(entry, Process):
        raise CallFailed(destination, NOPROC)
    return entry


def _state(process: Process) -> State:
    held = {} if process.behaviour is None else vars(process.behaviour)
    return {key: value for key, value in held.items() if key not in _FRAMEWORK}


async def _request(destination: Destination, work: Callable[[Process], T], timeout: float) -> T:
    runtime = _find(destination).runtime
    value: T = await runtime._call(None, destination, work, timeout, kind=SystemRequest)
    return value


async def attend(process: Process, request: SystemRequest) -> None:
    """Serve a system request; a ``suspend`` returns after the ``resume``."""
    _serve(process, request)
    while process.status == "suspended":
        _serve(process, await process.receive(match=lambda message: type(message) is SystemRequest))


def _serve(process: Process, request: SystemRequest) -> None:
    answer = request._future
    if answer.done():
        return
    try:
        answer.set_result(request.request(process))
    except Exception as error:  # noqa: BLE001 - the mistake is the requester's
        answer.set_exception(error)
