"""Registry of processes by key, as Elixir's: ``unique`` for lookup, ``duplicate`` for dispatch.

A process is removed when it exits, before its links and monitors are signalled, so that a successor can take
the key at once.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

from gossamer.supervisor.errors import BadChildSpec, NameTaken
from gossamer.supervisor.process.calls import Sent
from gossamer.supervisor.process.entry import ProcessEntry, current, running
from gossamer.supervisor.values import Pid


class Registry:
    """Map of keys to processes of one runtime, read and written directly, without messages."""

    def __init__(self, keys: Literal["unique", "duplicate"] = "duplicate") -> None:
        if keys not in ("unique", "duplicate"):
            raise BadChildSpec("Registry", "keys", keys, "'unique' or 'duplicate'")
        self._unique = keys == "unique"
        self._rows: dict[Hashable, dict[ProcessEntry, object]] = {}
        self._keys: dict[Pid, dict[Hashable, None]] = {}

    def register(self, key: Hashable, value: object = None) -> None:
        """Register the running process under ``key``; a second time replaces the value.

        Raises:
            NameTaken: keys are unique, and another process has this one.
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
        """Remove the running process from ``key``; return False if it was not there."""
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
        """Return the keys of a process."""
        return list(self._keys.get(pid, ()))

    def dispatch(self, key: Hashable, message: object) -> int:
        """Send ``message`` to every process under ``key``, in order; return how many got it."""
        me = current.get(None)
        if me is not None and me.tracer is not None:
            me.tracer("send", Sent(f"registry {key}", message))
        return sum(entry.deliver(message) for entry in list(self._rows.get(key, ())))

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def _forget(self, entry: ProcessEntry) -> None:
        for key in self._keys.pop(entry.pid, {}):
            self._drop(entry, key)

    def _drop(self, entry: ProcessEntry, key: Hashable) -> None:
        row = self._rows[key]
        del row[entry]
        if not row:
            del self._rows[key]
