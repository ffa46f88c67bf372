"""The processes of one node: makes them, carries what they say to each other, and ends them.

Rules: 1. Nothing else in gossamer makes tasks.  2. A message to a process that is not there is dropped, as in
Erlang; ``send`` says so by False, a call by ``CallFailed(noproc)``.  3. Many runtimes may share one loop (the
simulator does); the running process knows its own.

Time is the running loop's, so that everything here works on virtual time.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, TypeVarTuple, overload

import structlog

from gossamer.supervisor.errors import CallFailed, CallingSelf, MailboxFull, NotAsync
from gossamer.supervisor.process.calls import Caller, Lane
from gossamer.supervisor.process.entry import Entry, Sent, current, running
from gossamer.supervisor.process.process import MAX_MAILBOX, Process
from gossamer.supervisor.process.signals import CallSignal, ExitSignal, SendSignal
from gossamer.supervisor.process.table import ProcessTable
from gossamer.supervisor.values import (
    KILL,
    NOCONNECTION,
    NOPROC,
    SHUTDOWN,
    Cast,
    Crash,
    Destination,
    Down,
    Pid,
    Reason,
)

if TYPE_CHECKING:
    from gossamer.supervisor.process.tree import ProcessNode
    from gossamer.supervisor.server.behaviour import Behaviour

log = structlog.get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LANES = 64
"""Time limits that get a lane of their own; a program uses a handful."""


class Initialised(Protocol[P]):
    """A behaviour to type checkers: what its ``init`` takes is what starting it takes."""

    async def init(self, *args: P.args, **options: P.kwargs) -> object:
        """Prepare."""


class Runtime(ProcessTable):
    """The processes of one node: makes them, carries their messages, and ends them."""

    def __init__(self, node: str = "nonode@nohost", creation: int = 1) -> None:
        super().__init__(node, creation)
        # Where senders look first: the table itself, or nothing while anything is traced; see ``tracing``.
        self.reach: dict[Pid, Entry] = self.table
        self.traced = 0
        self.restarts: Counter[str] = Counter()
        """Children that were restarted, by the registered name of their supervisor; blank: it has none."""
        self._lanes: dict[float, Lane] = {}

    @staticmethod
    def current() -> Runtime:
        """Return the runtime of the running process.

        Raises:
            NotInProcess: no process runs here.
        """
        return running("Runtime.current").runtime

    # Making processes.

    def spawn(
        self,
        body: Callable[[*Ts], Awaitable[object]],
        *args: *Ts,
        name: str | None = None,
        label: str | None = None,
        link_to: Pid | None = None,
        max_mailbox: int = MAX_MAILBOX,
    ) -> Pid:
        """Start a process that runs ``body(*args)``; it is registered and linked before its first step.

        Raises:
            NameTaken: another live process holds ``name``.
        """
        parent = current.get(None)
        entry = self.make(
            body,
            args,
            name=name,
            label=label or str(getattr(body, "__qualname__", type(body).__qualname__)),
            parent=parent.pid if parent is not None and parent.runtime is self else link_to,
            max_mailbox=max_mailbox,
        )
        if link_to is not None:
            entry.link(link_to)
        return entry.pid

    def make(
        self,
        body: Callable[..., Awaitable[object]],
        args: tuple[object, ...],
        *,
        name: str | None,
        label: str,
        parent: Pid | None,
        max_mailbox: int = MAX_MAILBOX,
    ) -> Process:
        """Start a process and return its entry; behaviours start through this."""
        loop = self._loop or self.loop
        process = Process(loop, max_mailbox)
        process.enter(self, label=label, name=name, parent=parent)
        if self.traced:
            self._note("spawn", process.pid, label)
        # A copy: what the child sets in its context stays its own.
        context = copy_context()
        context.run(current.set, process)
        process.task = task = loop.create_task(process.main(body, args), name=label, context=context)
        task.add_done_callback(process.done)
        return process

    @overload
    async def start(self, behaviour: type[Initialised[P]], *args: P.args, **options: P.kwargs) -> Pid: ...
    @overload
    async def start(
        self,
        behaviour: type[Behaviour],
        *args: object,
        name: str | None,
        label: str | None = None,
        **options: object,
    ) -> Pid: ...
    @overload
    async def start(
        self, behaviour: type[Behaviour], *args: object, label: str | None, **options: object
    ) -> Pid: ...
    async def start(self, behaviour: type[Any], *args: object, **options: object) -> Pid:
        """Start a GenServer, a Supervisor or another behaviour from outside of any process, unlinked.

        ``name`` and ``label`` are options of the process; all else goes to ``init``.

        Raises:
            StartFailed, Ignore, NameTaken: as ``Behaviour.start``.
        """
        launched: Pid = await behaviour._otp_launch(self, None, args, options)
        return launched

    async def run(self, function: Callable[P, Awaitable[T]], *args: P.args, **options: P.kwargs) -> T:
        """Run an async function in a process of its own and return its result, or raise its exception."""
        outcome: asyncio.Future[T] = self.loop.create_future()

        async def body() -> None:
            try:
                made = function(*args, **options)
                if not inspect.isawaitable(made):
                    raise NotAsync.of(function, made)
                value = await made
            except Exception as error:  # noqa: BLE001 - it goes to the caller, whole
                if not outcome.done():
                    outcome.set_exception(error)
            else:
                if not outcome.done():
                    outcome.set_result(value)

        def ended(down: Down) -> None:
            if not outcome.done():
                outcome.set_exception(CallFailed(pid, down.reason))

        pid = self.spawn(body, label=getattr(function, "__qualname__", "run"))
        self.table[pid].watch(self.new_ref(), ended)
        try:
            return await outcome
        finally:
            self.exit(pid, KILL)

    async def tree(self, *, fold: int = 20, root: Pid | None = None) -> list[ProcessNode]:
        """Return the processes as trees, oldest root first, or that of ``root``, as for ``gossamer ps``.

        Of the children with one label the first ``fold`` are listed, the others summed up.
        """
        from gossamer.supervisor.process.tree import forest

        return await forest(self, fold=fold, root=root)

    # Messages.

    def send(self, destination: Destination, message: object) -> bool:
        """Put a message into a mailbox; False when it is known not to arrive.

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
                return remote is not None and self.route(SendSignal(remote[0], remote[1], message))
        return bool(target.deliver(message))

    def cast(self, destination: Destination, request: object) -> None:
        """Send a request that wants no answer; it succeeds even if nobody is there."""
        self.send(destination, Cast(request))

    def call(
        self, destination: Destination, request: object, timeout: float | None = 5.0
    ) -> Coroutine[Any, Any, Any]:
        """Send a request and await its answer; ``timeout`` None waits without limit.

        Raises:
            CallTimeout: no answer in time; a late one is dropped.
            CallFailed: the process ended, is not there, or its node is not connected.
            CallingSelf: a process called itself.
        """
        return self._call(current.get(None), destination, request, timeout)

    async def _call(
        self,
        me: Entry | None,
        destination: Destination,
        request: object,
        timeout: float | None,
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
            # Told to end: it answers nothing any more.
            raise CallFailed(destination, target.reason)
        caller = Caller(None if me is None else me.pid, request, target, self.loop.create_future())
        if me is not None and type(me) is Process:
            if target is me and asyncio.current_task() is me.task:
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
            if me is not None and type(me) is Process:
                me.waiting_on = None

    async def _call_noted(
        self, me: Entry, destination: Destination, request: object, timeout: float | None
    ) -> Any:
        """A call of a process that is traced."""
        self._note("call", destination, request)
        try:
            value = await self._call(me, destination, request, timeout, noted=True)
        except CallFailed as failure:
            self._note("failure", destination, failure.reason)
            raise
        self._note("answer", destination, value)
        return value

    def _note(self, event: str, whom: object, what: object) -> None:
        """Tell the tracer of the running process, if it has one."""
        me = current.get(None)
        if me is not None and me.tracer is not None:
            me.tracer(event, Sent(whom, what))

    async def _call_away(
        self, me: Entry | None, destination: Destination, request: object, timeout: float | None
    ) -> Any:
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
            if not self.route(CallSignal(node, to, ref, pid, request)):
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
            # Outside of processes the runtime speaks, as the process that nobody is.
            source = Pid(self.node, self.creation, 0) if me is None else me.pid
            self.route(ExitSignal(remote[0], remote[1], source, reason, linked=False))

    # The end.

    async def stop(self, timeout: float = 30.0) -> None:
        """End everything in order: root processes by reverse age, each with its tree, then what is left.

        ``timeout`` bounds the orderly part of each root, in seconds; what takes longer is killed.
        """
        me = current.get(None)
        mine = me.pid if me is not None and me.runtime is self else None
        for pid in reversed([p for p, e in self.table.items() if e.parent not in self.table and p != mine]):
            if pid in self.table:
                # From itself, which behaviours take as from their parent: the runtime is nobody's child.
                self.table[pid].exit_signal(pid, SHUTDOWN)
                done = self.join(pid)
                await asyncio.wait([done], timeout=timeout)
                if not done.done():
                    log.warning("stop_timeout", pid=str(pid), label=self.table[pid].label, seconds=timeout)
                    self.exit(pid, KILL)
                    await done
        while rest := [pid for pid in reversed(self.table) if pid != mine]:
            for pid in rest:
                self.exit(pid, KILL)
            await asyncio.wait([self.join(pid) for pid in rest])
        for lane in self._lanes.values():
            lane.close()

    def halt(self) -> None:
        """End everything at once without notice, as ``kill -9`` does; no callback of a process runs."""
        self.remote = None
        entries, self.table = list(self.table.values()), {}
        self.reach = self.table
        self.names.clear()
        for entry in entries:
            entry.reason = Crash("Halt", "the node was halted")
            task = getattr(entry, "task", None)
            if task is not None:
                self.zombies[entry.pid] = entry
                task.cancel()
        for lane in self._lanes.values():
            lane.close()
