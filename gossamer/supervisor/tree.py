"""The process table as trees of plain data: what ``gossamer ps`` draws and the API serves."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msgspec import Struct

from gossamer.supervisor.entry import Entry
from gossamer.supervisor.values import Pid

if TYPE_CHECKING:
    from gossamer.supervisor.runtime import Runtime

__all__ = ["ProcessNode", "forest"]

TASK_BYTES = 1200
"""What a task, its coroutines, its context and its future weigh beside what can be asked for its size."""


class ProcessNode(Struct, frozen=True):
    """One process and those it started.

    ``restarts``: of this child by its supervisor. ``reductions``: messages handled. ``memory``: bytes, an
    estimate that leaves out what the state refers to.
    """

    pid: Pid
    name: str | None
    label: str
    type: str
    status: str
    restarts: int
    mailbox: int
    reductions: int
    memory: int
    links: int
    children: list[ProcessNode]


def forest(runtime: Runtime) -> list[ProcessNode]:
    """Every process of ``runtime`` under the one that started it, while that one lives."""
    below: dict[Pid | None, list[Entry]] = {}
    for entry in runtime.table.values():
        above = entry.parent if entry.parent in runtime.table else None
        below.setdefault(above, []).append(entry)
    return _nodes(runtime, None, below)


def _nodes(runtime: Runtime, above: Pid | None, below: dict[Pid | None, list[Entry]]) -> list[ProcessNode]:
    supervisor = None if above is None else getattr(runtime.table[above], "behaviour", None)
    restarts_of = getattr(supervisor, "restarts_of", None)
    return [
        ProcessNode(
            pid=entry.pid,
            name=entry.name,
            label=entry.label,
            type=getattr(getattr(entry, "behaviour", None), "kind", entry.kind),
            status=entry.state(),
            restarts=0 if restarts_of is None else restarts_of(entry.pid),
            mailbox=entry.mailbox_length(),
            reductions=getattr(entry, "reductions", 0),
            memory=memory_of(entry),
            links=0 if entry.links is None else len(entry.links),
            children=_nodes(runtime, entry.pid, below),
        )
        for entry in below.get(above, ())
    ]


def memory_of(entry: Entry) -> int:
    """Bytes that a process takes, without what its state refers to."""
    size = sys.getsizeof(entry) + sys.getsizeof(entry.pid)
    for ties in (entry.links, entry.watchers, entry.watching, entry.calls):
        if ties is not None:
            size += sys.getsizeof(ties)
    mailbox = getattr(entry, "mailbox", None)
    if mailbox is not None:
        size += TASK_BYTES + sys.getsizeof(mailbox) + sum(map(sys.getsizeof, mailbox))
    behaviour = getattr(entry, "behaviour", None)
    if behaviour is not None:
        size += sum(map(sys.getsizeof, vars(behaviour).values()))
    return size
