"""Members, nodes, splits, heals and alarms; and requests about the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, SecretStr

from gossamer.api.model.base import Flag, HealDelay, OptionalSeconds, Value
from gossamer.api.model.forms import ALARM_NAME

Status = Literal["online", "suspect", "offline", "stopped", "left"]
Link = Literal["self", "up", "connecting", "down"]


class AlarmInfo(Value):
    """Something an operator has to know."""

    node: str = ""
    """Who says so, where it is told for all nodes."""
    name: str
    active: bool
    since: float
    until: float
    """0 while it lasts."""
    text: str
    plan: str = ""
    saw_down: Mapping[str, tuple[str, ...]] = {}


class AlarmRequest(Value):
    """Raise an alarm, or clear it."""

    name: str = Field(pattern=ALARM_NAME)
    active: Flag = True
    text: str = Field(default="", max_length=2000)


class PartitionInfo(Value):
    """A pair that is not healed."""

    peer: str
    context: str
    down_at: float
    met_at: float


class HealRows(Value):
    """What a heal did to rows that both sides wrote."""

    restored: int
    """Set back to what the survivors held."""
    merged: int
    """Decided by a merge function."""
    quarantined: int
    left: int
    """Left to the latest write, since the quarantine was full or a merge function failed."""


class HealEpisode(Value):
    """A split that was healed."""

    plan: str
    coordinator: str
    survivors: tuple[str, ...]
    reloaded: tuple[str, ...]
    skipped: tuple[str, ...]
    saw_down: Mapping[str, tuple[str, ...]]
    split_at: float
    healed_at: float
    rows: HealRows
    text: str


class HealPlanInfo(Value):
    """Who would keep running and who would reload."""

    id: str
    split: bool
    """False: all nodes see the same, nothing is to be healed; the rest is empty."""
    leader: str = ""
    coordinator: str = ""
    groups: tuple[tuple[str, ...], ...] = ()
    survivors: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()
    saw_down: Mapping[str, tuple[str, ...]] = {}
    missing: tuple[str, ...] = ()
    """Members that are away."""
    restart: Literal["store", "node"] = "store"


class HealStatusInfo(Value):
    """What this node knows of splits."""

    name: str
    autoheal: float | None
    """Seconds; null: off."""
    autoclean: float | None
    phase: Literal["idle", "waiting", "gating", "collecting", "healing"]
    leader: str
    open: tuple[PartitionInfo, ...]
    plan: HealPlanInfo | None
    """What this node is carrying out or having carried out."""
    down: Mapping[str, float]
    """Members that are down, and for how many seconds."""
    cleaned: Mapping[str, float]
    """Members that this node removed, and when."""
    heals: int
    quarantined: int
    quarantine_dropped: int
    """Rows for which the quarantine had no room."""


class QuarantinedRow(Value):
    """A row that lost when two sides became one."""

    node: str = ""
    """In whose quarantine it is, where it is told for all nodes."""
    id: str
    table: str
    key: str
    value: str
    deleted: bool
    """What lost was a deletion."""
    author: str
    written_at: float
    lost_to: str
    lost_to_at: float
    policy: str
    plan: str
    at: float


class HealSettings(Value):
    """What to change, for all nodes, until the cluster is started anew."""

    autoheal: HealDelay = None
    autoclean: OptionalSeconds = None


class ClusterNode(Value):
    """One member, in the four facts that ``GET /cluster`` promises."""

    id: str
    """Unique in the cluster."""
    address: str
    """Where its gossip listens."""
    port: int
    """Its gossip port."""
    pid: int
    """Its operating-system process."""


class ClusterInfo(Value):
    """``GET /cluster``: who is in the cluster, as this node sees it."""

    env: str
    nodes: tuple[ClusterNode, ...]
    local: str
    """``id`` of the node that answers."""


class MemberInfo(Value):
    """One member, with what gossip knows of it."""

    id: str
    name: str
    address: str
    port: int
    status: Status
    incarnation: int
    creation: int = 0
    pid: int = 0
    version: str = ""
    ports: Mapping[str, int] = {}
    services: tuple[str, ...] = ()
    started_at: float = 0.0
    local: bool = False
    hints: tuple[str, ...] = ()
    """Kinds of the partition hints that name it."""


class HintInfo(Value):
    """A sign that the network, and not a member, is at fault."""

    kind: str
    at: float
    text: str
    """What it means, in words."""
    evidence: Mapping[str, object]


class NodeInfo(Value):
    """One node of the cluster, with the state of this node's link to it."""

    name: str
    status: Status
    link: Link
    address: str
    """Where its gossip listens, host:port."""
    ports: Mapping[str, int] = {}
    pid: int = 0
    version: str = ""
    started_at: float = 0.0
    routes: int = 0
    """Filters that have subscribers there, as far as this node knows."""


class Readiness(Value):
    """Whether the node takes clients, and if not, what it waits for."""

    ready: bool
    name: str
    members: tuple[str, ...] = ()
    """Names of all nodes that are online, this one included, and to which its link is up."""
    waiting: tuple[str, ...] = ()
    """What is missing, in words; a node that is ready may wait for one that keeps apart."""


class NodeStatus(Value):
    """The node that answers, and the members as it sees them."""

    name: str
    env: str
    version: str
    pid: int
    creation: int
    uptime: float
    state: Literal["starting", "running", "leaving", "left", "stopping"]
    ports: Mapping[str, int]
    connections: int = 0
    members: tuple[MemberInfo, ...] = ()
    hints: tuple[HintInfo, ...] = ()
    """Partition hints of late, the newest first."""


class JoinRequest(Value):
    """Whom to join."""

    endpoints: tuple[str, ...] = Field(min_length=1, max_length=64)
    """Gossip endpoints, such as 10.0.0.2:7946; one that answers is enough."""


class ForceLeaveRequest(Value):
    """Whom to remove."""

    name: str = Field(min_length=1, max_length=255)


class KeyRequest(Value):
    """What to do with the gossip keys of this node."""

    action: Literal["install", "use", "remove"]
    key: SecretStr = Field(min_length=8, max_length=1024)
    """The secret itself for ``install``, 16 characters or more; else the name of an installed key."""


class KeysInfo(Value):
    """Names of the gossip keys of this node; a name does not reveal its key."""

    name: str
    keys: tuple[str, ...]
    """The key in use first."""


class Seen(Value):
    """How a node sees another."""

    status: Status
    link: Link


class Pulse(Value):
    """A node at this moment. Counters begin at its start."""

    node: str
    at: float
    creation: int
    uptime: float
    state: str
    version: str
    connections: int
    sessions: int
    filters: int
    """Filters that have subscribers here."""
    retained: int
    queued_bytes: int
    received: int
    """Messages that clients published."""
    sent: int
    """Messages delivered to clients."""
    dropped: int
    forwarded_bytes: Mapping[str, int]
    """Bytes of messages for each peer."""
    loop_lag: float
    """Seconds that the event loop was late lately, at worst."""
    memory: int
    """Bytes of memory in use."""
    sees: Mapping[str, Seen]
    phase: str
    """What autoheal does."""
    alarms: tuple[AlarmInfo, ...]


class NodeHistory(Value):
    """One node's numbers, a column each; the oldest first."""

    node: str
    step: int
    """Seconds that a point stands for."""
    at: tuple[float, ...] = ()
    """Seconds since 1970 at the end of each point, by the node's wall clock."""
    received: tuple[float, ...] = ()
    """Messages a second that clients published."""
    sent: tuple[float, ...] = ()
    """Messages a second delivered to clients."""
    dropped: tuple[float, ...] = ()
    """Messages a second that were dropped, or for nobody."""
    connections: tuple[int, ...] = ()
    """Clients that were connected at the end."""
    cpu: tuple[float, ...] = ()
    """Processor time a second: 1 is one core in full use."""
    memory: tuple[int, ...] = ()
    """Bytes of memory in use at the end."""
    loop_lag: tuple[float, ...] = ()
    """Seconds that the event loop was late at worst."""


class Done(Value):
    """What was done, and the members afterwards."""

    done: str
    members: tuple[MemberInfo, ...] = ()
