"""The process table of one node: who is there, and what a signal of another node does to it.

Rules: 1. The table holds processes strongly, because the event loop does not.  2. A pid of an earlier
creation of this node is nobody.  3. Numbers of pids and references are never used twice.  4. A signal for a
process that is not there is answered as its kind demands: noproc for a call, a link and a monitor, silence
for a message.  5. A lost node ends every tie and call across it with ``noconnection``; the processes there
may well live on.

A ``Registry`` has processes under keys, as Elixir's: ``unique`` for finding, ``duplicate`` for dispatching. A
process leaves it when it ends, before anybody is told of its end, so that a successor can take the key at
once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from itertools import count
from typing import Literal

from gossamer.supervisor.errors import BadChildSpec, BadDestination, CallFailed, NameTaken
from gossamer.supervisor.process import signals
from gossamer.supervisor.process.calls import Caller, remote_caller
from gossamer.supervisor.process.entry import Entry, Sent, current, running
from gossamer.supervisor.values import (
    NOCONNECTION,
    NOPROC,
    Destination,
    Down,
    Pid,
    Reason,
    Ref,
    reason_from_plain,
)


class ProcessTable:
    """Local processes by pid and by name; ``Runtime`` adds the messages and signals between them."""

    def __init__(self, node: str = "nonode@nohost", creation: int = 1) -> None:
        self.node = node
        self.creation = creation
        self.table: dict[Pid, Entry] = {}
        self.names: dict[str, Entry] = {}
        self.zombies: dict[Pid, Entry] = {}
        self.graves: deque[Entry] = deque()
        self.remote: signals.RemoteRouter | None = None
        self.remote_calls: dict[Ref, Caller] = {}
        self.remote_ties: dict[str, dict[Pid, None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._numbers = count(1)
        self._refs = count(1)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of this runtime, the one that ran when it was first used."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def new_pid(self) -> Pid:
        """Return a pid that was never used before."""
        return Pid(self.node, self.creation, next(self._numbers))

    def new_ref(self) -> Ref:
        """Return a reference that was never used before."""
        return Ref(self.node, self.creation, next(self._refs))

    def find(self, destination: Destination) -> Entry | None:
        """Return the live local process at a destination, None if there is none.

        Raises:
            BadDestination: it is no destination at all.
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
            NameTaken: another process holds the name, or this one has a name already.
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
        """Return True until a local process ends, or has an exit signal on its way."""
        entry = self.table.get(pid)
        return entry is not None and entry.reason is None

    def processes(self) -> list[Pid]:
        """Return all local processes, oldest first."""
        return list(self.table)

    def join(self, pid: Pid) -> asyncio.Future[Reason]:
        """Return a future of the reason with which a local process ends, noproc if it is not there."""
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
        """Note that ``pid`` is linked to, or watches, something on ``node``."""
        self.remote_ties.setdefault(node, {})[pid] = None

    # Other nodes.

    def route(self, signal: signals.Signal) -> bool:
        """Hand a signal to the router; return False if there is none or the node is not connected."""
        return self.remote is not None and self.remote.route(signal)

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
                entry.tie(signal.source)
            else:
                self.route(
                    signals.ExitSignal(signal.source.node, signal.source, signal.to, NOPROC, linked=True)
                )
        elif isinstance(signal, signals.UnlinkSignal):
            if entry is not None:
                entry.untie(signal.source)
        elif isinstance(signal, signals.ExitSignal):
            # A link's signal counts only while the link is there: it may have crossed an unlink.
            if entry is not None and (not signal.linked or entry.untie(signal.source)):
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

    def _called(self, entry: Entry | None, signal: signals.CallSignal) -> None:
        if entry is None:
            self.route(signals.ReplySignal(signal.ref.node, signal.ref, NOPROC, failed=True))
            return
        caller = remote_caller(signal.caller, signal.request, signal.ref, entry)
        if not entry.deliver(caller):
            caller.fail("mailbox_full")

    def _unwatched(self, entry: Entry | None, signal: signals.DemonitorSignal) -> None:
        if entry is not None and entry.forget_watcher(signal.ref):
            return
        # The monitor was made by name, and the name has moved on since.
        for pid in self.remote_ties.get(signal.ref.node, ()):
            other = self.table.get(pid)
            if other is not None and other.forget_watcher(signal.ref):
                return

    def node_lost(self, node: str) -> None:
        """End links, monitors and calls across a lost connection to ``node`` with noconnection."""
        for caller in [c for ref, c in self.remote_calls.items() if c.node() == node]:
            caller.fail(NOCONNECTION)
        for pid in self.remote_ties.pop(node, {}):
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
                if entry.untie(other):
                    entry.exit_signal(other, NOCONNECTION, linked=True)


class Registry:
    """A map of keys to processes of one runtime, read and written directly, without a message."""

    def __init__(self, keys: Literal["unique", "duplicate"] = "duplicate") -> None:
        if keys not in ("unique", "duplicate"):
            raise BadChildSpec("Registry", "keys", keys, "'unique' or 'duplicate'")
        self._unique = keys == "unique"
        self._rows: dict[Hashable, dict[Entry, object]] = {}
        self._keys: dict[Pid, dict[Hashable, None]] = {}

    def register(self, key: Hashable, value: object = None) -> None:
        """Put the running process under ``key``; again for the same key replaces the value.

        Raises:
            NameTaken: unique keys, and another process holds this one.
        """
        entry = running("Registry.register")
        row = self._rows.setdefault(key, {})
        if self._unique and row and entry not in row:
            raise NameTaken(str(key), next(iter(row)).pid)
        row[entry] = value
        held = self._keys.get(entry.pid)
        if held is None:
            held = self._keys[entry.pid] = {}
            entry.on_release(self._forget)
        held[key] = None

    def unregister(self, key: Hashable) -> bool:
        """Take the running process away from ``key``; False when it was not there."""
        entry = current.get(None)
        held = None if entry is None else self._keys.get(entry.pid)
        if entry is None or held is None or key not in held:
            return False
        del held[key]
        self._drop(entry, key)
        return True

    def lookup(self, key: Hashable) -> list[tuple[Pid, object]]:
        """Return the processes under ``key`` with their values, in order of registration."""
        return [(entry.pid, value) for entry, value in self._rows.get(key, {}).items()]

    def whereis(self, key: Hashable) -> Pid | None:
        """Return the first process under ``key``, None if there is none."""
        row = self._rows.get(key)
        return next(iter(row)).pid if row else None

    def keys(self, pid: Pid) -> list[Hashable]:
        """Return the keys that a process holds."""
        return list(self._keys.get(pid, ()))

    def dispatch(self, key: Hashable, message: object) -> int:
        """Send ``message`` to every process under ``key``, in order; return how many got it."""
        me = current.get(None)
        if me is not None and me.tracer is not None:
            me.tracer("send", Sent(f"registry {key}", message))
        return sum(entry.deliver(message) for entry in list(self._rows.get(key, ())))

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def _forget(self, entry: Entry) -> None:
        for key in self._keys.pop(entry.pid, {}):
            self._drop(entry, key)

    def _drop(self, entry: Entry, key: Hashable) -> None:
        row = self._rows[key]
        del row[entry]
        if not row:
            del self._rows[key]
