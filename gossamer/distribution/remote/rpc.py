"""Remote procedure calls: run a function that another node offers by name, with a precise result.

Four outcomes, distinct types: :class:`Returned`, :class:`Raised` (an exception, as text), :class:`Exited`
(the process that ran it ended with a reason), :class:`Unreachable` (no connection, timeout, no server).

Rules: 1. A node runs only functions that it offers by name; a peer's bytes never choose code.  2. A call
that waits runs in a process of its own, so that one that hangs, crashes or is killed harms no other; a plain
function runs in the server.  3. A call whose caller gave up continues; to stop it, send its process an exit
signal.

The functions of the module are for processes; each needs the server (:class:`Rpc`) on the other node.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

import structlog
from msgspec import Struct, structs

from gossamer.distribution.errors import NotAllowedError
from gossamer.distribution.remote.terms import register_message
from gossamer.errors import GossamerError
from gossamer.supervisor import (
    Caller,
    CallFailed,
    Crash,
    Down,
    ExitProcess,
    GenServer,
    MailboxFull,
    NoReply,
    Pid,
    Reason,
    Ref,
    Reply,
    Runtime,
    monitor,
    reply,
    spawn,
)

log = structlog.get_logger(__name__)

RPC = "rpc"
"""Registered name of the server on every node."""
EACH = "rpc.each"
"""Name under which every node runs a function that it offers for each of several lists of arguments; the
result is the list of the results. See ``gathered``."""


class Returned(Struct, frozen=True):
    """The function returned ``value``."""

    value: object


class Raised(Struct, frozen=True):
    """The function raised; ``error`` is the exception's class, ``traceback`` its text."""

    error: str
    message: str
    traceback: str


class Exited(Struct, frozen=True):
    """The process that ran the function ended with ``reason``."""

    reason: Reason


class Unreachable(Struct, frozen=True):
    """No answer: ``noconnection``, ``timeout``, ``noproc`` and the like. The function may have run."""

    reason: Reason


Result = Returned | Raised | Exited | Unreachable


class _Run(Struct, frozen=True):
    function: str
    args: tuple[object, ...]
    options: dict[str, object]


class _Whereis(Struct, frozen=True):
    name: str


for _type in (Returned, Raised, Exited, Unreachable, _Run, _Whereis):
    register_message(_type, f"rpc.{_type.__name__.strip('_')}")


class Rpc(GenServer):
    """RPC server of one node; start it under the name :data:`RPC`."""

    async def init(self, functions: Mapping[str, Callable[..., object]] | None = None) -> None:
        """Offer ``functions``, plain and async ones, to other nodes by these names.

        The mapping is read at every call: add to it to offer more; it outlives a restart of the server.
        """
        self._functions = functions if functions is not None else {}
        self._running: dict[Ref, Caller] = {}

    async def handle_call(self, request: object, caller: Caller) -> Reply | NoReply:
        if isinstance(request, _Whereis):
            return Reply(Returned(self.process.runtime.whereis(request.name)))
        if not isinstance(request, _Run):
            return Reply(_raised(NotAllowedError(function=repr(request)[:80], node=self._node)))
        each = request.function == EACH and len(request.args) == 2
        name = str(request.args[0]) if each else request.function
        function = self._functions.get(name)
        if function is None:
            return Reply(_raised(NotAllowedError(function=name, node=self._node)))
        if each:
            function, request = partial(_each, function), _Run(name, request.args[1:], {})
        # A coroutine function only makes what the process then waits for.
        outcome = _called(function, request)
        if not isinstance(outcome, Returned) or not inspect.isawaitable(outcome.value):
            return Reply(outcome)
        pid = spawn(_finish, outcome.value, request.function, caller, label=f"rpc {request.function}")
        self._running[monitor(pid)] = caller
        return NoReply()

    async def handle_info(self, message: object) -> None:
        if isinstance(message, Down):
            # After a normal end the answer is sent already, and this one is dropped.
            caller = self._running.pop(message.ref, None)
            if caller is not None:
                reply(caller, Exited(message.reason))

    @property
    def _node(self) -> str:
        return self.process.runtime.node


def _each(function: Callable[..., object], many: list[list[object]]) -> object:
    results = [function(*args) for args in many]
    return _all(results) if any(map(inspect.isawaitable, results)) else results


async def _all(results: list[object]) -> list[object]:
    waits = [one for one in results if inspect.isawaitable(one)]
    values = iter(await asyncio.gather(*waits))
    return [next(values) if inspect.isawaitable(one) else one for one in results]


def _called(function: Callable[..., object], request: _Run) -> Returned | Raised | Exited:
    try:
        return Returned(function(*request.args, **request.options))
    except ExitProcess as order:
        return Exited(order.reason)
    except Exception as error:  # noqa: BLE001 - it goes to the caller, whole
        return _failed(request.function, error)


async def _finish(awaited: Awaitable[object], function: str, caller: Caller) -> None:
    try:
        value = await awaited
    except ExitProcess as order:
        reply(caller, Exited(order.reason))
    except Exception as error:  # noqa: BLE001 - it goes to the caller, whole
        reply(caller, _failed(function, error))
    else:
        reply(caller, Returned(value))


def _failed(function: str, error: Exception) -> Raised:
    raised = _raised(error)
    if not isinstance(error, GossamerError):
        # Unexpected; a caller that only retries would hide it for ever.
        log.error("call_failed", function=function, **structs.asdict(raised))
    return raised


def _raised(error: BaseException) -> Raised:
    crash = Crash.of(error)
    return Raised(error=crash.error, message=crash.message, traceback=crash.traceback)


async def call(
    node: str, function: str, /, *args: object, timeout: float | None = 5.0, **options: object
) -> Result:
    """Run ``function(*args, **options)`` on ``node``; every outcome is a result, none is an exception.

    Raises:
        TermError: an argument may not leave the node.
    """
    return await _ask(Runtime.current(), node, _Run(function, args, options), timeout)


async def multicall(
    nodes: Iterable[str], function: str, /, *args: object, timeout: float | None = 5.0, **options: object
) -> dict[str, Result]:
    """Call on many nodes at once; return one result each, in the order of ``nodes``."""
    runtime, names = Runtime.current(), list(nodes)
    request = _Run(function, args, options)
    results = await asyncio.gather(*(_ask(runtime, name, request, timeout) for name in names))
    return dict(zip(names, results, strict=True))


async def pid_of(name: str, node: str, *, timeout: float | None = 5.0) -> Pid | None:
    """Return the process registered under ``name`` on ``node``, or None; needed to link to it.

    Raises:
        CallFailed: the node is not connected, or did not answer.
    """
    result = await _ask(Runtime.current(), node, _Whereis(name), timeout)
    if isinstance(result, Returned) and (result.value is None or isinstance(result.value, Pid)):
        return result.value
    raise CallFailed((RPC, node), result.reason if isinstance(result, Unreachable) else repr(result)[:80])


async def _ask(runtime: Runtime, node: str, request: _Run | _Whereis, timeout: float | None) -> Result:
    try:
        result = await runtime.call((RPC, node), request, timeout)
    except CallFailed as failure:
        return Unreachable(failure.reason)
    except MailboxFull:
        return Unreachable("mailbox_full")
    return (
        result
        if isinstance(result, Returned | Raised | Exited)
        else Unreachable(("unexpected", repr(result)[:80]))
    )
