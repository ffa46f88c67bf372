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
    """A condition that an operator has to know."""

    node: str = ""
    """The node that reports it, in a list of all nodes."""
    name: str
    active: bool
    since: float
    until: float
    """0 while it is active."""
    text: str
    plan: str = ""
    saw_down: Mapping[str, tuple[str, ...]] = {}


class AlarmRequest(Value):
    """Raise an alarm, or clear it."""

    name: str = Field(pattern=ALARM_NAME)
    active: Flag = True
    text: str = Field(default="", max_length=2000)


class PartitionInfo(Value):
    """Two nodes whose partition is not healed."""

    peer: str
    context: str
    down_at: float
    met_at: float


class HealRows(Value):
    """The effect of a heal on rows that both sides wrote."""

    restored: int
    """Restored to what the survivors held."""
    merged: int
    """Merged by the function of the table."""
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
    """The nodes that would keep running, and those that would reload."""

    id: str
    split: bool
    """False: all nodes agree and nothing is to be healed; the rest is empty."""
    leader: str = ""
    coordinator: str = ""
    groups: tuple[tuple[str, ...], ...] = ()
    survivors: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()
    saw_down: Mapping[str, tuple[str, ...]] = {}
    missing: tuple[str, ...] = ()
    """Members that are down and take no part."""
    restart: Literal["store", "node"] = "store"


class HealStatusInfo(Value):
    """The state of autoheal, as this node knows it."""

    name: str
    autoheal: float | None
    """Seconds; null: off."""
    autoclean: float | None
    phase: Literal["idle", "waiting", "gating", "collecting", "healing"]
    leader: str
    open: tuple[PartitionInfo, ...]
    plan: HealPlanInfo | None
    """The plan that this node executes, or has others execute."""
    down: Mapping[str, float]
    """Seconds for which each member has been down."""
    cleaned: Mapping[str, float]
    """When this node removed each member."""
    heals: int
    quarantined: int
    quarantine_dropped: int
    """Rows for which the quarantine had no room."""


class QuarantinedRow(Value):
    """A row that lost when two sides became one."""

    node: str = ""
    """The node that keeps it, in a list of all nodes."""
    id: str
    table: str
    key: str
    value: str
    deleted: bool
    """The write that lost was a deletion."""
    author: str
    written_at: float
    lost_to: str
    lost_to_at: float
    policy: str
    plan: str
    at: float


class HealSettings(Value):
    """Settings to change on all nodes, until the whole cluster restarts."""

    autoheal: HealDelay = None
    autoclean: OptionalSeconds = None


class ClusterNode(Value):
    """One member, with the four fields that ``GET /cluster`` promises."""

    id: str
    """Unique in the cluster."""
    address: str
    """Address of its gossip listener."""
    port: int
    """Its gossip port."""
    pid: int
    """Its operating-system process."""


class ClusterInfo(Value):
    """``GET /cluster``: the members of the cluster, as this node sees them."""

    env: str
    nodes: tuple[ClusterNode, ...]
    local: str
    """``id`` of the node that answers."""


class MemberInfo(Value):
    """One member, as gossip knows it."""

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
    """An explanation for people."""
    evidence: Mapping[str, object]


class NodeInfo(Value):
    """One node of the cluster, with the state of this node's link to it."""

    name: str
    status: Status
    link: Link
    address: str
    """Its gossip listener, host:port."""
    ports: Mapping[str, int] = {}
    pid: int = 0
    version: str = ""
    rack: str = ""
    """Its `node.rack`."""
    services: Mapping[str, bool] = {}
    """Which it runs of `mqttserver`, `distserver`, `distworker`, `inboxserver`, `inboxstore`, `retainserver`,
    `retainstore`, `sessiondictserver` and `apiserver`."""
    protocol: int = 0
    """Version of the protocol on the link to it; 0 without a link."""
    started_at: float = 0.0
    routes: int = 0
    """Filters that have subscribers there, as far as this node knows."""


class Readiness(Value):
    """The readiness of a node, and what it waits for."""

    ready: bool
    name: str
    members: tuple[str, ...] = ()
    """Names of all nodes that are online, this one included, and to which its link is up."""
    waiting: tuple[str, ...] = ()
    """What is missing, for people; a node that is ready may wait for a peer that is apart."""


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
    """Recent partition hints, the newest first."""


class JoinRequest(Value):
    """The cluster to join."""

    endpoints: tuple[str, ...] = Field(min_length=1, max_length=64)
    """Gossip endpoints, such as 10.0.0.2:7946; one that answers is enough."""


class ForceLeaveRequest(Value):
    """The member to remove."""

    name: str = Field(min_length=1, max_length=255)


class KeyRequest(Value):
    """A change of the gossip keys of this node."""

    action: Literal["install", "use", "remove"]
    key: SecretStr = Field(min_length=8, max_length=1024)
    """The secret itself for ``install``, 16 characters or more; else the name of an installed key."""


class KeysInfo(Value):
    """Names of the gossip keys of this node; a name does not reveal its key."""

    name: str
    keys: tuple[str, ...]
    """The key in use first."""


class FeatureInfo(Value):
    """A feature flag: what waits until all nodes have it."""

    name: str
    enabled: bool
    since: str
    """The first release that supports it."""
    stability: Literal["stable", "experimental"]
    does: str
    lacked_by: tuple[str, ...] = ()
    """Members that do not support it, or cannot be asked."""


class FeatureRequest(Value):
    """The flag to enable."""

    name: str | None = Field(default=None, max_length=64)
    """null: all stable ones."""


class Seen(Value):
    """The view that a node has of another."""

    status: Status
    link: Link


class Pulse(Value):
    """A sample of a node. Counters start with the node."""

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
    """Seconds of the longest recent delay of the event loop."""
    memory: int
    """Bytes of memory in use."""
    sees: Mapping[str, Seen]
    phase: str
    """The phase of autoheal."""
    alarms: tuple[AlarmInfo, ...]


class NodeHistory(Value):
    """The metrics of one node by column, the oldest first."""

    node: str
    step: int
    """Seconds that each point covers."""
    at: tuple[float, ...] = ()
    """Seconds since 1970 at the end of each point, by the node's wall clock."""
    received: tuple[float, ...] = ()
    """Messages a second that clients published."""
    sent: tuple[float, ...] = ()
    """Messages a second delivered to clients."""
    dropped: tuple[float, ...] = ()
    """Messages a second that were dropped, or had no subscriber."""
    connections: tuple[int, ...] = ()
    """Clients connected at the end of each point."""
    cpu: tuple[float, ...] = ()
    """Processor time a second: 1 is one core in full use."""
    memory: tuple[int, ...] = ()
    """Bytes of memory in use at the end of each point."""
    loop_lag: tuple[float, ...] = ()
    """Seconds of the longest delay of the event loop."""


class Done(Value):
    """The change that was made, and the members after it."""

    done: str
    members: tuple[MemberInfo, ...] = ()
