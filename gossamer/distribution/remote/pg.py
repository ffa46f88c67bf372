"""Process groups: named sets of processes over all nodes, read from this node's memory (OTP's ``pg``).

Every node decides which of its own processes are in a group and informs the others; it cannot add another
node's process, so views cannot conflict, and each converges once signals arrive. There is no agreement: two
nodes may see different members for as long as a message takes.

Rules: 1. Only local processes join and leave here; monitors show their end.  2. When a node comes up, both
sides send all their members (``Members``), which replace what was known of that node; after that, changes.
The control stream keeps them in order.  3. When a node goes down its members are removed.  4. The view
(:class:`Groups`) outlives the server, which on a restart monitors and sends its members again.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gossamer.distribution.distribution import Distribution
from gossamer.distribution.events import NodeDown, NodeUp
from gossamer.distribution.remote.terms import register_message
from gossamer.errors import UsageError
from gossamer.supervisor import Caller, Down, GenServer, Pid, Ref, Reply, call, monitor

PG = "pg"
"""Registered name of the server on every node."""


class _Members(Struct, frozen=True):
    """All members of a node; ``answer`` requests the receiver's."""

    node: str
    groups: dict[str, list[Pid]]
    answer: bool


class _Change(Struct, frozen=True):
    node: str
    group: str
    pid: Pid
    joined: bool


for _type in (_Members, _Change):
    register_message(_type, f"pg.{_type.__name__.strip('_')}")


class _Ask(Struct, frozen=True):
    """Request of a local process."""

    group: str
    pid: Pid
    joins: bool


class Groups:
    """This node's view of the groups; read it directly, from anywhere on the loop."""

    def __init__(self) -> None:
        # By node, then by group. A dict of pids, because their order is visible.
        self._members: dict[str, dict[str, dict[Pid, None]]] = {}

    def names(self) -> list[str]:
        """Return the groups that have members."""
        return list(dict.fromkeys(group for groups in self._members.values() for group in groups))

    def members(self, group: str) -> list[Pid]:
        """Return all members, node by node."""
        return [pid for groups in self._members.values() for pid in groups.get(group, ())]

    def nodes(self) -> list[str]:
        """Return the nodes that have members of any group."""
        return [node for node, groups in self._members.items() if groups]

    def of_node(self, node: str) -> dict[str, list[Pid]]:
        """Return the groups in which ``node`` has members, with those members."""
        return {group: list(pids) for group, pids in self._members.get(node, {}).items()}

    def note(self, node: str, group: str, pid: Pid, *, joined: bool) -> bool:
        """Record that a process of ``node`` joined or left a group; return False if that was known."""
        groups = self._members.setdefault(node, {})
        pids = groups.get(group, {})
        if joined is (pid in pids):
            return False
        if joined:
            groups.setdefault(group, {})[pid] = None
        else:
            del pids[pid]
            if not pids:
                del groups[group]
        return True

    def replace(self, node: str, groups: dict[str, list[Pid]]) -> None:
        """Replace all members of ``node``; pids of other nodes are ignored."""
        own = {group: [pid for pid in pids if pid.node == node] for group, pids in groups.items()}
        self._members[node] = {group: dict.fromkeys(pids) for group, pids in own.items() if pids}


class Pg(GenServer):
    """Group server of one node; start it under the name :data:`PG`."""

    async def init(self, distribution: Distribution, groups: Groups) -> None:
        self._distribution = distribution
        self._groups = groups
        self._node = distribution.runtime.node
        self._watched: dict[Ref, Pid] = {}
        self._refs: dict[Pid, Ref] = {}
        for node in set(groups.nodes()) - {self._node, *distribution.nodes()}:
            groups.replace(node, {})
        for pids in groups.of_node(self._node).values():
            for pid in pids:
                self._watch(pid)
        # Also sends a NodeUp for the nodes that are up already.
        distribution.subscribe(self.process.pid)

    async def handle_call(self, request: object, caller: Caller) -> Reply:
        if not isinstance(request, _Ask):
            return Reply(UsageError(f"pg got {type(request).__name__}; use join() and leave()"))
        if request.joins and not self._distribution.runtime.alive(request.pid):
            return Reply(
                UsageError(f"join() got {request.pid}; expected a live process of node {self._node}")
            )
        self._change(request.group, request.pid, joined=request.joins)
        return Reply(None)

    async def handle_cast(self, request: object) -> None:
        # From another node, about its own processes only.
        if isinstance(request, _Members):
            self._groups.replace(request.node, request.groups)
            if request.answer:
                self._tell(request.node, _Members(self._node, self._groups.of_node(self._node), answer=False))
        elif isinstance(request, _Change) and request.pid.node == request.node:
            self._groups.note(request.node, request.group, request.pid, joined=request.joined)

    async def handle_info(self, message: object) -> None:
        if isinstance(message, NodeUp):
            self._tell(message.name, _Members(self._node, self._groups.of_node(self._node), answer=True))
        elif isinstance(message, NodeDown):
            self._groups.replace(message.name, {})
        elif isinstance(message, Down):
            pid = self._watched.pop(message.ref, None)
            if pid is not None:
                self._refs.pop(pid, None)
                for group in [g for g, pids in self._groups.of_node(self._node).items() if pid in pids]:
                    self._change(group, pid, joined=False)

    def _change(self, group: str, pid: Pid, *, joined: bool) -> None:
        """Record and publish that a local process joins or leaves."""
        if joined:
            self._watch(pid)
        if self._groups.note(self._node, group, pid, joined=joined):
            for node in self._distribution.nodes():
                self._tell(node, _Change(self._node, group, pid, joined))

    def _tell(self, node: str, message: _Members | _Change) -> None:
        self.process.runtime.cast((PG, node), message)

    def _watch(self, pid: Pid) -> None:
        if pid not in self._refs:
            ref = monitor(pid)
            self._refs[pid] = ref
            self._watched[ref] = pid


async def join(group: str, pids: Iterable[Pid] | Pid) -> None:
    """Make local processes members of ``group``.

    Raises:
        UsageError: one of them is not a live process of this node.
    """
    for pid in [pids] if isinstance(pids, Pid) else pids:
        await _request(_Ask(group, pid, joins=True))


async def leave(group: str, pids: Iterable[Pid] | Pid) -> None:
    """Take local processes out of ``group``."""
    for pid in [pids] if isinstance(pids, Pid) else pids:
        await _request(_Ask(group, pid, joins=False))


async def _request(request: _Ask) -> None:
    answer = await call(PG, request)
    if isinstance(answer, Exception):
        raise answer
