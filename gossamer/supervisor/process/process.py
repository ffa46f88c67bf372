"""Process: one task, one mailbox, and the rules of exit signals.

Exit signals (Erlang reference manual, "Processes"): ``kill`` sent directly cannot be trapped and is seen
as ``killed`` by others; a trapping process gets everything else as a message; ``normal`` from another
process is dropped; any other reason ends it. The reason is stored before the task is cancelled, because
a raising ``finally`` replaces the CancelledError.

Differences of asyncio, and the remedies: a task cancelled before its first step never runs (the
done-callback ends it); a task may swallow the cancel (the next ``receive`` raises again, ``kill``
cancels again with back-off, and a survivor of that becomes a *zombie*: unlinked, unregistered,
reported); SystemExit in a task would stop the loop (here it ends only the process).

The mailbox is one deque in order of arrival. Its bound counts users' messages; EXIT and DOWN always fit.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from gossamer.supervisor.errors import CallFailed, ExitProcess, Ignore, NotAsync, NotInProcess, StartFailed
from gossamer.supervisor.process.entry import ProcessEntry
from gossamer.supervisor.process.reports import report_crash, where_is
from gossamer.supervisor.values import KILL, KILLED, NORMAL, Crash, Down, Exit, Pid, Reason

if TYPE_CHECKING:
    from gossamer.supervisor.process.runtime import Runtime

log = structlog.get_logger(__name__)

MAX_MAILBOX = 1_000_000
"""Default bound of a mailbox in messages."""

BURST = 127
"""Messages after which a process yields (a mask: one less than a power of two)."""

KILL_RETRIES = (0.01, 0.05, 0.2, 0.5, 1.0)
"""Seconds between repeated cancels of a process that swallowed its kill."""


def reason_of(exception: BaseException) -> Reason:
    """Return the exit reason of a process that raised ``exception``."""
    if isinstance(exception, ExitProcess):
        return exception.reason
    if isinstance(exception, CallFailed):
        return (exception.reason, ("call", str(exception.destination)))
    return Crash.of(exception)


class Stopped(ExitProcess):
    """End the process, after ``terminate`` has run."""


class Served(Protocol):
    """Behaviour, as its process sees it."""

    async def _otp_live(self, then: Any) -> None:
        """Serve until stopped."""

    async def _otp_terminate(self, reason: Reason) -> None:
        """Clean up."""


class Process(ProcessEntry):
    """Task with a mailbox; created only by ``Runtime.spawn``."""

    __slots__ = (
        "_retries",
        "behaviour",
        "dropped",
        "faulted",
        "interrupt",
        "limit",
        "loop",
        "mailbox",
        "overflow",
        "reductions",
        "signals",
        "started",
        "status",
        "task",
        "trapping",
        "waiter",
    )

    runtime: Runtime
    task: asyncio.Task[None]
    behaviour: Served | None

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int) -> None:
        self.loop = loop
        self.mailbox: deque[Any] = deque()
        self.limit = self.overflow = limit
        self.signals = 0
        self.dropped = 0
        self.faulted = False
        self.interrupt: Callable[[], None] | None = None
        self.reductions = 0
        self.waiter: asyncio.Future[None] | None = None
        self.trapping = False
        self.started: asyncio.Future[Exception | None] | None = None
        self.behaviour = None
        self.status: str | None = None
        self._retries = 0

    # Messages.

    def deliver(self, message: object) -> bool:
        mailbox = self.mailbox
        if len(mailbox) >= self.limit and not self._make_room(message):
            return False
        mailbox.append(message)
        waiter = self.waiter
        if waiter is not None:
            self.waiter = None
            if not waiter.done():
                waiter.set_result(None)
        return True

    def deliver_signal(self, message: Exit | Down) -> None:
        if self.tracer is not None and type(message) is Down:
            self.tracer("signal", message)
        self.signals += 1
        self.mailbox.append(message)
        self.wake()
        interrupt = self.interrupt
        if interrupt is not None and type(message) is Exit and message.source in (self.parent, self.pid):
            interrupt()

    def wake(self) -> None:
        """Wake the process to check its mailbox."""
        waiter = self.waiter
        if waiter is not None:
            self.waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def _make_room(self, message: object) -> bool:
        """Slow path of delivery: the mailbox is at its bound, or every message is traced (``limit`` is 0)."""
        room = len(self.mailbox) < self.overflow + self.signals
        if room and len(self.mailbox) >= self.overflow:
            self.signals = sum(type(waiting) in (Exit, Down) for waiting in self.mailbox)
            room = len(self.mailbox) < self.overflow + self.signals
        if self.tracer is not None:
            self.tracer("receive" if room else "dropped", message)
        if not room:
            if self.dropped == 0:
                log.warning(
                    "mailbox_full",
                    pid=str(self.pid),
                    label=self.label,
                    bound=self.overflow,
                    advice="messages to it are dropped; see who sends with `gossamer trace`, wait with "
                    "send_wait(), or raise max_mailbox",
                )
            self.dropped += 1
        return room

    def mailbox_length(self) -> int:
        return len(self.mailbox)

    def state(self) -> str:
        if self.status is not None:
            return self.status
        if self.reason is not None:
            return "exiting"
        if self.started is not None:
            return "starting"
        if self.waiting_on is not None:
            return "calling"
        return "waiting" if self.waiter is not None else "running"

    def runs_here(self) -> bool:
        return asyncio.current_task() is self.task

    def note(self) -> str:
        target = self.waiting_on
        return "" if target is None else f"waits for {target.name or target.label} {target.pid}"

    async def receive(self, timeout: float | None = None, match: Callable[[Any], bool] | None = None) -> Any:
        """Return the next message, or the first that matches, in order of arrival.

        Raises:
            TimeoutError: none came within ``timeout`` seconds.
        """
        mailbox = self.mailbox
        self.reductions += 1
        if not self.reductions & BURST:
            await asyncio.sleep(0)
        if match is not None:
            return await self._receive_matching(match, timeout)
        if not mailbox:
            deadline = None if timeout is None else self.loop.time() + timeout
            while not mailbox:
                await self._wait(deadline)
        if self.reason is not None:
            raise asyncio.CancelledError
        return mailbox.popleft()

    async def _receive_matching(self, match: Callable[[Any], bool], timeout: float | None) -> Any:
        deadline = None if timeout is None else self.loop.time() + timeout
        seen = 0
        while True:
            for index in range(seen, len(self.mailbox)):
                if match(self.mailbox[index]):
                    message = self.mailbox[index]
                    del self.mailbox[index]
                    return message
            seen = len(self.mailbox)
            await self._wait(deadline)

    async def _wait(self, deadline: float | None) -> None:
        """Sleep until a message is delivered."""
        if self.reason is not None:
            # It swallowed the cancel.
            raise asyncio.CancelledError
        if self.waiter is not None:
            raise NotInProcess("receive (of a process that already waits in another task)")
        waiter = self.waiter = self.loop.create_future()
        timer = None if deadline is None else self.loop.call_at(deadline, _expire, waiter)
        try:
            await waiter
        finally:
            self.waiter = None
            if timer is not None:
                timer.cancel()

    # Signals.

    def exit_signal(self, source: Pid, reason: Reason, *, linked: bool = False) -> None:
        if self.tracer is not None:
            self.tracer("signal", Exit(source, reason))
        if reason == KILL and not linked:
            self._kill()
        elif self.reason is not None:
            return
        elif self.trapping:
            self.deliver_signal(Exit(source, reason))
        elif reason != NORMAL or source == self.pid:
            self.request_exit(reason)

    def request_exit(self, reason: Reason) -> None:
        """Request the exit with ``reason`` at the next step."""
        if self.reason is None:
            self.reason = reason
            self.task.cancel()

    def crash(self, exception: BaseException) -> None:
        if self.reason is None:
            reason = reason_of(exception)
            report_crash(self, reason, exception)
            self.faulted = True
            self.request_exit(reason)

    def _kill(self) -> None:
        if self._retries == 0:
            self.reason = KILLED
            self._insist()

    def _insist(self) -> None:
        if self.task.done():
            return
        if self._retries == len(KILL_RETRIES):
            log.error(
                "zombie",
                pid=str(self.pid),
                label=self.label,
                kills=self._retries,
                where=where_is(self.task),
                advice="it swallows CancelledError; its task is left behind, unlinked and unregistered",
            )
            self.runtime.zombies[self.pid] = self
            self.exit_with(KILLED)
            return
        self.task.cancel()
        self.loop.call_later(KILL_RETRIES[self._retries], self._insist)
        self._retries += 1

    # Life.

    async def main(self, body: Callable[..., Awaitable[Any]], args: tuple[object, ...]) -> None:
        """Run ``body`` as the task, then the behaviour that it started, and exit with the reason.

        The behaviour runs from here and not from ``body``: one frame less per process, and per message.
        """
        self.task.remove_done_callback(self.done)
        reason: Reason = NORMAL
        try:
            life = body(*args)
            if not inspect.isawaitable(life):
                raise NotAsync.of(body, life)
            then = await life
            # This frame lives as long as a server, so it must not keep these for each of a hundred thousand.
            del life, args
            if self.behaviour is not None:
                await self.behaviour._otp_live(then)
        except (KeyboardInterrupt, GeneratorExit):
            self.end(KILLED)
            raise
        except BaseException as error:  # noqa: BLE001 - whatever ends a process becomes its exit reason
            # A failed ``init`` is not followed by ``terminate``.
            reason = await self._ended_by(error, self.behaviour if self.started is None else None)
        self.end(reason if self.reason is None else self.reason)

    async def _ended_by(self, error: BaseException, behaviour: Served | None) -> Reason:
        """Run the behaviour's ``terminate``, if any, and return the exit reason of ``error``."""
        if isinstance(error, asyncio.CancelledError):
            reason = Crash.of(error) if self.reason is None else self.reason
            # A guarded callback of this process raised: treated like an exception in a server's callback.
            terminates = self.faulted
        else:
            reason = reason_of(error)
            terminates = isinstance(error, Exception | ExitProcess) and not isinstance(error, Stopped)
            if not isinstance(error, ExitProcess) and (self.reason is None or behaviour is not None):
                # Reported before terminate runs, which may fail too.
                report_crash(self, reason, error)
        if behaviour is None or not terminates:
            return reason
        try:
            await behaviour._otp_terminate(reason)
        except (KeyboardInterrupt, GeneratorExit):
            self.end(KILLED)
            raise
        except BaseException as failure:  # noqa: BLE001 - it replaces the reason
            return await self._ended_by(failure, None)
        return reason

    def done(self, task: asyncio.Task[None]) -> None:
        """Exit after the task was cancelled before its first step."""
        self.end(KILLED if self.reason is None else self.reason)

    def end(self, reason: Reason) -> None:
        """Exit after the task is over."""
        self.runtime.zombies.pop(self.pid, None)
        started = self.started
        if started is not None and not started.done() and self.parent is not None and self.links:
            # The starter gets the outcome of the start, and no exit signal in addition.
            self.unlink(self.parent)
        self.exit_with(reason)
        self.mailbox.clear()
        if started is not None and not started.done():
            started.set_result(Ignore() if self.status == "ignored" else StartFailed(self.label, reason))
        self.behaviour = None
        self.waiting_on = None


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())
