"""Global names: one process for a name over all nodes, read from this node's memory (OTP's ``global``).

Every node decides about the names of its own processes and informs the others, as in ``pg``. To keep two
nodes from registering one name at the same time, a registration asks the *arbiter* first, the node with the
smallest name among those that are up: it grants one claim and remembers it.

During a split each side has an arbiter, so a name may be registered twice. When the sides reconnect, all
nodes choose alike: the older registration by a logical clock, then the smaller pid. The node of the younger
asks the node of the older whether it still holds the name, because its withdrawal may be in flight; if so, it
resolves the conflict as the younger registration asked for (:mod:`~gossamer.distribution.remote.resolvers`),
and informs the other node if the older loses. Each of several younger ones meets the oldest.

Rules: 1. ``whereis_name`` reads; it may be behind by a message.  2. A process that ends, or whose node goes
down, has no names.  3. Only the arbiter's grant is waited for: names stay available on both sides of a split,
and that is why there are conflicts to resolve.  4. The view outlives the server, as with ``pg``.
"""

from __future__ import annotations

import structlog
from msgspec import Struct

from gossamer.distribution.distribution import Distribution
from gossamer.distribution.events import NodeDown, NodeUp
from gossamer.distribution.remote.remote import RemoteProcesses
from gossamer.distribution.remote.resolvers import NameConflict, Resolution, check_resolve, resolve_conflict
from gossamer.distribution.remote.terms import register_message
from gossamer.distribution.remote.unique import consistent
from gossamer.errors import UsageError
from gossamer.supervisor import (
    Caller,
    CallFailed,
    Down,
    GenServer,
    NoReply,
    Pid,
    Ref,
    Reply,
    Runtime,
    call,
    cast,
    monitor,
    reply,
    self_pid,
    send,
    spawn,
)

log = structlog.get_logger(__name__)

GLOBAL = "global"
"""Registered name of the server on every node."""

ARBITER_TIMEOUT = 2.0
"""Timeout of the arbiter's answer in seconds; after that the name is registered without it."""


class Registration(Struct, frozen=True):
    """Registration of a global name."""

    pid: Pid
    stamp: int
    resolve: str


class Names:
    """This node's view of the names: the holders of each, by node."""

    def __init__(self) -> None:
        self._registrations: dict[str, dict[str, Registration]] = {}
        self.clock = 0

    def names(self) -> list[str]:
        """Return all names that have a holder."""
        return list(self._registrations)

    def winner(self, name: str) -> Registration | None:
        """Return the registration that has the name; equal views choose alike."""
        held = self._registrations.get(name)
        return min(held.values(), key=lambda one: (one.stamp, one.pid)) if held else None

    def get(self, name: str, node: str) -> Registration | None:
        """Return ``node``'s registration of the name."""
        return self._registrations.get(name, {}).get(node)

    def of_node(self, node: str) -> dict[str, Registration]:
        """Return all registrations of ``node``."""
        return {name: held[node] for name, held in self._registrations.items() if node in held}

    def nodes(self) -> set[str]:
        """Return the nodes that hold any name."""
        return {node for held in self._registrations.values() for node in held}

    def put(self, name: str, node: str, registration: Registration | None) -> None:
        """Store ``node``'s registration of the name; None: it has none."""
        if registration is not None:
            self.clock = max(self.clock, registration.stamp)
            self._registrations.setdefault(name, {})[node] = registration
        elif (held := self._registrations.get(name)) is not None:
            held.pop(node, None)
            if not held:
                del self._registrations[name]


class _Register(Struct, frozen=True):
    name: str
    pid: Pid
    resolve: str


class _Unregister(Struct, frozen=True):
    name: str


class _Claim(Struct, frozen=True):
    """Request to the arbiter: may this process have the name?"""

    name: str
    registration: Registration


class _Granted(Struct, frozen=True):
    """Arbiter's answer, from the process that asked it."""

    name: str
    granted: bool


class _All(Struct, frozen=True):
    """All names of a node; ``answer`` requests the receiver's."""

    node: str
    names: dict[str, Registration]
    answer: bool


class _Change(Struct, frozen=True):
    """Change of a node's registration; None: the process lost the name."""

    node: str
    name: str
    registration: Registration | None


class _Conflict(Struct, frozen=True):
    """Question of the loser's node: do you still hold the name?"""

    node: str
    name: str
    winner: Pid


class _Held(Struct, frozen=True):
    """Answer of the winner's node: it does."""

    name: str
    winner: Pid


class _Lost(Struct, frozen=True):
    """Notice to the node of the holder that loses the name."""

    name: str
    loser: Pid
    keeps: Pid | None
    kill: bool


for _type in (Registration, _Claim, _All, _Change, _Conflict, _Held, _Lost):
    register_message(_type, f"global.{_type.__name__.strip('_')}")


class GlobalNames(GenServer):
    """Name server of one node; start it under the name :data:`GLOBAL`."""

    async def init(self, distribution: Distribution, names: Names) -> None:
        self._distribution = distribution
        self._names = names
        self._node = distribution.runtime.node
        self._watched: dict[Ref, tuple[str, Pid]] = {}
        self._asking: dict[str, tuple[_Claim, Caller]] = {}
        """Registrations that wait for the arbiter, by name."""
        for node in names.nodes() - {self._node, *distribution.nodes()}:
            self._replace(node, {})
        for name, registration in names.of_node(self._node).items():
            self._watched[monitor(registration.pid)] = (name, registration.pid)
        distribution.subscribe(self.process.pid)

    async def handle_call(self, request: object, caller: Caller) -> Reply | NoReply:
        match request:
            case _Register(name, pid, resolve):
                return self._register(name, pid, resolve, caller)
            case _Unregister(name):
                if self._names.get(name, self._node) is None:
                    return Reply(False)
                self._change(name, None)
                return Reply(True)
            case _Claim(name, registration):
                return Reply(self._claim(name, registration))
        return Reply(UsageError(f"global got {type(request).__name__}; use register_name()"))

    async def handle_cast(self, request: object) -> None:
        match request:
            case _All(node, names, answer):
                self._replace(node, names)
                if answer:
                    cast((GLOBAL, node), _All(self._node, self._names.of_node(self._node), answer=False))
            case _Change(node, name, registration) if registration is None or registration.pid.node == node:
                self._names.put(name, node, registration)
                self._check_conflict(name)
            case _Conflict(node, name, winner):
                mine = self._names.get(name, self._node)
                if mine is not None and mine.pid == winner:
                    cast((GLOBAL, node), _Held(name, winner))
            case _Held(name, winner):
                self._resolve(name, winner)
            case _Lost(name, loser, keeps, kill):
                self._lose(name, loser, Resolution(keeps, kill))

    async def handle_info(self, message: object) -> None:
        match message:
            case NodeUp(node, _):
                cast((GLOBAL, node), _All(self._node, self._names.of_node(self._node), answer=True))
            case NodeDown(node, _, _):
                self._replace(node, {})
            case Down(ref, _, _):
                name, pid = self._watched.pop(ref, ("", None))
                mine = self._names.get(name, self._node)
                if mine is not None and mine.pid == pid:
                    self._change(name, None)
            case _Granted(name, granted):
                claim, caller = self._asking.pop(name)
                reply(caller, granted and self._take(claim))

    def _register(self, name: str, pid: Pid, resolve: str, caller: Caller) -> Reply | NoReply:
        if pid.node != self._node or not self._distribution.runtime.alive(pid):
            return Reply(
                UsageError(f"register_name() got {pid}; expected a live process of node {self._node}")
            )
        if self._names.winner(name) is not None or name in self._asking:
            return Reply(False)
        claim = _Claim(name, Registration(pid, self._names.clock + 1, resolve))
        arbiter = min([self._node, *self._distribution.nodes()])
        if arbiter == self._node:
            return Reply(self._take(claim))
        self._asking[name] = (claim, caller)
        # In a process of its own: servers that wait for each other would deadlock.
        spawn(_ask_arbiter, self.process.pid, arbiter, claim, label=f"claim {name}")
        return NoReply()

    def _claim(self, name: str, registration: Registration) -> bool:
        """Decide a claim as the arbiter. A granted one is known here at once; the claimer informs others."""
        known = self._names.winner(name)
        if known is None and name not in self._asking:
            self._names.put(name, registration.pid.node, registration)
            return True
        return known is not None and known.pid == registration.pid

    def _take(self, claim: _Claim) -> bool:
        name, registration = claim.name, claim.registration
        winner = self._names.winner(name)
        if winner is not None and winner.pid != registration.pid:
            return False
        self._watched[monitor(registration.pid)] = (name, registration.pid)
        self._change(name, registration)
        return True

    def _change(self, name: str, registration: Registration | None) -> None:
        """Store and publish a registration of this node, or its end."""
        self._names.put(name, self._node, registration)
        for node in self._distribution.nodes():
            cast((GLOBAL, node), _Change(self._node, name, registration))

    def _replace(self, node: str, names: dict[str, Registration]) -> None:
        """Replace all registrations of ``node``."""
        for name in [name for name in self._names.of_node(node) if name not in names]:
            self._names.put(name, node, None)
        for name, registration in names.items():
            if registration.pid.node == node:
                self._names.put(name, node, registration)
                self._check_conflict(name)

    def _check_conflict(self, name: str) -> None:
        """Check whether a process of this node loses the name."""
        mine, winner = self._names.get(name, self._node), self._names.winner(name)
        if mine is not None and winner is not None and winner.pid != mine.pid:
            cast((GLOBAL, winner.pid.node), _Conflict(self._node, name, winner.pid))

    def _resolve(self, name: str, winner: Pid) -> None:
        """Resolve a conflict between the older holder ``winner`` and a process of this node."""
        mine, known = self._names.get(name, self._node), self._names.winner(name)
        if mine is None or known is None or known.pid != winner or mine.pid == winner:
            return
        resolution = resolve_conflict(mine.resolve, name, winner, mine.pid)
        log.warning(
            "name_conflict",
            name=name,
            older=str(winner),
            younger=str(mine.pid),
            resolve=mine.resolve,
            keeps=str(resolution.keeps),
        )
        if resolution.keeps != winner:
            cast((GLOBAL, winner.node), _Lost(name, winner, resolution.keeps, resolution.kill))
        if resolution.keeps != mine.pid:
            self._lose(name, mine.pid, resolution)

    def _lose(self, name: str, loser: Pid, resolution: Resolution) -> None:
        """Take the name from a process of this node."""
        mine = self._names.get(name, self._node)
        if mine is None or mine.pid != loser:
            return
        self._change(name, None)
        if resolution.kill:
            self.process.runtime.exit(loser, "kill")
        else:
            send(loser, NameConflict(name, resolution.keeps))


async def _ask_arbiter(server: Pid, arbiter: str, claim: _Claim) -> None:
    try:
        granted = await call((GLOBAL, arbiter), claim, ARBITER_TIMEOUT) is True
    except CallFailed:
        # It is unreachable, or overloaded. A conflict can be resolved later; a refusal could not.
        granted = True
    send(server, _Granted(claim.name, granted))


async def register_name(name: str, pid: Pid | None = None, *, resolve: str = "exit", cp: bool = False) -> int:
    """Register ``name`` for a process of this node, the running one by default; False if it is taken.

    ``resolve`` decides what happens if another process got it during a split: ``exit``, ``random_exit``,
    ``notify``, ``random_notify``, ``notify_all``, or the name of a function from :func:`register_resolver`.

    With ``cp`` there are never two holders: a quorum of nodes gives the name, in a space of its own, and a
    holder that can reach none for some seconds is killed. What is returned is its fencing token (*fence*), a
    number greater than that of every earlier holder: whatever it writes to can refuse a lower one.

    Raises:
        UsageError: it is not a live process of this node, or ``resolve`` is unknown.
        UnavailableError: with ``cp``, no quorum could be reached in time.
    """
    check_resolve(resolve)
    if cp:
        return await consistent().register(name, pid or self_pid())
    answer = await call(GLOBAL, _Register(name, pid or self_pid(), resolve))
    if isinstance(answer, Exception):
        raise answer
    return bool(answer)


async def unregister_name(name: str, *, cp: bool = False) -> bool:
    """Unregister a name that a process of this node holds; return False if none does.

    Raises:
        UnavailableError: with ``cp``, no quorum could be reached in time; it is unregistered once one can.
    """
    if cp:
        return await consistent().unregister(name)
    return bool(await call(GLOBAL, _Unregister(name)))


def whereis_name(name: str) -> Pid | None:
    """Return the process that has the name, on any node."""
    registration = _names().winner(name)
    return None if registration is None else registration.pid


def registered_names() -> list[str]:
    """Return all global names."""
    return _names().names()


def _names() -> Names:
    runtime = Runtime.current()
    if isinstance(runtime.remote, RemoteProcesses) and isinstance(runtime.remote.names, Names):
        return runtime.remote.names
    raise UsageError(f"node {runtime.node} has no global names; expected remote_services() to run on it")
