"""Calls in flight: the message with the request, and the future of the answer.

One object per call: it is the message in the server's mailbox, the ``caller`` that callbacks get, and the
key under which the call is found when the server ends or the call times out. The answer goes through a
future, so code outside of any process can call too.

Timeouts: calls of one process table with the same timeout (nearly all: 5 s) queue in one lane in the
order of creation, which is the order of expiry; only the head needs a timer.
Rejected: one ``call_later`` per call, which costs more than the rest of the call together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator

from msgspec import Struct

from gossamer.supervisor.errors import CallFailed, CallTimeout
from gossamer.supervisor.values import TIMEOUT, Pid, Reason

Tracer = Callable[[str, object], None]
"""Called with a process's events; see ``tracing``."""


class Sent(Struct, frozen=True):
    """Message as a tracer sees it, with its destination or source."""

    to: object
    message: object


class Caller:
    """Call in flight: the calling process, its request, and the future of the answer."""

    __slots__ = ("_future", "_target", "pid", "request")

    def __init__(
        self, pid: Pid | None, request: object, target: object, future: asyncio.Future[object]
    ) -> None:
        self.pid = pid
        self.request = request
        self._target = target
        self._future = future

    def answer(self, value: object) -> None:
        """Send the answer; a second answer, or a late one, is dropped."""
        future = self._future
        if not future.done():
            future.set_result(value)

    def fail(self, reason: Reason) -> None:
        """Fail the call: there will be no answer."""
        future = self._future
        if not future.done():
            future.set_exception(CallFailed(self._destination(), reason))

    def expire(self, timeout: float) -> None:
        """Fail the call with a timeout."""
        future = self._future
        if not future.done():
            chain = getattr(self._target, "waiting_chain", str)()
            hint = f" after {timeout:g} s{chain}"
            future.set_exception(CallTimeout(self._destination(), TIMEOUT, hint))

    def follow(self, tracer: Tracer) -> None:
        """Report the answer to ``tracer`` when it is given."""
        self._future = _Followed(self._future, self.pid, tracer)  # type: ignore[assignment]

    def node(self) -> str | None:
        """Return the node that the answer must come from, None for this one."""
        target = self._target
        if isinstance(target, Pid):
            return target.node
        return target[1] if isinstance(target, tuple) else None

    def _destination(self) -> object:
        return getattr(self._target, "pid", self._target)


class _Followed(Struct, eq=False):
    """Future of a call to a traced process, awaitable like the wrapped future."""

    future: asyncio.Future[object]
    caller: Pid | None
    tracer: Tracer

    def done(self) -> bool:
        return self.future.done()

    def set_result(self, value: object) -> None:
        self.tracer("reply", Sent(self.caller or "", value))
        self.future.set_result(value)

    def set_exception(self, error: BaseException) -> None:
        self.future.set_exception(error)

    def __await__(self) -> Generator[object, None, object]:
        return self.future.__await__()


class Lane:
    """Calls with the same timeout, oldest first."""

    __slots__ = ("_loop", "_pending", "_timeout", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout: float) -> None:
        self._loop = loop
        self._timeout = timeout
        self._pending: dict[Caller, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, caller: Caller) -> None:
        """Expire ``caller`` in ``timeout`` seconds unless it is removed before."""
        self._pending[caller] = deadline = self._loop.time() + self._timeout
        if self._timer is None:
            self._timer = self._loop.call_at(deadline, self._fire)

    def remove(self, caller: Caller) -> None:
        """Remove a finished call."""
        self._pending.pop(caller, None)

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _fire(self) -> None:
        now = self._loop.time()
        self._timer = None
        while self._pending:
            caller, deadline = next(iter(self._pending.items()))
            if deadline > now:
                self._timer = self._loop.call_at(deadline, self._fire)
                return
            del self._pending[caller]
            caller.expire(self._timeout)
