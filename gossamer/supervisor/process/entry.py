"""Base of every process in the table: identity, links, monitors, name, and exit.

An entry is one row of the process table. Two kinds exist: a ``Process`` (a task with a mailbox) and a
``Port`` (no task, synchronous callbacks). They define how an entry handles a message or a signal; links,
monitors and exits are handled here.

Rules: 1. An entry exits once, in ``exit_with``; all its links and monitors get the same reason.  2. Its row,
its name and its rows in other tables are removed *before* the first EXIT or DOWN is sent, so that a receiver
can start a successor under the same name.  3. Links and monitors are dictionaries, not sets: signals are
sent in the order of their creation, on every run.  4. All of them are created on first use: a
connection is an entry, and there are hundreds of thousands.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

import structlog

from gossamer.supervisor.errors import NameTaken, NotInProcess
from gossamer.supervisor.process import signals
from gossamer.supervisor.process.calls import Caller, Tracer
from gossamer.supervisor.values import NOCONNECTION, NOPROC, Destination, Down, Exit, Pid, Reason, Ref

if TYPE_CHECKING:
    from gossamer.supervisor.process.table import ProcessTable

log = structlog.get_logger(__name__)

Watcher = Pid | Callable[[Down], None]
"""Receiver of a Down: a process by message, or the runtime's own code by a call."""

current: ContextVar[ProcessEntry] = ContextVar("gossamer.supervisor.current")
"""The process that the running code belongs to."""


def running(function: str) -> ProcessEntry:
    """Return the running process for ``function``, which needs one.

    Raises:
        NotInProcess: none runs here.
    """
    entry = current.get(None)
    if entry is None:
        raise NotInProcess(function)
    return entry


class ProcessEntry:
    """One row of the process table; see the module."""

    __slots__ = (
        "calls",
        "cleanups",
        "label",
        "links",
        "name",
        "parent",
        "pid",
        "reason",
        "runtime",
        "tracer",
        "waiting_on",
        "watchers",
        "watching",
    )

    kind = "process"
    """Type in ``gossamer ps``."""

    # Set only for a process with a mailbox.
    behaviour: object | None = None
    dropped = 0
    overflow = 0
    reductions = 0

    runtime: ProcessTable
    pid: Pid
    parent: Pid | None
    label: str
    name: str | None
    reason: Reason | None
    links: dict[Pid, None] | None
    watchers: dict[Ref, Watcher] | None
    watching: dict[Ref, Destination] | None
    calls: dict[Caller, None] | None
    cleanups: list[Callable[[ProcessEntry], None]] | None
    tracer: Tracer | None
    waiting_on: ProcessEntry | None
    """Process that it is calling now."""

    def enter(self, runtime: ProcessTable, *, label: str, name: str | None, parent: Pid | None) -> None:
        """Enter ``runtime``'s table, and register ``name`` if given.

        Raises:
            NameTaken: another live process has ``name``; nothing changed.
        """
        if name is not None and name in runtime.names:
            raise NameTaken(name, runtime.names[name].pid)
        self.runtime = runtime
        self.parent = parent
        self.label = label
        self.name = name
        self.reason = None
        self.tracer = self.waiting_on = None
        self.links = self.watchers = self.watching = self.calls = self.cleanups = None
        self.pid = pid = runtime.new_pid()
        runtime.table[pid] = self
        if name is not None:
            runtime.names[name] = self

    # Delivery, implemented by the kinds.

    def deliver(self, message: object) -> bool:
        """Deliver a user's message; return False if the mailbox is full."""
        raise NotImplementedError

    def deliver_signal(self, message: Exit | Down) -> None:
        """Deliver the message of a link or monitor; never refused."""
        raise NotImplementedError

    def exit_signal(self, source: Pid, reason: Reason, *, linked: bool = False) -> None:
        """Handle an exit signal, by the rules of the reference manual."""
        raise NotImplementedError

    def crash(self, exception: BaseException) -> None:
        """Exit as if the process itself had raised ``exception``."""
        raise NotImplementedError

    def mailbox_length(self) -> int:
        """Number of waiting messages."""
        return 0

    def state(self) -> str:
        """Return its state in a word."""
        return "open"

    def note(self) -> str:
        """Return a remark for ``gossamer ps``: its client, or what it waits for."""
        return ""

    def runs_here(self) -> bool:
        """Return whether the running task is its own."""
        return False

    def waiting_chain(self) -> str:
        """Describe the chain of calls that it waits for, and a deadlock; for a call that timed out."""
        chain: list[ProcessEntry] = []
        process: ProcessEntry | None = self
        while process is not None and process not in chain:
            chain.append(process)
            process = process.waiting_on
        if len(chain) < 2:
            return ""
        shown = " -> ".join(f"{link.label} {link.pid}" for link in chain)
        if process is not None:
            return f"; deadlock: {shown} -> {process.label} {process.pid}; break the circle with a cast"
        return f"; it waits itself: {shown}"

    # Links and monitors.

    def link(self, pid: Pid) -> None:
        """Link this process to ``pid``: when one exits abnormally the other gets the signal."""
        if pid == self.pid or (self.links is not None and pid in self.links):
            return
        if self.tracer is not None:
            self.tracer("link", pid)
        runtime = self.runtime
        if pid.node == runtime.node:
            other = runtime.table.get(pid)
            if other is None:
                self.exit_signal(pid, NOPROC, linked=True)
                return
            other.add_link(self.pid)
            self.add_link(pid)
        else:
            self.add_link(pid)
            if not runtime.route(signals.LinkSignal(pid.node, pid, self.pid)):
                self.exit_signal(pid, NOCONNECTION, linked=True)

    def add_link(self, pid: Pid) -> None:
        """Add this side of a link."""
        links = self.links = self.links or {}
        links[pid] = None
        if pid.node != self.runtime.node:
            self.runtime.note_remote(pid.node, self.pid)

    def remove_link(self, pid: Pid) -> bool:
        """Remove this side of a link; return False if there was none."""
        links = self.links
        if links is None or pid not in links:
            return False
        del links[pid]
        return True

    def unlink(self, pid: Pid) -> None:
        """Remove the link to ``pid`` on both sides; no signal of it arrives afterwards."""
        if not self.remove_link(pid):
            return
        if self.tracer is not None:
            self.tracer("unlink", pid)
        other = self.runtime.table.get(pid)
        if other is not None:
            other.remove_link(self.pid)
        elif pid.node != self.runtime.node:
            self.runtime.route(signals.UnlinkSignal(pid.node, pid, self.pid))

    def monitor(self, destination: Destination) -> Ref:
        """Monitor a process: one ``Down`` arrives when it exits, at once if it does not exist."""
        runtime = self.runtime
        if self.tracer is not None:
            self.tracer("monitor", destination)
        ref = runtime.new_ref()
        remote = runtime.remote_address(destination)
        if remote is None:
            target = runtime.find(destination)
            if target is None:
                gone = destination if isinstance(destination, Pid) else None
                self.deliver_signal(Down(ref, gone, NOPROC))
                return ref
            target.watch(ref, self.pid)
            destination = target.pid
        watching = self.watching = self.watching or {}
        watching[ref] = destination
        if remote is not None:
            node, to = remote
            runtime.note_remote(node, self.pid)
            if not runtime.route(signals.MonitorSignal(node, to, ref, self.pid)):
                del watching[ref]
                self.deliver_signal(Down(ref, to if isinstance(to, Pid) else None, NOCONNECTION))
        return ref

    def watch(self, ref: Ref, watcher: Watcher) -> None:
        """Add a monitor: ``watcher`` gets a ``Down`` when this entry exits."""
        watchers = self.watchers = self.watchers or {}
        watchers[ref] = watcher

    def demonitor(self, ref: Ref) -> bool:
        """Remove a monitor; return False if it had fired. A ``Down`` already queued stays queued."""
        destination = None if self.watching is None else self.watching.pop(ref, None)
        if destination is None:
            return False
        if self.tracer is not None:
            self.tracer("demonitor", destination)
        self._unwatch(ref, destination)
        return True

    def _unwatch(self, ref: Ref, destination: Destination) -> None:
        runtime = self.runtime
        remote = runtime.remote_address(destination)
        if remote is not None:
            runtime.route(signals.DemonitorSignal(remote[0], remote[1], ref))
            return
        target = runtime.find(destination)
        if target is not None:
            target.forget_watcher(ref)

    def forget_watcher(self, ref: Ref) -> bool:
        """Remove another process's monitor of this one; return False if there was none."""
        return self.watchers is not None and self.watchers.pop(ref, None) is not None

    def forget_watching(self, ref: Ref) -> bool:
        """Remove this process's monitor of another; return False if there was none."""
        return self.watching is not None and self.watching.pop(ref, None) is not None

    def on_release(self, cleanup: Callable[[ProcessEntry], None]) -> None:
        """Run ``cleanup(self)`` when the entry exits, before any signal is sent."""
        cleanups = self.cleanups = self.cleanups or []
        cleanups.append(cleanup)

    # Exit.

    def exit_with(self, reason: Reason) -> None:
        """Exit with ``reason``, once: release resources, then send signals to links and monitors."""
        runtime = self.runtime
        if runtime.table.pop(self.pid, None) is None:
            return
        self.reason = reason
        if self.tracer is not None:
            self.tracer("end", reason)
        for ties in runtime.remote_links.values():
            ties.pop(self.pid, None)
        if self.name is not None and runtime.names.get(self.name) is self:
            del runtime.names[self.name]
        if self.cleanups is not None:
            cleanups, self.cleanups = self.cleanups, None
            for cleanup in cleanups:
                try:
                    cleanup(self)
                except Exception:
                    log.exception("cleanup_failed", pid=str(self.pid), label=self.label)
        # A port that dies of a signal dies inside the sender's exit_with; the queue keeps the stack flat and
        # sends all signals of the first exit before those of the second.
        exits = runtime.pending_exits
        exits.append(self)
        if len(exits) == 1:
            while exits:
                try:
                    exits[0].send_exit_signals()
                except Exception:
                    # Its remaining signals are lost; the next exit must still be handled.
                    log.exception("exit_signals_failed", pid=str(exits[0].pid), label=exits[0].label)
                finally:
                    exits.popleft()

    def send_exit_signals(self) -> None:
        """Fail callers, signal links and monitors, and drop this entry's own monitors."""
        runtime, pid, reason = self.runtime, self.pid, self.reason
        calls, self.calls = self.calls, None
        if calls is not None:
            for caller in calls:
                caller.fail(reason)
        links, self.links = self.links, None
        if links is not None:
            for other in links:
                entry = runtime.table.get(other)
                if entry is not None:
                    if entry.remove_link(pid):
                        entry.exit_signal(pid, reason, linked=True)
                elif other.node != runtime.node:
                    runtime.route(signals.ExitSignal(other.node, other, pid, reason, linked=True))
        watchers, self.watchers = self.watchers, None
        if watchers is not None:
            for ref, watcher in watchers.items():
                self._tell(watcher, ref, pid, reason)
        watching, self.watching = self.watching, None
        if watching is not None:
            for ref, destination in watching.items():
                self._unwatch(ref, destination)

    def _tell(self, watcher: Watcher, ref: Ref, pid: Pid, reason: Reason) -> None:
        runtime = self.runtime
        if not isinstance(watcher, Pid):
            watcher(Down(ref, pid, reason))
        elif watcher.node != runtime.node:
            runtime.route(signals.DownSignal(watcher.node, watcher, ref, pid, reason))
        else:
            entry = runtime.table.get(watcher)
            if entry is not None and entry.forget_watching(ref):
                entry.deliver_signal(Down(ref, pid, reason))
