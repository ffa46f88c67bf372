"""Process table of one node, and the messages between its processes.

Rules: 1. The table holds processes strongly, because the event loop does not.  2. A pid of an earlier
creation of this node matches no process.  3. Numbers of pids and references are never used twice.  4. A
message to a process that does not exist is dropped, as in Erlang; ``send`` then returns False, a call raises
``CallFailed(noproc)``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from itertools import count
from typing import Any

from gossamer.supervisor.errors import BadDestination, CallFailed, CallingSelf, MailboxFull, NameTaken
from gossamer.supervisor.process import signals
from gossamer.supervisor.process.calls import Caller, Lane, Sent
from gossamer.supervisor.process.entry import ProcessEntry, current
from gossamer.supervisor.values import NOCONNECTION, NOPROC, Cast, Destination, Down, Pid, Reason, Ref

LANES = 64
"""Maximum number of timeouts with a lane of their own; a program uses a handful."""


class ProcessTable:
    """Local processes by pid and by name, and messages between them; ``Runtime`` creates and ends them."""

    def __init__(self, node: str = "nonode@nohost", creation: int = 1) -> None:
        self.node = node
        self.creation = creation
        self.table: dict[Pid, ProcessEntry] = {}
        # The senders' first lookup: the table itself, or empty while anything is traced; see ``tracing``.
        self.reach = self.table
        self.traced = 0
        self.names: dict[str, ProcessEntry] = {}
        self.zombies: dict[Pid, ProcessEntry] = {}
        self.pending_exits: deque[ProcessEntry] = deque()
        self.remote: signals.RemoteRouter | None = None
        self.remote_calls: dict[Ref, Caller] = {}
        self.remote_links: dict[str, dict[Pid, None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lanes: dict[float, Lane] = {}
        self._numbers = count(1)
        self._refs = count(1)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Event loop of this runtime: the one running at its first use."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def new_pid(self) -> Pid:
        """Return a pid that was never used before."""
        return Pid(self.node, self.creation, next(self._numbers))

    def new_ref(self) -> Ref:
        """Return a reference that was never used before."""
        return Ref(self.node, self.creation, next(self._refs))

    def find(self, destination: Destination) -> ProcessEntry | None:
        """Return the live local process at a destination, None if there is none.

        Raises:
            BadDestination: it is not a destination.
        """
        if isinstance(destination, Pid):
            return self.table.get(destination)
        if isinstance(destination, str):
            return self.names.get(destination)
        if isinstance(destination, tuple) and len(destination) == 2:
            name, node = destination
            if isinstance(name, str) and isinstance(node, str):
                return self.names.get(name) if node == self.node else None
        raise BadDestination(destination)

    def remote_address(self, destination: Destination) -> tuple[str, Pid | str] | None:
        """Return node and address of a destination on another node, None for a local one."""
        if isinstance(destination, Pid):
            return None if destination.node == self.node else (destination.node, destination)
        if isinstance(destination, tuple) and len(destination) == 2:
            name, node = destination
            return None if node == self.node else (node, name)
        return None

    def whereis(self, name: str) -> Pid | None:
        """Return the process registered under ``name``, None if there is none."""
        entry = self.names.get(name)
        return None if entry is None else entry.pid

    def register(self, name: str, pid: Pid) -> None:
        """Register a live local process under ``name``.

        Raises:
            NameTaken: another process has the name, or this one has a name already.
            CallFailed: no such process.
        """
        entry = self.table.get(pid)
        if entry is None:
            raise CallFailed(pid, NOPROC)
        holder = self.names.get(name)
        if holder is not None:
            raise NameTaken(name, holder.pid)
        if entry.name is not None:
            raise NameTaken(entry.name, pid)
        entry.name = name
        self.names[name] = entry

    def unregister(self, name: str) -> bool:
        """Free a name; return False if it was not taken."""
        entry = self.names.pop(name, None)
        if entry is not None:
            entry.name = None
        return entry is not None

    def alive(self, pid: Pid) -> bool:
        """Return True until a local process ends, or is about to by an exit signal."""
        entry = self.table.get(pid)
        return entry is not None and entry.reason is None

    def processes(self) -> list[Pid]:
        """Return all local processes, oldest first."""
        return list(self.table)

    def join(self, pid: Pid) -> asyncio.Future[Reason]:
        """Return a future of a local process's exit reason, noproc if it does not exist."""
        future: asyncio.Future[Reason] = self.loop.create_future()
        entry = self.table.get(pid)
        if entry is None:
            future.set_result(NOPROC)
            return future

        def ended(down: Down) -> None:
            if not future.done():
                future.set_result(down.reason)

        entry.watch(self.new_ref(), ended)
        return future

    def note_remote(self, node: str, pid: Pid) -> None:
        """Record that ``pid`` is linked to, or monitors, a process on ``node``."""
        self.remote_links.setdefault(node, {})[pid] = None

    # Other nodes.

    def route(self, signal: signals.Signal) -> bool:
        """Pass a signal to the router; return False if there is none or the node is not connected."""
        return self.remote is not None and self.remote.route(signal)

    # Messages.

    def send(self, destination: Destination, message: object) -> bool:
        """Put a message into a mailbox; return False if it is known not to arrive.

        Raises:
            BadDestination: it is no destination.
        """
        target = self.reach.get(destination)  # type: ignore[arg-type]
        if target is None:
            target = self.find(destination)
            if self.traced:
                self._note("send", destination, message)
            if target is None:
                remote = self.remote_address(destination)
                return remote is not None and self.route(signals.SendSignal(remote[0], remote[1], message))
        return bool(target.deliver(message))

    def cast(self, destination: Destination, request: object) -> None:
        """Send a request without an answer; it succeeds even if there is no receiver."""
        self.send(destination, Cast(request))

    def call(
        self, destination: Destination, request: object, timeout: float | None = 5.0
    ) -> Coroutine[object, object, Any]:
        """Send a request and await its answer; ``timeout`` None waits without limit.

        Raises:
            CallTimeout: no answer in time; a late one is dropped.
            CallFailed: the process ended, does not exist, or its node is not connected.
            CallingSelf: a process called itself.
        """
        return self._call(current.get(None), destination, request, timeout)

    async def _call(
        self,
        me: ProcessEntry | None,
        destination: Destination,
        request: object,
        timeout: float | None,
        *,
        kind: type[Caller] = Caller,
        noted: bool = False,
    ) -> Any:
        target = self.reach.get(destination)  # type: ignore[arg-type]
        if target is None:
            if me is not None and me.tracer is not None and not noted:
                return await self._call_noted(me, destination, request, timeout)
            target = self.find(destination)
            if target is None:
                return await self._call_away(me, destination, request, timeout)
        if target.reason is not None:
            # It is about to exit and answers no more.
            raise CallFailed(destination, target.reason)
        caller = kind(None if me is None else me.pid, request, target, self.loop.create_future())
        if me is not None:
            if target is me and me.runs_here():
                raise CallingSelf(me.pid, me.label)
            me.waiting_on = target
        if not target.deliver(caller):
            raise MailboxFull(target.pid, target.label, target.overflow)
        calls = target.calls
        if calls is None:
            calls = target.calls = {}
        calls[caller] = None
        lane = None if timeout is None else self._lanes.get(timeout) or self._lane(timeout)
        if lane is not None:
            lane.add(caller)
        try:
            return await caller._future
        finally:
            calls.pop(caller, None)
            if lane is not None:
                lane.remove(caller)
            if me is not None:
                me.waiting_on = None

    async def _call_noted(
        self, me: ProcessEntry, destination: Destination, request: object, timeout: float | None
    ) -> object:
        """Make a call from a traced process."""
        self._note("call", destination, request)
        try:
            value = await self._call(me, destination, request, timeout, noted=True)
        except CallFailed as failure:
            self._note("failure", destination, failure.reason)
            raise
        self._note("answer", destination, value)
        return value

    def _note(self, event: str, whom: object, what: object) -> None:
        """Report an event to the tracer of the running process, if it has one."""
        me = current.get(None)
        if me is not None and me.tracer is not None:
            me.tracer(event, Sent(whom, what))

    async def _call_away(
        self, me: ProcessEntry | None, destination: Destination, request: object, timeout: float | None
    ) -> object:
        remote = self.remote_address(destination)
        if remote is None:
            raise CallFailed(destination, NOPROC)
        node, to = remote
        ref = self.new_ref()
        pid = None if me is None else me.pid
        caller = Caller(pid, request, destination, self.loop.create_future())
        self.remote_calls[ref] = caller
        lane = None if timeout is None else self._lanes.get(timeout) or self._lane(timeout)
        try:
            if not self.route(signals.CallSignal(node, to, ref, pid, request)):
                raise CallFailed(destination, NOCONNECTION)
            if lane is not None:
                lane.add(caller)
            return await caller._future
        finally:
            del self.remote_calls[ref]
            if lane is not None:
                lane.remove(caller)

    def _lane(self, timeout: float) -> Lane:
        lane = Lane(self.loop, timeout)
        if len(self._lanes) < LANES:
            self._lanes[timeout] = lane
        return lane

    # Signals.

    def exit(self, destination: Destination, reason: Reason) -> None:
        """Send an exit signal, from the running process or from the runtime itself.

        Raises:
            BadDestination: it is no destination.
        """
        entry = self.find(destination)
        me = current.get(None)
        if self.traced:
            self._note("exit", destination, reason)
        if entry is not None:
            entry.exit_signal(entry.pid if me is None else me.pid, reason)
        elif (remote := self.remote_address(destination)) is not None:
            # Outside of processes the source is the runtime: pid number 0, which no process has.
            source = Pid(self.node, self.creation, 0) if me is None else me.pid
            self.route(signals.ExitSignal(remote[0], remote[1], source, reason, linked=False))
