"""Base of all back ends, which run the nodes of a drill and break the network between them.

Two exist: ``gate``, real processes whose transports have a fault gate (needs no privileges), and ``netns``, a
network namespace for each node and packets dropped by the kernel (needs root). Nodes are started as by
``gossamer up``.

Rules: 1. A fault has one direction, from ``source`` to ``target``. A cut between two nodes is two faults.
2. ``apply`` replaces all active faults; nothing adds up.  3. Clients and the drill itself reach every node
through all faults.  4. ``close`` leaves no process, namespace, rule or directory, may be called again and at
any time, also after a ``start`` that failed half-way.  5. No fault outlives its drill for long.  6. A node
that ends is not restarted: the drill decides.  7. All nodes die with this process, however it ends. At the
end they are killed, not stopped: their data is discarded, and a paused or cut-off node would take long.

With the gate, a fault of one direction is set where it takes effect (see ``docs/design/drills.md``): a cut at
both ends, since each end blocks only the connections that it opened; delay and loss at the sender.
"""

from __future__ import annotations

import asyncio
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import httpx

from gossamer.drill.record import BackEndName
from gossamer.errors import UnavailableError
from gossamer.launch import (
    SERVICES,
    ClusterPlan,
    NodeEndedError,
    NodePlan,
    NodeProcess,
    PortSpec,
    Workspace,
    chooser,
    describe_end,
    make_plan,
    node_environment,
    wait_until_ready,
)
from gossamer.supervisor import Pid, Reason, Runtime

Ability = Literal["delay", "loss", "clock", "slow disc"]
"""Optional abilities of a back end; every one can cut, both ways or one. Jitter needs ``delay``."""
_REQUEST_TIMEOUT = 5.0


class BackEndError(UnavailableError):
    """A back end cannot do what was requested, on this machine."""

    def __init__(
        self, *, backend: str, reason: str, remedy: str = "see its node.log (--keep keeps it)"
    ) -> None:
        self.backend = backend
        self.reason = reason
        super().__init__(f"back end {backend}: {reason}; {remedy}")


@dataclass(frozen=True, slots=True)
class LinkFault:
    """Fault from ``source`` to ``target`` (names of nodes). Times in seconds; ``loss`` is a share."""

    source: str
    target: str
    cut: bool = False
    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0


def abilities_for(faults: Sequence[LinkFault]) -> list[Ability]:
    """Return the abilities that these faults need, in a fixed order."""
    delay: list[Ability] = ["delay"] if any(fault.delay or fault.jitter for fault in faults) else []
    return [*delay, "loss"] if any(fault.loss for fault in faults) else delay


class BackEnd(ABC):
    """Starts a cluster of processes, ends and pauses them, and breaks the network between them.

    ``ended(name, how)`` is called when a node ended unexpectedly.

    Raises:
        BackEndError: this machine prevents it, from every method.
    """

    name: BackEndName
    abilities: frozenset[Ability]
    settings: ClassVar[Mapping[str, str]]
    """Additions of this back end to the environment of every node."""

    def __init__(self, *, ended: Callable[[str, str], None]) -> None:
        self.nodes: tuple[NodePlan, ...] = ()
        """All nodes, including killed ones, in order of their numbers."""
        self.pids: dict[str, int] = {}
        """Pid of the latest process of each node."""
        self._plan: ClusterPlan
        self._ended = ended
        self._environ: dict[str, str] = {}
        self._runtime = Runtime(node="drill@localhost")
        self._running: dict[str, Pid] = {}
        self._workspace: Workspace | None = None
        self._starting: asyncio.Task[None] | None = None
        """Wait for all to be ready, cancelled by the first that ends."""
        self._early_end: NodeEndedError | None = None
        self._client = httpx.AsyncClient(timeout=_REQUEST_TIMEOUT, trust_env=False)

    async def start(
        self, *, nodes: int, directory: Path, settings: Mapping[str, str], start_timeout: float
    ) -> None:
        """Start all nodes, and wait until every node is ready and sees every other.

        ``directory`` exists and is empty; all files go below it. ``settings`` is the environment of every
        node, such as ``GOSSAMER_CLUSTER__AUTOHEAL``. ``start_timeout`` is in seconds.

        Raises:
            UnavailableError: a node ended, or was not ready in time; with the end of its log.
        """
        plan = self._place(nodes, directory)
        self.nodes = plan.nodes
        self._environ = {**node_environment(), **settings, **self.settings}
        self._workspace = Workspace(directory)
        self._workspace.prepare(plan)
        self._plan = plan
        ready = self._starting = asyncio.create_task(self.ready(seconds=start_timeout))
        try:
            for node in plan.nodes:
                await self.restart(node.name)
            await ready
        except asyncio.CancelledError:
            if self._early_end is not None:
                raise self._early_end from None
            raise
        finally:
            self._starting = None
            ready.cancel()
            await asyncio.wait({ready})

    async def ready(self, *, seconds: float) -> None:
        """Wait until every node is ready and sees every other.

        Raises:
            NotReadyError: with what each node lacks.
        """
        await wait_until_ready(self._plan, seconds=seconds, progress=lambda _: None)

    def _place(self, nodes: int, directory: Path) -> ClusterPlan:
        """Plan the nodes and create their surroundings; by default on loopback and free ports."""
        return make_plan(
            nodes=nodes,
            directory=directory,
            env="drill",
            specs={service: PortSpec(f"--{service}-port", "0") for service in SERVICES},
            shared_port=None,
            choose=chooser(),
        )

    def _prefix(self, node: NodePlan) -> tuple[str, ...]:
        """Return the command prefix of a node."""
        return ()

    @abstractmethod
    async def apply(self, faults: Sequence[LinkFault], *, seconds: float) -> None:
        """Apply exactly these faults for at most ``seconds``; return once they are active. Empty: none."""

    def node(self, name: str) -> NodePlan:
        """Return the node of that name."""
        return next(node for node in self.nodes if node.name == name)

    async def put(self, name: str, path: str, body: Mapping[str, object]) -> None:
        """Send a PUT request to a node's API."""
        try:
            answer = await self._client.put(self.node(name).api + path, json=body)
        except httpx.TransportError as error:
            reason = f"{name} takes no request: {type(error).__name__} {error}".rstrip()
            raise BackEndError(backend=self.name, reason=reason) from error
        if answer.status_code != 200:
            reason = f"{name} answered {answer.status_code}: {answer.text[:200]}"
            raise BackEndError(backend=self.name, reason=reason)

    # -- processes

    async def restart(self, name: str) -> None:
        """Start a stopped node on its directory and ports; return once its process runs."""
        node = self.node(name)
        self.pids.pop(name, None)
        pid = await self._runtime.start(
            NodeProcess,
            node,
            environ=self._environ,
            on_end=self._on_end,
            prefix=self._prefix(node),
            label=name,
        )
        self._running[name] = pid
        self.pids[name] = await self._runtime.call(pid, "pid")

    async def stop(self, name: str, *, kill: bool) -> None:
        """Stop the process of a node, in order or by SIGKILL, and wait for its end."""
        pid = self._find(name)
        gone = self._runtime.join(pid)
        del self._running[name]
        if kill:
            self._signal(name, signal.SIGKILL)
        else:
            self._runtime.exit(pid, "shutdown")
        await asyncio.wait({gone})

    def signal(self, name: str, number: int) -> None:
        """Send a signal to the process of a node and its children: SIGSTOP, SIGCONT."""
        self._find(name)
        self._signal(name, number)

    async def close(self) -> None:
        """Stop and remove everything; see rule 4."""
        await self._client.aclose()
        gone = {self._runtime.join(pid) for pid in self._running.values()}
        running = dict(self._running)
        self._running.clear()
        for name, pid in running.items():
            if name in self.pids:
                self._signal(name, signal.SIGKILL)
            else:
                # Interrupted before its process was known.
                self._runtime.exit(pid, "shutdown")
        if gone:
            await asyncio.wait(gone)
        await self._runtime.stop()
        if self._workspace is not None:
            self._workspace.__exit__(None, None, None)
            self._workspace = None

    def _find(self, name: str) -> Pid:
        if name not in self._running:
            raise BackEndError(backend=self.name, reason=f"{name} does not run")
        return self._running[name]

    def _signal(self, name: str, number: int) -> None:
        try:
            os.killpg(self.pids[name], number)
        except ProcessLookupError:
            # It ended by itself at this moment, which is reported separately.
            pass

    def _on_end(self, node: NodePlan, reason: Reason) -> None:
        if self._running.pop(node.name, None) is None:
            return
        if self._starting is not None and self._early_end is None:
            # Its log is removed with the drill.
            self._early_end = NodeEndedError(node, reason)
            self._starting.cancel()
        self._ended(node.name, describe_end(reason))


def requests_of(faults: Sequence[LinkFault]) -> dict[str, list[dict[str, object]]]:
    """Return the requests to each node, by name, that apply exactly these faults."""
    requests: dict[str, list[dict[str, object]]] = {}
    for fault in faults:
        told: dict[str, object] = {"peer": fault.target, "direction": "out"}
        if fault.cut:
            # The opener of an incoming connection is unknown there: the other end blocks its own.
            other = {"peer": fault.source, "direction": "in", "cut": True}
            requests.setdefault(fault.target, []).append(other)
            told["cut"] = True
        else:
            told |= {"loss": fault.loss, "delay": fault.delay, "jitter": fault.jitter}
        requests.setdefault(fault.source, []).append(told)
    return requests


class GateBackEnd(BackEnd):
    """Back end whose nodes apply the faults themselves, and end them after their time."""

    name: BackEndName = "gate"
    abilities: frozenset[Ability] = frozenset({"delay", "loss", "clock", "slow disc"})
    settings: ClassVar[Mapping[str, str]] = {"GOSSAMER_DRILL__FAULTS": "true"}

    def __init__(self, *, ended: Callable[[str, str], None]) -> None:
        super().__init__(ended=ended)
        self._told: set[str] = set()

    async def apply(self, faults: Sequence[LinkFault], *, seconds: float) -> None:
        requests = requests_of(faults)
        concerned = self._told | requests.keys()
        self._told = set(requests)
        # All at once, so that a cut happens at one moment.
        await asyncio.gather(*(self._tell(name, requests.get(name, []), seconds) for name in concerned))

    async def _tell(self, name: str, faults: list[dict[str, object]], seconds: float) -> None:
        body = {"faults": faults, "seconds": seconds if faults else None}
        await self.put(name, "/api/v1/drill/faults", body)
