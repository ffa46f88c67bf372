"""Process table as trees of plain data, for ``gossamer ps`` and the API.

Rules: 1. A table of 100,000 processes must not block the loop: it is read in slices, with other turns in
between, and so is no snapshot of one moment.  2. Large families are counted rather than listed: of the
children of one process with one label only the first ``fold`` are shown, and no more than ``SHOWN`` processes
in all; the others, and their descendants, are summed up by label.
"""

from __future__ import annotations

import asyncio
import re
import sys
from itertools import islice

from msgspec import Struct

from gossamer.supervisor.errors import NoSuchProcess
from gossamer.supervisor.process.entry import ProcessEntry
from gossamer.supervisor.process.table import ProcessTable
from gossamer.supervisor.values import Pid

TASK_BYTES = 1200
"""Estimated bytes of a task, its coroutines, context and future, which ``getsizeof`` does not include."""

FOLD = 20
SHOWN = 5000
SLICE = 500
"""Processes read in one turn of the loop; about two milliseconds."""

SAMPLE = 100
"""Messages of a mailbox that are measured; the others are extrapolated."""


class Folded(Struct):
    """Sums over children of one label that are not listed."""

    label: str
    number: int = 0
    mailbox: int = 0
    reductions: int = 0
    restarts: int = 0
    memory: int = 0


class ProcessNode(Struct, frozen=True):
    """Process and its children.

    ``restarts``: of this child by its supervisor. ``reductions``: messages handled. ``memory``: bytes, an
    estimate without objects that the state refers to. ``dropped``: messages refused by the full mailbox.
    ``note``: a remark, such as what it waits for, or its client.
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
    dropped: int
    note: str
    children: list[ProcessNode]
    folded: list[Folded]

    @property
    def more(self) -> int:
        """Number of children that are not listed."""
        return sum(kind.number for kind in self.folded)


_Below = dict[Pid | None, dict[str, tuple[list[ProcessEntry], Folded]]]
"""By parent and label: the listed children, and the sums of the others."""


async def forest(runtime: ProcessTable, *, fold: int = FOLD, root: Pid | None = None) -> list[ProcessNode]:
    """Return all processes of ``runtime`` as trees by (live) parent, or only the tree of ``root``."""
    table = runtime.table
    below: _Below = {}
    # Of those not listed: the process under which they are summed up.
    home: dict[Pid | None, Pid | None] = {}
    room = SHOWN
    for at, entry in enumerate(list(table.values())):
        if at % SLICE == SLICE - 1:
            await asyncio.sleep(0)
        if table.get(entry.pid) is not entry or entry.pid == root:
            continue
        parent = entry.parent if entry.parent in table else None
        above = home.get(parent, parent)
        shown, others = below.setdefault(above, {}).setdefault(entry.label, ([], Folded(entry.label)))
        if (len(shown) < fold or parent is None) and room and above == parent:
            shown.append(entry)
            room -= 1
        else:
            home[entry.pid] = above
            others.number += 1
            others.mailbox += entry.mailbox_length()
            others.reductions += entry.reductions
            others.restarts += _restarts(runtime, parent, entry)
            others.memory += memory_of(entry)
    # The listed part is bounded, and built in one turn.
    if root is None:
        return _nodes(runtime, None, below)
    found = table.get(root)
    return [] if found is None else [_node(runtime, found.parent, found, below)]


def _nodes(runtime: ProcessTable, above: Pid | None, below: _Below) -> list[ProcessNode]:
    entries = [entry for shown, _ in below.get(above, {}).values() for entry in shown]
    entries.sort(key=lambda entry: entry.pid.number)
    return [_node(runtime, above, entry, below) for entry in entries]


def _node(runtime: ProcessTable, above: Pid | None, entry: ProcessEntry, below: _Below) -> ProcessNode:
    return ProcessNode(
        pid=entry.pid,
        name=entry.name,
        label=entry.label,
        type=getattr(entry.behaviour, "kind", entry.kind),
        status=entry.state(),
        restarts=_restarts(runtime, above, entry),
        mailbox=entry.mailbox_length(),
        reductions=entry.reductions,
        memory=memory_of(entry),
        links=0 if entry.links is None else len(entry.links),
        dropped=entry.dropped,
        note=entry.note(),
        children=_nodes(runtime, entry.pid, below),
        folded=[others for _, others in below.get(entry.pid, {}).values() if others.number],
    )


def _restarts(runtime: ProcessTable, above: Pid | None, entry: ProcessEntry) -> int:
    parent = None if above is None else runtime.table.get(above)
    restarts_of = None if parent is None else getattr(parent.behaviour, "restarts_of", None)
    return 0 if restarts_of is None else int(restarts_of(entry.pid))


def memory_of(entry: ProcessEntry) -> int:
    """Return the bytes of a process, without objects that its state refers to."""
    size = sys.getsizeof(entry) + sys.getsizeof(entry.pid)
    for ties in (entry.links, entry.watchers, entry.watching, entry.calls):
        if ties is not None:
            size += sys.getsizeof(ties)
    mailbox = getattr(entry, "mailbox", None)
    if mailbox is not None:
        size += TASK_BYTES + sys.getsizeof(mailbox)
        sample = [sys.getsizeof(message) for message in islice(mailbox, SAMPLE)]
        if sample:
            size += sum(sample) * len(mailbox) // len(sample)
    if entry.behaviour is not None:
        size += sum(map(sys.getsizeof, vars(entry.behaviour).values()))
    return size


def locate(runtime: ProcessTable, text: str) -> Pid:
    """Return the live process named by ``<node.31>``, ``node.31``, ``31`` or a registered name.

    Raises:
        NoSuchProcess: there is none, or it is on another node, which the message names.
    """
    entry = runtime.names.get(text)
    if entry is not None:
        return entry.pid
    found = re.fullmatch(r"<?(?:(?P<node>.+)\.)?(?P<number>[0-9]{1,18})>?", text.strip())
    if found is not None:
        node = found["node"] or runtime.node
        if node != runtime.node:
            raise NoSuchProcess(text, runtime.node, elsewhere=node)
        pid = Pid(node, runtime.creation, int(found["number"]))
        if pid in runtime.table:
            return pid
    raise NoSuchProcess(text, runtime.node)
