"""What a drill leaves behind: the plan, what happened when, and what became of every message.

One value, :class:`DrillRecord`, is all that reports, verdicts and scripts read; a drill writes nothing else.

Rules: 1. Times are seconds since the drill began, but for ``began_at`` (since 1970).  2. Keys are only ever
added, each with a default, so that an older file is read by a newer version; ``version`` counts changes of
meaning.  3. Nodes have their full names, sides are named by the numbers of their nodes (``1,2,3``).
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from gossamer.faults import DrillKind

VERSION = 1

BackEndName = Literal["gate", "netns"]
PhaseName = Literal["warm-up", "split", "heal", "after"]
"""``split`` is while the fault holds, whatever it is; ``heal`` from its end to the last node healed."""

MarkKind = Literal[
    # Seen by nodes.
    "suspected",
    "refuted",
    "declared down",
    "saw the return",
    "link lost",
    "link back",
    "left",
    "partition raised",
    "confirmed",
    "plan made",
    "coordinates",
    "restarted store",
    "healed",
    "removed",
    "ready",
    "routes equal",
    # Done by the drill.
    "fault applied",
    "fault lifted",
    "process killed",
    "process paused",
    "process resumed",
    "process stopped",
    "process started",
    "process ended",
    "clock set",
    "disk full",
    "disk free",
    "rows written on all sides",
    # Seen by clients.
    "client dropped",
    "client back",
]

Setting = str | float | bool


class Plan(Struct, frozen=True, kw_only=True):
    """What was ordered."""

    kind: DrillKind
    shape: str
    """As written: ``3/2``, ``1>2``, ``1-2``; for drills of one node its number."""
    nodes: tuple[str, ...]
    backend: BackEndName = "gate"
    seconds: float = 20.0
    """How long the fault holds."""
    load: float = 0.0
    """Messages a second, all publishers together."""
    seed: int = 0
    warm_up: float = 5.0
    after: float = 5.0
    """Seconds of load once all is healed."""
    late_after: float = 2.0
    """A delivery that takes more seconds than this is late."""
    settings: dict[str, Setting] = {}
    """Configuration of the nodes that is not the default, and options of the drill (``delay``, ``loss``)."""


def unnamed(nodes: int) -> tuple[str, ...]:
    """Stand-ins for the names that a back end gives; enough to see whether a plan fits."""
    return tuple(f"node{number}" for number in range(1, nodes + 1))


class Side(Struct, frozen=True):
    """Nodes that no fault of this drill parts from each other."""

    name: str
    nodes: tuple[str, ...]


class Phase(Struct, frozen=True):
    """A stretch of the drill."""

    name: PhaseName
    begin: float
    end: float


class Mark(Struct, frozen=True):
    """Something that happened at ``node``, by that node's own history where it can know."""

    at: float
    node: str
    """Empty for what the drill did to all."""
    kind: MarkKind
    peer: str = ""
    """The other node, or the client."""
    detail: str = ""


class Tally(Struct, frozen=True):
    """What became of messages; each counts once for every subscriber that it is for.

    ``acknowledged`` and ``delivered`` are of those ``sent``; ``late`` of those delivered.
    """

    source: str
    """Side of the publisher."""
    target: str
    """Side of the subscriber."""
    phase: PhaseName
    """In which it was sent."""
    qos: int
    """Of publication and subscription, which are alike."""
    persistent: bool
    """Whether the subscriber's session is."""
    parted: bool = False
    """The fault stood between publisher and subscriber in this phase."""
    sent: int = 0
    acknowledged: int = 0
    """By the broker to the publisher; of QoS 0, which nobody acknowledges, those handed to the socket."""
    delivered: int = 0
    """At least once."""
    late: int = 0
    lost: int = 0
    """Acknowledged, and not delivered until the drill ended."""
    doubled: int = 0
    """Copies beyond the first."""


class Sample(Struct, frozen=True):
    """One second of one side: what its publishers sent, what its subscribers got."""

    at: float
    """Begin of the second."""
    side: str
    sent: int = 0
    delivered: int = 0
    latency_p50: float = 0.0
    """Seconds from sending to delivery, over what was delivered in this second; 0 without any."""
    latency_p99: float = 0.0


class ClientDrop(Struct, frozen=True):
    """A connection that ended without the drill closing it."""

    at: float
    client: str
    node: str
    reason: str
    excused: bool = False
    """The drill killed or stopped the node that it was connected to."""


class Clients(Struct, frozen=True):
    """Who took part, and whose connection ended."""

    publishers: int = 0
    subscribers: int = 0
    drops: tuple[ClientDrop, ...] = ()


class Quarantined(Struct, frozen=True):
    """Rows that lost, kept in ``file`` of ``node``."""

    node: str
    file: str
    rows: int


class Heal(Struct, frozen=True, kw_only=True):
    """One heal as the cluster's history has it."""

    plan: str
    coordinator: str
    survivors: tuple[str, ...]
    reloaded: tuple[str, ...]
    skipped: tuple[str, ...] = ()
    healed_at: float
    restored: int = 0
    merged: int = 0
    quarantined: int = 0
    left: int = 0


class NodeEnd(Struct, frozen=True):
    """What a node held when the drill was over."""

    node: str
    members: tuple[str, ...] = ()
    """Whom it was in one cluster with, itself among them; empty: it did not answer."""
    tables: dict[str, str] = {}
    """For each replicated table, and owner of its rows, how many there are and their checksum."""


class Speed(Struct, frozen=True):
    """A time that was measured; ``bar`` is what it may be at most, where somebody promised it."""

    name: str
    seconds: float | None
    """None: it never happened."""
    bar: float | None = None
    detail: str = ""


class Verdict(Struct, frozen=True):
    """A promise, and whether it was kept; ``kept`` None: this drill does not put it to the test."""

    promise: str
    kept: bool | None
    expected: str = ""
    got: str = ""


class DrillRecord(Struct, frozen=True, kw_only=True):
    """Record of one drill, from which reports and verdicts are made."""

    version: int = VERSION
    plan: Plan
    began_at: float
    """Seconds since 1970."""
    seconds: float = 0.0
    """How long all of it took, from the first phase on."""
    sides: tuple[Side, ...] = ()
    phases: tuple[Phase, ...] = ()
    marks: tuple[Mark, ...] = ()
    """In order of time."""
    traffic: tuple[Tally, ...] = ()
    samples: tuple[Sample, ...] = ()
    clients: Clients = Clients()
    heals: tuple[Heal, ...] = ()
    merged: int = 0
    """Rows that both sides wrote and a heal decided about."""
    quarantined: tuple[Quarantined, ...] = ()
    conflicts: int = 0
    """Rows of shared tables that the drill wrote on more than one side of a split."""
    ends: tuple[NodeEnd, ...] = ()
    """One for each node; none: nobody looked."""
    speeds: tuple[Speed, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    failure: str = ""
    """Why the drill could not be carried out to its end; empty when it was."""
    machine: dict[str, Setting] = {}
    """Cores, load average before and after, versions."""


def record_json(record: DrillRecord) -> bytes:
    """The record as JSON, indented, with a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
