"""Runtime: creates the processes of one node, delivers signals of other nodes, and ends them.

Rules: 1. Nothing else in gossamer creates tasks.  2. A signal for a process that does not exist is answered
according to its kind: noproc for a call, a link and a monitor, nothing for a message.  3. A lost node ends
every link, monitor and call across it with ``noconnection``; its processes may still live.  4. Many runtimes
may share one loop, as in the simulator; each process has its own.

Time is the running loop's, so that everything here works on virtual time.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any, ParamSpec, Protocol, TypeVar, TypeVarTuple, overload

import structlog
from msgspec import Struct

from gossamer.errors import UsageError
from gossamer.supervisor.errors import CallFailed, NotAsync, NotInProcess
from gossamer.supervisor.process import signals
from gossamer.supervisor.process.calls import Caller
from gossamer.supervisor.process.entry import ProcessEntry, current
from gossamer.supervisor.process.process import MAX_MAILBOX, Process
from gossamer.supervisor.process.table import ProcessTable
from gossamer.supervisor.process.tree import FOLD, ProcessNode, forest
from gossamer.supervisor.values import (
    KILL,
    NOCONNECTION,
    NOPROC,
    SHUTDOWN,
    Crash,
    Down,
    Pid,
    Ref,
    reason_from_plain,
)

log = structlog.get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Initialised(Protocol[P]):
    """Behaviour for type checkers: it is started with the arguments of its ``init``."""

    async def init(self, *args: P.args, **options: P.kwargs) -> object:
        """Prepare."""


class _Remote(Struct, eq=False):
    """Stand-in for the future of a call from another node: sends the answer there, once."""

    ref: Ref
    entry: ProcessEntry
    caller: Caller | None = None

    def done(self) -> bool:
        return self.caller is None

    def set_result(self, value: object, *, failed: bool = False) -> None:
        if self.entry.calls is not None and self.caller is not None:
            self.entry.calls.pop(self.caller, None)
        self.caller = None
        self.entry.runtime.route(signals.ReplySignal(self.ref.node, self.ref, value, failed))

    def set_exception(self, error: CallFailed) -> None:
        self.set_result(error.reason, failed=True)


class Runtime(ProcessTable):
    """Processes of one node, with all operations on them."""

    def __init__(self, node: str = "nonode@nohost", creation: int = 1) -> None:
        super().__init__(node, creation)
        self.restarts: Counter[str] = Counter()
        """Restarts of children, by the registered name of their supervisor; blank: it has none."""

    @staticmethod
    def current() -> Runtime:
        """Return the runtime of the running process.

        Raises:
            NotInProcess: no process runs here.
        """
        return current_runtime("Runtime.current")

    # Creation of processes.

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
            NameTaken: another live process has ``name``.
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
        """Start a process and return its entry; behaviours are started by this."""
        loop = self._loop or self.loop
        process = Process(loop, max_mailbox)
        process.enter(self, label=label, name=name, parent=parent)
        if self.traced:
            self._note("spawn", process.pid, label)
        # A copy: the child's changes to its context stay its own.
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
        behaviour: type[Initialised[...]],
        *args: object,
        name: str | None,
        label: str | None = None,
        **options: object,
    ) -> Pid: ...
    @overload
    async def start(
        self, behaviour: type[Initialised[...]], *args: object, label: str | None, **options: object
    ) -> Pid: ...
    async def start(self, behaviour: type[Any], *args: object, **options: object) -> Pid:
        """Start a GenServer, a Supervisor or another behaviour from outside of any process, unlinked.

        ``name`` and ``label`` are options of the process; all else goes to ``init``.

        Raises:
            StartFailed, Ignore, NameTaken: as ``Behaviour.start``.
            UsageError: ``behaviour`` is no actor class.
        """
        if not (isinstance(behaviour, type) and hasattr(behaviour, "_otp_launch")):
            raise UsageError(f"got {behaviour!r}, expected an actor class and the arguments of its init")
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

    async def tree(self, *, fold: int = FOLD, root: Pid | None = None) -> list[ProcessNode]:
        """Return the processes as trees, oldest root first, or that of ``root``, as for ``gossamer ps``.

        Of the children with one label the first ``fold`` are listed, the others summed up.
        """
        return await forest(self, fold=fold, root=root)

    # Signals of other nodes.

    def deliver_remote(self, signal: signals.Signal) -> None:
        """Deliver a signal of another node."""
        if isinstance(signal, signals.ReplySignal):
            caller = self.remote_calls.get(signal.ref)
            if caller is not None:
                if signal.failed:
                    caller.fail(reason_from_plain(signal.value))
                else:
                    caller.answer(signal.value)
            return
        entry = self.table.get(signal.to) if isinstance(signal.to, Pid) else self.names.get(signal.to)
        if isinstance(signal, signals.SendSignal):
            if entry is not None:
                entry.deliver(signal.message)
        elif isinstance(signal, signals.CallSignal):
            self._called(entry, signal)
        elif isinstance(signal, signals.LinkSignal):
            if entry is not None:
                entry.add_link(signal.source)
            else:
                self.route(
                    signals.ExitSignal(signal.source.node, signal.source, signal.to, NOPROC, linked=True)
                )
        elif isinstance(signal, signals.UnlinkSignal):
            if entry is not None:
                entry.remove_link(signal.source)
        elif isinstance(signal, signals.ExitSignal):
            # A link's signal counts only while the link exists: it may have crossed an unlink.
            if entry is not None and (not signal.linked or entry.remove_link(signal.source)):
                entry.exit_signal(signal.source, reason_from_plain(signal.reason), linked=signal.linked)
        elif isinstance(signal, signals.MonitorSignal):
            if entry is not None:
                entry.watch(signal.ref, signal.source)
                self.note_remote(signal.source.node, entry.pid)
            else:
                gone = signal.to if isinstance(signal.to, Pid) else None
                self.route(signals.DownSignal(signal.source.node, signal.source, signal.ref, gone, NOPROC))
        elif isinstance(signal, signals.DemonitorSignal):
            self._unwatched(entry, signal)
        elif entry is not None and entry.forget_watching(signal.ref):
            entry.deliver_signal(Down(signal.ref, signal.pid, reason_from_plain(signal.reason)))

    def _called(self, entry: ProcessEntry | None, signal: signals.CallSignal) -> None:
        if entry is None:
            self.route(signals.ReplySignal(signal.ref.node, signal.ref, NOPROC, failed=True))
            return
        answer = _Remote(signal.ref, entry)
        caller = answer.caller = Caller(signal.caller, signal.request, entry, answer)  # type: ignore[arg-type]
        calls = entry.calls = entry.calls or {}
        calls[caller] = None
        if not entry.deliver(caller):
            caller.fail("mailbox_full")

    def _unwatched(self, entry: ProcessEntry | None, signal: signals.DemonitorSignal) -> None:
        if entry is not None and entry.forget_watcher(signal.ref):
            return
        # The monitor was made by name, and the name has moved since.
        for pid in self.remote_links.get(signal.ref.node, ()):
            other = self.table.get(pid)
            if other is not None and other.forget_watcher(signal.ref):
                return

    def node_lost(self, node: str) -> None:
        """End links, monitors and calls across a lost connection to ``node`` with noconnection."""
        for caller in [c for ref, c in self.remote_calls.items() if c.node() == node]:
            caller.fail(NOCONNECTION)
        for pid in self.remote_links.pop(node, {}):
            entry = self.table.get(pid)
            if entry is None:
                continue
            for ref, watcher in list((entry.watchers or {}).items()):
                if isinstance(watcher, Pid) and watcher.node == node and entry.watchers is not None:
                    del entry.watchers[ref]
            for ref, target in list((entry.watching or {}).items()):
                address = self.remote_address(target)
                if address is not None and address[0] == node and entry.watching is not None:
                    del entry.watching[ref]
                    gone = address[1] if isinstance(address[1], Pid) else None
                    entry.deliver_signal(Down(ref, gone, NOCONNECTION))
            for other in [other for other in entry.links or () if other.node == node]:
                if entry.remove_link(other):
                    entry.exit_signal(other, NOCONNECTION, linked=True)

    # Shutdown.

    async def stop(self, timeout: float = 30.0) -> None:
        """Stop everything in order: root processes by reverse age, each with its tree, then the rest.

        ``timeout`` bounds the orderly stop of each root, in seconds; after that it is killed.
        """
        me = current.get(None)
        mine = me.pid if me is not None and me.runtime is self else None
        for pid in reversed([p for p, e in self.table.items() if e.parent not in self.table and p != mine]):
            if pid in self.table:
                # From itself, which behaviours treat like their parent's: a root has no other.
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
        """End everything at once, as ``kill -9`` does; no callback of a process runs."""
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


def current_runtime(function: str) -> Runtime:
    """Return the runtime of the running process for ``function``, which needs one.

    Raises:
        NotInProcess: no process runs here.
    """
    entry = current.get(None)
    if entry is None or not isinstance(entry.runtime, Runtime):
        raise NotInProcess(function)
    return entry.runtime
