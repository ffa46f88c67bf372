"""Functions for code inside a process: ``send``, ``call``, ``link``, ``monitor`` and the rest.

Each function finds the running process by a context variable, so it also works in tasks and callbacks that
a process created. Outside of processes use the methods of ``Runtime``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVarTuple

from gossamer.errors import UsageError
from gossamer.supervisor.errors import ExitProcess, NotInProcess
from gossamer.supervisor.process.entry import current, running
from gossamer.supervisor.process.process import MAX_MAILBOX, Process
from gossamer.supervisor.process.runtime import current_runtime
from gossamer.supervisor.values import KILL, KILLED, Cast, Destination, Pid, Reason, Ref

Ts = TypeVarTuple("Ts")


def self_pid() -> Pid:
    """Return the pid of the running process."""
    return running("self_pid").pid


def spawn(
    body: Callable[[*Ts], Awaitable[object]],
    *args: *Ts,
    name: str | None = None,
    label: str | None = None,
    max_mailbox: int = MAX_MAILBOX,
) -> Pid:
    """Start a process that runs ``body(*args)``; not linked."""
    return current_runtime("spawn").spawn(body, *args, name=name, label=label, max_mailbox=max_mailbox)


def spawn_link(
    body: Callable[[*Ts], Awaitable[object]],
    *args: *Ts,
    name: str | None = None,
    label: str | None = None,
    max_mailbox: int = MAX_MAILBOX,
) -> Pid:
    """Start a process as ``spawn``, linked to the running process before its first step."""
    runtime, me = current_runtime("spawn_link"), self_pid()
    return runtime.spawn(body, *args, name=name, label=label, link_to=me, max_mailbox=max_mailbox)


def send(destination: Destination, message: object) -> bool:
    """Put a message into a mailbox; return False if it is known not to arrive."""
    entry = current.get(None)
    if entry is None:
        raise NotInProcess("send")
    target = entry.runtime.reach.get(destination)  # type: ignore[arg-type]
    if target is None:
        return entry.runtime.send(destination, message)
    return target.deliver(message)


async def send_wait(destination: Destination, message: object) -> bool:
    """Send as ``send``, but wait while the receiver's mailbox is full: back-pressure."""
    runtime = running("send_wait").runtime
    pause = 0.001
    while True:
        target = runtime.find(destination)
        if not isinstance(target, Process) or len(target.mailbox) < target.overflow:
            return runtime.send(destination, message)
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.05)


def cast(destination: Destination, request: object) -> None:
    """Send a request without an answer; it succeeds even if there is no receiver."""
    send(destination, Cast(request))


def call(
    destination: Destination, request: object, timeout: float | None = 5.0
) -> Coroutine[object, object, Any]:
    """Send a request and await its answer; ``timeout`` None waits without limit.

    Raises:
        CallTimeout: no answer in time; a late one is dropped.
        CallFailed: the process ended, does not exist, or its node is not connected.
        CallingSelf: a process called itself.
    """
    me = current.get(None)
    if me is None:
        raise NotInProcess("call")
    return me.runtime._call(me, destination, request, timeout)


def link(pid: Pid) -> None:
    """Link the running process to ``pid``.

    Raises:
        UsageError: it is a name. A link is to a process, and a name may move to another.
    """
    me = running("link")
    if not isinstance(pid, Pid):
        raise UsageError(f"link() got {pid!r}; expected a Pid, look a name up with whereis() or pid_of()")
    me.link(pid)


def unlink(pid: Pid) -> None:
    """Remove the link; no signal of it arrives afterwards."""
    running("unlink").unlink(pid)


def monitor(destination: Destination) -> Ref:
    """Monitor a process: one ``Down`` arrives when it exits, at once if it does not exist."""
    return running("monitor").monitor(destination)


def demonitor(ref: Ref, *, flush: bool = False) -> bool:
    """Remove a monitor; ``flush`` removes a queued ``Down``. Return False if it had fired."""
    me = running("demonitor")
    watched = me.demonitor(ref)
    if flush and not watched and isinstance(me, Process):
        kept = [message for message in me.mailbox if getattr(message, "ref", None) != ref]
        me.mailbox.clear()
        me.mailbox.extend(kept)
    return watched


def exit(destination: Destination, reason: Reason) -> None:  # noqa: A001 - Erlang's name for it
    """Send an exit signal. To itself: a process that does not trap it ends at once.

    Raises:
        ExitProcess: the destination is the running process; let it through.
        BadDestination: it is not a destination.
    """
    me = running("exit")
    if me.runtime.find(destination) is me and isinstance(me, Process) and asyncio.current_task() is me.task:
        if reason == KILL:
            raise ExitProcess(KILLED)
        if not me.trapping:
            raise ExitProcess(reason)
    me.runtime.exit(destination, reason)


def trap_exit(flag: bool = True) -> bool:
    """Receive exit signals as messages; return the old flag. Ports decide in ``handle_exit``."""
    me = running("trap_exit")
    if not isinstance(me, Process):
        return True
    before, me.trapping = me.trapping, flag
    return before


def receive(
    timeout: float | None = None, match: Callable[[Any], bool] | None = None
) -> Coroutine[object, object, Any]:
    """Return the next message of the running process, or the first for which ``match`` is true.

    Raises:
        TimeoutError: none came within ``timeout`` seconds.
    """
    me = current.get(None)
    if not isinstance(me, Process):
        raise NotInProcess("receive")
    return me.receive(timeout, match)


def register(name: str) -> None:
    """Register the running process under ``name``."""
    me = running("register")
    me.runtime.register(name, me.pid)


def whereis(name: str) -> Pid | None:
    """Return the process registered under ``name`` on this node, None if there is none."""
    return running("whereis").runtime.whereis(name)


class TimerRef:
    """Handle of a message that will be sent, returned by ``send_after``."""

    __slots__ = ("_handle", "_loop", "_when")

    def __init__(self, loop: asyncio.AbstractEventLoop, handle: asyncio.TimerHandle, when: float) -> None:
        self._loop = loop
        self._handle = handle
        # Not the handle's own: uvloop has none for a timer that is due at once.
        self._when = when

    def cancel(self) -> float | None:
        """Cancel it; return the seconds that were left, None if it was sent or cancelled before."""
        if self._handle.cancelled():
            return None
        left = self._when - self._loop.time()
        self._handle.cancel()
        return left if left > 0 else None


def send_after(seconds: float, destination: Destination, message: object) -> TimerRef:
    """Send ``message`` after ``seconds``, to the process that has the name then, if any."""
    runtime = running("send_after").runtime
    loop = runtime.loop
    when = loop.time() + seconds
    return TimerRef(loop, loop.call_later(seconds, runtime.send, destination, message), when)


def cancel_timer(timer: TimerRef) -> float | None:
    """Cancel a timer; return the seconds that were left, None if it was sent or cancelled before."""
    return timer.cancel()
