"""Where the nodes of a drill run, and how the network between them is broken: what every back end offers.

Two exist: ``gate``, real processes whose transports have a fault gate (needs no rights), and ``netns``, a
network namespace for each node and packets that are really dropped (needs root).

Rules: 1. A fault is of one direction: what ``source`` says to ``target``. A cut between two nodes is two
faults, and only what is ordered is cut.  2. ``apply`` replaces all that holds; nothing adds up.  3. Clients
and the drill itself reach every node through all faults.  4. ``close`` leaves no process, namespace, rule or
directory, may be called again and at any time, also after a ``start`` that failed half-way.  5. What is
applied ends by itself after ``seconds``, for a drill that does not live to lift it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from gossamer.drill.record import BackEndName
from gossamer.errors import UnavailableError

__all__ = [
    "Ability",
    "BackEnd",
    "BackEndError",
    "ClusterSpec",
    "DrillNode",
    "LinkFault",
    "abilities_for",
    "cut_between",
]

Ability = Literal["cut", "one-way cut", "delay", "jitter", "loss", "clock"]


class BackEndError(UnavailableError):
    """A back end cannot do here what it is asked for."""

    def __init__(self, *, backend: str, reason: str, remedy: str) -> None:
        self.backend = backend
        self.reason = reason
        super().__init__(f"back end {backend}: {reason}; {remedy}")


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The cluster to start."""

    nodes: int
    directory: Path
    """Everything goes below it; exists and is empty."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Environment of every node, such as ``GOSSAMER_CLUSTER__AUTOHEAL``."""
    patience: float = 60.0
    """Seconds until all nodes have to be ready."""


@dataclass(frozen=True, slots=True)
class DrillNode:
    """A node that was started; ``pid`` is that of its present life."""

    name: str
    number: int
    """From 1."""
    host: str
    """Where the drill and its clients reach it."""
    ports: Mapping[str, int]
    """``mqtt``, ``api``, ``gossip``, ``distribution``."""
    pid: int
    data_dir: Path

    @property
    def api(self) -> str:
        """Base URL of its API."""
        return f"http://{self.host}:{self.ports['api']}"


@dataclass(frozen=True, slots=True)
class LinkFault:
    """What happens to what ``source`` says to ``target`` (names of nodes). Seconds; ``loss`` is a share."""

    source: str
    target: str
    cut: bool = False
    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0


def cut_between(left: Sequence[str], right: Sequence[str]) -> list[LinkFault]:
    """Both ways, every node of ``left`` and every one of ``right``."""
    pairs = [(a, b) for a in left for b in right]
    return [LinkFault(a, b, cut=True) for one, other in pairs for a, b in ((one, other), (other, one))]


def abilities_for(faults: Iterable[LinkFault]) -> list[Ability]:
    """The abilities that it takes to let these faults hold, in a fixed order."""
    held = list(faults)
    cuts = {(fault.source, fault.target) for fault in held if fault.cut}
    wanted: list[tuple[Ability, bool]] = [
        ("cut", bool(cuts)),
        ("one-way cut", any((b, a) not in cuts for a, b in cuts)),
        ("delay", any(fault.delay for fault in held)),
        ("jitter", any(fault.jitter for fault in held)),
        ("loss", any(fault.loss for fault in held)),
    ]
    return [ability for ability, is_wanted in wanted if is_wanted]


class BackEnd(Protocol):
    """Back end of a drill: starts a cluster, and applies faults to its network.

    Raises:
        BackEndError: anything that is this machine's fault, from every method.
    """

    name: BackEndName
    abilities: frozenset[Ability]

    async def start(self, spec: ClusterSpec) -> tuple[DrillNode, ...]:
        """Start all nodes and wait until every node is ready and sees every other."""
        ...

    def nodes(self) -> tuple[DrillNode, ...]:
        """All nodes, killed ones too, in order of their numbers."""
        ...

    async def apply(self, faults: Sequence[LinkFault], *, seconds: float) -> None:
        """Let just these hold, for at most ``seconds``; back when they do."""
        ...

    async def lift(self) -> None:
        """Let no fault hold; back when none does."""
        ...

    async def signal(self, name: str, number: int) -> None:
        """Send a signal to the process of a node: SIGSTOP, SIGCONT."""
        ...

    async def stop(self, name: str, *, kill: bool) -> None:
        """End the process of a node, in order or by SIGKILL, and wait until it is gone."""
        ...

    async def restart(self, name: str) -> DrillNode:
        """Start a node that ended, on its own directory and ports; back once its process runs."""
        ...

    async def close(self) -> None:
        """End everything; see rule 4."""
        ...
