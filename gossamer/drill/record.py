"""Record of a drill: the plan, the events with their times, and the outcome of all messages.

Reports, verdicts and scripts read one value, :class:`DrillRecord`; a drill writes nothing else.

Rules: 1. Times are seconds since the drill began, except ``began_at`` (since 1970).  2. Keys are only ever
added, each with a default, so that a newer version can read an older file; ``version`` counts changes of
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
"""``split`` lasts while the fault is active, of any kind; ``heal`` from its end until all nodes healed."""

MarkKind = Literal[
    # Reported by nodes.
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
    "said",
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
    "disk slow",
    "disk fast",
    "bit flipped",
    "clients moved",
    "copies whole",
    "rows written on all sides",
    # Reported by clients.
    "client dropped",
    "client back",
]

Setting = str | float | bool


class Plan(Struct, frozen=True, kw_only=True):
    """Order of a drill."""

    kind: DrillKind
    shape: str
    """As written: ``3/2``, ``1>2``, ``1-2``; for drills of one node its number."""
    nodes: tuple[str, ...]
    backend: BackEndName = "gate"
    seconds: float = 20.0
    """Duration of the fault in seconds."""
    load: float = 0.0
    """Messages per second, all publishers together."""
    seed: int = 0
    warm_up: float = 5.0
    after: float = 5.0
    """Seconds of load after the heal."""
    late_after: float = 2.0
    """Seconds after which a delivery counts as late."""
    settings: dict[str, Setting] = {}
    """Non-default configuration of the nodes, and options of the drill (``delay``, ``loss``)."""


def unnamed(nodes: int) -> tuple[str, ...]:
    """Return placeholder node names, enough to validate a plan."""
    return tuple(f"node{number}" for number in range(1, nodes + 1))


class Side(Struct, frozen=True):
    """Nodes that no fault of this drill separates from each other."""

    name: str
    nodes: tuple[str, ...]


class Phase(Struct, frozen=True):
    """Time span of the drill."""

    name: PhaseName
    begin: float
    end: float


class Mark(Struct, frozen=True):
    """Event at ``node``, from that node's own history where it has one."""

    at: float
    node: str
    """Empty for an action on all nodes."""
    kind: MarkKind
    peer: str = ""
    """The other node, or the client."""
    detail: str = ""


class Tally(Struct, frozen=True):
    """Outcome of messages; each counts once per subscriber that it is for.

    ``acknowledged`` and ``delivered`` are parts of ``sent``; ``late`` of ``delivered``.
    """

    source: str
    """Side of the publisher."""
    target: str
    """Side of the subscriber."""
    phase: PhaseName
    """Phase in which it was sent."""
    qos: int
    """QoS of publication and subscription, which are equal."""
    persistent: bool
    """Whether the subscriber's session is persistent."""
    parted: bool = False
    """Whether the fault separated publisher and subscriber in this phase."""
    sent: int = 0
    acknowledged: int = 0
    """Acknowledged by the broker to the publisher; of QoS 0, which has no acknowledgement, those sent."""
    delivered: int = 0
    """Delivered at least once."""
    late: int = 0
    lost: int = 0
    """Acknowledged, and not delivered by the end of the drill."""
    doubled: int = 0
    """Copies beyond the first."""
    disordered: int = 0
    """Delivered for the first time behind a later one of the same publisher and topic."""
    waited: float = 0.0
    """Longest time in seconds from sending to acknowledgement."""


class Sample(Struct, frozen=True):
    """One second of one side: messages sent by its publishers and received by its subscribers."""

    at: float
    """Start of the second."""
    side: str
    sent: int = 0
    delivered: int = 0
    latency_p50: float = 0.0
    """Seconds from sending to delivery, of messages delivered in this second; 0 without any."""
    latency_p99: float = 0.0


class ClientDrop(Struct, frozen=True):
    """Connection that ended without the drill closing it."""

    at: float
    client: str
    node: str
    reason: str
    excused: bool = False
    """True if the drill killed or stopped the node that it was connected to."""


class Clients(Struct, frozen=True):
    """Numbers of clients, and their dropped connections."""

    publishers: int = 0
    subscribers: int = 0
    drops: tuple[ClientDrop, ...] = ()
    moved: tuple[str, ...] = ()
    """Clients with persistent sessions on a node that was killed, which went on at another."""


class Quarantined(Struct, frozen=True):
    """Rows that lost in a merge, stored in ``file`` of ``node``."""

    node: str
    file: str
    rows: int


class Heal(Struct, frozen=True, kw_only=True):
    """Heal, from the cluster's history."""

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
    """State of a node at the end of the drill."""

    node: str
    members: tuple[str, ...] = ()
    """Members of its cluster, itself included; empty: it did not answer."""
    tables: dict[str, str] = {}
    """Per replicated table and owner: number of rows and their checksum."""


class Said(Struct, frozen=True):
    """What a node said of a fault: an alarm, a metric, or a line of its log, by name."""

    at: float
    """When it was found."""
    node: str
    name: str
    text: str = ""
    value: float = 0.0
    """Of a metric."""


class Speed(Struct, frozen=True):
    """Measured time; ``bar`` is the promised maximum, if any."""

    name: str
    seconds: float | None
    """None: it never happened."""
    bar: float | None = None
    detail: str = ""


class Verdict(Struct, frozen=True):
    """Promise, and whether it was kept; ``kept`` None: this drill does not test it."""

    promise: str
    kept: bool | None
    expected: str = ""
    got: str = ""


class DrillRecord(Struct, frozen=True, kw_only=True):
    """Record of one drill, the source of reports and verdicts."""

    version: int = VERSION
    plan: Plan
    began_at: float
    """Seconds since 1970."""
    seconds: float = 0.0
    """Total duration in seconds, from the first phase on."""
    sides: tuple[Side, ...] = ()
    phases: tuple[Phase, ...] = ()
    marks: tuple[Mark, ...] = ()
    """In order of time."""
    traffic: tuple[Tally, ...] = ()
    samples: tuple[Sample, ...] = ()
    clients: Clients = Clients()
    heals: tuple[Heal, ...] = ()
    merged: int = 0
    """Rows written on both sides and merged by a heal."""
    quarantined: tuple[Quarantined, ...] = ()
    conflicts: int = 0
    """Rows of shared tables written by the drill on more than one side of a split."""
    ends: tuple[NodeEnd, ...] = ()
    """State of each node; empty: not checked."""
    said: tuple[Said, ...] = ()
    """What was asked for while the fault lasted, in order of time."""
    speeds: tuple[Speed, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    failure: str = ""
    """Reason why the drill did not complete; empty if it did."""
    machine: dict[str, Setting] = {}
    """Cores, load average before and after, versions."""


def record_json(record: DrillRecord) -> bytes:
    """Encode the record as indented JSON with a trailing newline."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
