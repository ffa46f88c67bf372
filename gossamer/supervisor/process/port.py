"""Ports: processes without a task, for connections (Erlang's ports).

A port has a pid, a name, links, monitors and exit signals like any process, and handles messages in a
synchronous callback, in the sender's turn. So a hundred thousand idle connections cost only their rows in
the table and nothing on the loop.

Rules: 1. Messages are handled one after another: one that arrives during a callback of the port waits until
it is done.  2. An exception in a callback closes the port with a ``Crash``; it never reaches the sender.
3. Every exit signal except ``kill`` is passed to ``handle_exit``, whose default is the rule of processes:
``normal`` is dropped, anything else closes.  4. ``on_close`` runs once, before links and monitors are
signalled.

``guarded`` does the same for callbacks of the event loop (protocols, timers): they run as the process that
created them, and an exception ends that process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import structlog

from gossamer.supervisor.errors import NoSuchCallback
from gossamer.supervisor.process.calls import Caller
from gossamer.supervisor.process.entry import ProcessEntry, current, running
from gossamer.supervisor.process.process import reason_of
from gossamer.supervisor.process.reports import report_crash
from gossamer.supervisor.process.runtime import Runtime, current_runtime
from gossamer.supervisor.values import KILL, KILLED, NORMAL, Cast, Down, Exit, Pid, Reason

log = structlog.get_logger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


class Port(ProcessEntry):
    """Process without a task, for connections; subclass it, define callbacks, and ``open`` an instance."""

    __slots__ = ("_backlog", "_busy")

    kind = "port"
    runtime: Runtime

    def open(
        self,
        *,
        label: str | None = None,
        name: str | None = None,
        link_to: Pid | None = None,
        runtime: Runtime | None = None,
    ) -> Pid:
        """Become a process of ``runtime`` (default: that of the running process).

        Raises:
            NameTaken: another live process has ``name``.
            NotInProcess: there is neither a runtime nor a running process.
        """
        parent = current.get(None)
        if runtime is None:
            runtime = current_runtime("Port.open")
        above = link_to
        if link_to is None and parent is not None and parent.runtime is runtime:
            above = parent.pid
        self.enter(runtime, label=label or type(self).__name__, name=name, parent=above)
        self._busy = False
        self._backlog: deque[tuple[Callable[..., None], tuple[object, ...]]] | None = None
        if link_to is not None:
            self.link(link_to)
        return self.pid

    # Callbacks.

    def handle_message(self, message: Any) -> None:
        """Handle a message, or the content of a cast."""
        log.warning("unexpected_message", pid=str(self.pid), label=self.label, message=type(message).__name__)

    def handle_call(self, request: Any, caller: Caller) -> None:
        """Serve a call; answer with ``reply(caller, value)``."""
        raise NoSuchCallback(self.label, "handle_call", request)

    def handle_exit(self, source: Pid, reason: Reason) -> None:
        """Handle an exit signal; the default is that of a process that does not trap exits."""
        if reason != NORMAL:
            self.close(reason)

    def on_close(self, reason: Reason) -> None:
        """Release the port's resources; it is closing."""

    # Operations.

    def close(self, reason: Reason = NORMAL) -> None:
        """Close with ``reason``."""
        if self.reason is not None:
            return
        self.reason = reason
        token = current.set(self)
        try:
            self.on_close(reason)
        except Exception as error:  # noqa: BLE001 - a port ends whatever its on_close does
            reason = reason_of(error)
            report_crash(self, reason)
        finally:
            current.reset(token)
        self.exit_with(reason)

    @property
    def closed(self) -> bool:
        """True once the port has ended."""
        return self.reason is not None

    # The shell.

    def deliver(self, message: object) -> bool:
        if self.tracer is not None:
            self.tracer("receive", message)
        kind = type(message)
        if kind is Cast:
            self._take(self.handle_message, (message.request,))  # type: ignore[attr-defined]
        elif kind is Caller:
            self._take(self.handle_call, (message.request, message))  # type: ignore[attr-defined]
        else:
            self._take(self.handle_message, (message,))
        return True

    def deliver_signal(self, message: Exit | Down) -> None:
        if self.tracer is not None:
            self.tracer("signal", message)
        self._take(self.handle_message, (message,))

    def exit_signal(self, source: Pid, reason: Reason, *, linked: bool = False) -> None:
        if self.tracer is not None:
            self.tracer("signal", Exit(source, reason))
        if reason == KILL and not linked:
            self.close(KILLED)
        else:
            self._take(self.handle_exit, (source, reason))

    def crash(self, exception: BaseException) -> None:
        if self.reason is None:
            reason = reason_of(exception)
            report_crash(self, reason)
            self.close(reason)

    def mailbox_length(self) -> int:
        return 0 if self._backlog is None else len(self._backlog)

    def _take(self, callback: Callable[..., None], arguments: tuple[object, ...]) -> None:
        if self.reason is not None:
            return
        if self._busy:
            if self._backlog is None:
                self._backlog = deque()
            self._backlog.append((callback, arguments))
            return
        self._busy = True
        token = current.set(self)
        try:
            callback(*arguments)
            while self._backlog and self.reason is None:
                callback, arguments = self._backlog.popleft()
                callback(*arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever ends a port becomes its exit reason
            self.crash(error)
        finally:
            current.reset(token)
            self._busy = False
            self._backlog = None


def guarded(callback: Callable[P, R], *, entry: ProcessEntry | None = None) -> Callable[P, R | None]:
    """Wrap a callback to run as the current process, and to crash that process if it raises.

    Once that process has ended the callback does nothing. ``entry`` is another process, mostly a port.

    Raises:
        NotInProcess: no process runs here and no ``entry`` was given.
    """
    owner = running("guarded") if entry is None else entry

    def run(*args: P.args, **options: P.kwargs) -> R | None:
        if owner.reason is not None:
            return None
        token = current.set(owner)
        try:
            return callback(*args, **options)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a callback raises is its process's end
            owner.crash(error)
            return None
        finally:
            current.reset(token)

    return run
