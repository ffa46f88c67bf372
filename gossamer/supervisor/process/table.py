"""The process table of one node: who is there, under which pid and which name, and how one hears of an end.

Rules: 1. The table holds processes strongly, because the event loop does not.  2. A pid of an earlier
creation of this node is nobody.  3. Numbers of pids and references are never used twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import count

from gossamer.supervisor.errors import BadDestination, CallFailed, NameTaken
from gossamer.supervisor.process.entry import Entry
from gossamer.supervisor.values import NOPROC, Destination, Down, Pid, Reason, Ref

__all__ = ["ProcessTable"]


class ProcessTable:
    """Local processes by pid and by name; ``Runtime`` adds the messages and signals between them."""

    def __init__(self, node: str = "nonode@nohost", creation: int = 1) -> None:
        self.node = node
        self.creation = creation
        self.table: dict[Pid, Entry] = {}
        self.names: dict[str, Entry] = {}
        self.zombies: dict[Pid, Entry] = {}
        self.graves: deque[Entry] = deque()
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
