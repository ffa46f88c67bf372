"""An event loop on which time is a number: it jumps to the next timer when nothing else is ready.

Rules: 1. No real I/O: a loop that would block on a selector has nothing to wait for, so it moves its clock.
2. What runs, and in which order, depends on the program alone: no thread, no system clock, no descriptor.
3. Waiting for something that cannot come is an error that names who waits and where, never a hang.
4. A program that never lets time pass, or that lets too much of it pass, is stopped with an error.

A process can be frozen (:meth:`VirtualTimeLoop.freeze`), as SIGSTOP does it: what runs in its context waits,
and its timers are overdue when it goes on.

Work handed to an executor runs inline, in its turn, on the loop's own thread: disc and hashing code is
exercised for real, and stays deterministic.

Rejected: patching ``time.monotonic``, which reaches libraries that measure real time; a loop written from
nothing, which would drift from the semantics of asyncio's own scheduling of callbacks, tasks and contexts.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import heapq
import socket
import types
from asyncio.base_events import BaseEventLoop
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NoReturn, TypeVar

from gossamer.errors import UsageError

SIMULATED_EPOCH = 1_700_000_000.0
"""Wall clock without skew at virtual time 0."""

T = TypeVar("T")

PROCESS: contextvars.ContextVar[str] = contextvars.ContextVar("PROCESS", default="")
"""The simulated process whose code this is; set before its first task starts, and inherited from there."""

_LISTED = 20


class DeadlockError(UsageError):
    """Nothing is ready and no timer is set, yet a task still waits."""

    def __init__(self, *, at: float, waiting: Iterable[str]) -> None:
        self.at = at
        self.waiting = tuple(waiting)
        shown = "".join(f"\n  {line}" for line in self.waiting[:_LISTED])
        more = len(self.waiting) - _LISTED
        super().__init__(
            f"deadlock at virtual time {at:.6f} s: nothing is ready and no timer is set; expected a "
            "callback, a timer or a message in flight. Set a timeout on the wait. "
            f"Waiting:{shown or ' nobody'}" + (f"\n  and {more} more" if more > 0 else "")
        )


class RunawayError(UsageError):
    """The program spins at one instant, or ran past the virtual time it was given."""

    def __init__(self, *, at: float, limit: str, ready: Iterable[str] = ()) -> None:
        self.at = at
        self.limit = limit
        self.ready = tuple(ready)
        shown = "".join(f"\n  {line}" for line in self.ready)
        super().__init__(
            f"runaway at virtual time {at:.6f} s: past the limit of {limit}. Look for a loop that never "
            f"sleeps or a test that never ends; raise the limit only if neither is there.{shown}"
        )


class RealInputOutputError(UsageError):
    """Something asked the virtual loop for a socket, a name or a signal of the real system."""

    def __init__(self, call: str) -> None:
        self.call = call
        super().__init__(
            f"{call} on a virtual-time loop, which has no real input or output; "
            "take a host of SimNetwork as the Network, or run this test on a system loop"
        )


def _refused(call: str) -> Callable[..., Coroutine[object, object, NoReturn]]:
    async def refuse(*_: object, **__: object) -> NoReturn:
        raise RealInputOutputError(f"{call}()")

    return refuse


class VirtualTimeLoop(BaseEventLoop):
    """An asyncio loop in virtual time, from 0 on.

    ``max_time`` bounds the virtual seconds a program may take, ``max_turns`` the turns of the loop at one
    instant.
    """

    # Kept by BaseEventLoop; named here because its stubs hide them.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, *, max_time: float = 7 * 86_400.0, max_turns: int = 1_000_000) -> None:
        super().__init__()
        self._now = 0.0
        self._end = max_time
        self._max_time = max_time
        self._max_turns = max_turns
        self.executor_delay: Callable[[], float] | None = None
        """Seconds that work of a thread takes. Without it a disc has everything in the next turn."""
        self._turns = 0
        self._clock_resolution = 1e-9
        # Where the loop keeps its selector: 'blocking' moves the clock to the next timer.
        self._selector = types.SimpleNamespace(select=self._advance)
        self._frozen: dict[str, tuple[list[asyncio.Handle], list[asyncio.TimerHandle]]] = {}
        """Ready handles and timers of each frozen process."""

    def time(self) -> float:
        return self._now

    def _advance(self, timeout: float | None) -> tuple[()]:
        if timeout == 0:
            self._turns += 1
            if self._turns > self._max_turns:
                ready = [repr(handle) for handle in list(self._ready)[:_LISTED]]
                self._turns = 0
                raise RunawayError(
                    at=self._now, limit=f"{self._max_turns} turns without a moment", ready=ready
                )
            return ()
        self._turns = 0
        if timeout is None:
            raise DeadlockError(at=self._now, waiting=sorted(map(_describe, asyncio.all_tasks(self))))
        # The loop has dropped cancelled timers from the head, so this one is due next. Taking its time as it
        # is, and not now + timeout, keeps instants exact.
        due = self._scheduled[0].when()
        if due > self._end:
            # Once only: what tidies up after the error may still need timers.
            self._end = float("inf")
            raise RunawayError(at=self._now, limit=f"{self._max_time:g} virtual seconds")
        self._now = max(self._now, due)
        return ()

    def _process_events(self, event_list: list[object]) -> None:
        """There are none: this loop has no descriptors."""

    def _write_to_self(self) -> None:
        """Do nothing: no selector sleeps that would need waking."""

    # -- what would be signals ------------------------------------------------------------------------

    def freeze(self, process: str) -> None:
        """Let nothing of ``process`` run until :meth:`thaw`."""
        if process in self._frozen:
            return
        ready: list[asyncio.Handle] = []
        timers = [timer for timer in self._scheduled if _runs_in(timer, process)]
        self._frozen[process] = ready, timers
        for place, handle in enumerate(self._ready):
            if _runs_in(handle, process):
                ready.append(handle)
                # The loop has counted them already, so each keeps its place.
                self._ready[place] = blank = asyncio.Handle(_nothing, (), self)
                blank.cancel()
        if timers:
            self._scheduled[:] = [timer for timer in self._scheduled if not _runs_in(timer, process)]
            heapq.heapify(self._scheduled)
            for timer in timers:
                timer._scheduled = False  # type: ignore[attr-defined]

    def thaw(self, process: str) -> None:
        """Let ``process`` go on."""
        ready, timers = self._frozen.pop(process, ([], []))
        self._ready.extend(ready)
        for timer in timers:
            if not timer.cancelled():
                heapq.heappush(self._scheduled, timer)
                timer._scheduled = True  # type: ignore[attr-defined]

    def _call_soon(
        self, callback: Callable[..., object], args: object, context: contextvars.Context | None
    ) -> asyncio.Handle:
        handle: asyncio.Handle = super()._call_soon(callback, args, context)  # type: ignore[misc]
        if self._frozen:
            for process, (ready, _) in self._frozen.items():
                if _runs_in(handle, process):
                    self._ready.pop()
                    ready.append(handle)
        return handle

    # -- what would be threads ------------------------------------------------------------------------

    def run_in_executor(
        self, executor: concurrent.futures.Executor | None, func: Callable[..., T], *args: object
    ) -> asyncio.Future[T]:
        """Run ``func`` inline, in a turn of its own, whatever the executor; after :attr:`executor_delay`."""
        future: asyncio.Future[T] = self.create_future()

        def run() -> None:
            if future.done():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:  # noqa: BLE001  the future carries it to whoever waits
                future.set_exception(error)

        if self.executor_delay is None:
            self.call_soon(run)
        else:
            self.call_later(self.executor_delay(), run)
        return future

    # -- what would be the real system ----------------------------------------------------------------

    async def getaddrinfo(self, host: Any, port: object, **options: object) -> Any:
        """Literals only: there is no resolver here."""
        for family in (socket.AF_INET, socket.AF_INET6):
            try:
                socket.inet_pton(family, host or "")
            except (OSError, TypeError):
                continue
            return [(family, options.get("type") or socket.SOCK_STREAM, 0, "", (host, port))]
        raise RealInputOutputError(f"getaddrinfo({host!r})")

    create_connection = _refused("create_connection")
    create_server = _refused("create_server")
    create_datagram_endpoint = _refused("create_datagram_endpoint")
    create_unix_connection = _refused("create_unix_connection")
    create_unix_server = _refused("create_unix_server")
    subprocess_exec = _refused("subprocess_exec")
    subprocess_shell = _refused("subprocess_shell")


def _runs_in(handle: asyncio.Handle, process: str) -> bool:
    context: contextvars.Context = handle._context  # type: ignore[attr-defined]
    return context.get(PROCESS, "") == process


def _nothing() -> None:
    pass


def _describe(task: asyncio.Task[object]) -> str:
    """A task's name and the innermost line at which it is suspended."""
    where: object = task.get_coro()
    frame: types.FrameType | None = None
    name = getattr(where, "__qualname__", "?")
    while where is not None:
        frame = getattr(where, "cr_frame", None) or getattr(where, "gi_frame", None) or frame
        where = getattr(where, "cr_await", None) or getattr(where, "gi_yieldfrom", None)
    at = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "not started"
    return f"{task.get_name()} in {name}, at {at}"


class SimClock:
    """Implements :class:`gossamer.clock.Clock`. ``skew`` is how many seconds the wall clock is ahead;
    ``drift`` how many seconds it gains each second."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, skew: float = 0.0, drift: float = 0.0) -> None:
        self._loop = loop
        self.skew = skew
        self.drift = drift

    def monotonic(self) -> float:
        return self._loop.time()

    def wall(self) -> float:
        elapsed = self._loop.time()
        return SIMULATED_EPOCH + elapsed + elapsed * self.drift + self.skew

    def jump(self, seconds: float) -> None:
        """Step the wall clock, as an operator or a time daemon does."""
        self.skew += seconds
