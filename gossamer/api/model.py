"""What the API answers with: frozen values, which are also its OpenAPI schema.

Rules: 1. Names are the field's own and stable; keys are only ever added.  2. Times are seconds: ``uptime``
counts up, ``*_at`` is since 1970.  3. No value ever holds a secret or a payload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, Strict

from gossamer.supervisor import ProcessNode

__all__ = [
    "ClientInfo",
    "ClusterInfo",
    "ClusterNode",
    "Done",
    "Flag",
    "FoldedInfo",
    "ForceLeaveRequest",
    "Health",
    "HintInfo",
    "JoinRequest",
    "KeyRequest",
    "KeysInfo",
    "MemberInfo",
    "Metric",
    "NodeInfo",
    "NodeStatus",
    "Page",
    "Problem",
    "ProcessInfo",
    "Readiness",
    "RouteFindings",
    "RouteInfo",
    "RouteVerification",
    "Sample",
    "SubscriptionInfo",
    "TableDigest",
    "TableInfo",
    "TopicInfo",
    "TopicMatch",
    "TraceEvent",
]

T = TypeVar("T")

Flag = Annotated[bool, Strict()]
"""True or false in an order; 0, "no" and the like are mistakes."""


class Value(BaseModel):
    """What all answers share."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


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
    status: Literal["online", "suspect", "offline", "stopped", "left"]
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
    status: Literal["online", "suspect", "offline", "stopped", "left"]
    link: Literal["self", "up", "connecting", "down"]
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


class RouteInfo(Value):
    """One row of the route table: this node has a subscriber to this filter."""

    filter: str
    node: str


class TopicInfo(Value):
    """One filter, and all the nodes that have subscribers to it."""

    filter: str
    nodes: tuple[str, ...]


class TopicMatch(Value):
    """Where a message to this topic would go from here, and why."""

    topic: str
    matches: tuple[TopicInfo, ...]
    nodes: tuple[str, ...]
    """The nodes it goes to, each once."""
    subscribers: int
    """Subscribers on this node that get it."""


class RouteVerification(Value):
    """Order a node to hold its routes against their sources and its peers."""

    repair: Flag = True
    """Put right what is wrong; otherwise only report it."""


class RouteFindings(Value):
    """What a verification of one node's routes looked at, and what was wrong."""

    node: str
    repaired: bool
    """Whether what was wrong was put right."""
    checked: int
    """Things looked at."""
    peers: int
    """Peers compared with."""
    silent: int
    """Peers that did not answer."""
    wrong: int
    """Differences, all together."""
    differences: dict[str, int]
    """How many of each kind; kinds without any are left out."""


class SubscriptionInfo(Value):
    """One subscription of one session."""

    client: str
    filter: str
    node: str
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int | None = None


class ClientInfo(Value):
    """One session, connected or not."""

    client: str
    connected: bool
    node: str
    address: str = ""
    version: Literal["", "3.1", "3.1.1", "5.0"] = ""
    username: str = ""
    keepalive: float = 0.0
    clean_start: bool = True
    """The session began with nothing because its client wanted that."""
    session_expiry: float = 0.0
    connected_at: float = 0.0
    """Seconds since 1970; 0: it is not connected."""
    subscriptions: int = 0
    inflight: int = 0
    queued: int = 0
    dropped: int = 0
    """Messages for it that were dropped, since the session is on this node."""
    process: str = ""
    """The process of its connection on that node, which can be traced."""


class TableInfo(Value):
    """One replicated or local table, as held here."""

    name: str
    type: str
    storage: str
    replication: str
    rows: int
    loaded: bool
    owners: Mapping[str, int] = {}
    """Rows by the node that owns them."""


class TableDigest(Value):
    """What a node holds of one owner's rows of a table; equal on two nodes whose rows are."""

    name: str
    owner: str
    """Of a table that all write: who wrote the rows last."""
    rows: int
    checksum: str


class FoldedInfo(Value):
    """Processes of one label that are counted rather than listed; sums over all of them."""

    label: str
    number: int
    mailbox: int = 0
    reductions: int = 0
    restarts: int = 0
    memory: int = 0


class ProcessInfo(Value):
    """One process of the supervision tree, with the processes below it."""

    pid: str
    name: str | None = None
    label: str
    type: str
    status: str
    restarts: int = 0
    """How often its supervisor restarted it."""
    mailbox: int = 0
    reductions: int = 0
    """Messages handled."""
    memory: int = 0
    """Bytes, an estimate."""
    links: int = 0
    children: tuple[ProcessInfo, ...] = ()
    more: int = 0
    """Children that are not shown because there are too many of a kind."""
    dropped: int = 0
    """Messages that found the mailbox full."""
    note: str = ""
    """What else is worth a word: whom it serves, what it waits for."""
    folded: tuple[FoldedInfo, ...] = ()
    """Those ``more``, summed up by label."""

    @classmethod
    def of(cls, node: ProcessNode) -> ProcessInfo:
        """A tree of the supervisor's."""
        return cls(
            pid=str(node.pid),
            name=node.name,
            label=node.label,
            type=node.type,
            status=node.status,
            restarts=node.restarts,
            mailbox=node.mailbox,
            reductions=node.reductions,
            memory=node.memory,
            links=node.links,
            children=tuple(map(cls.of, node.children)),
            more=sum(kind.number for kind in node.folded),
            dropped=node.dropped,
            note=node.note,
            folded=tuple(
                FoldedInfo(
                    label=kind.label,
                    number=kind.number,
                    mailbox=kind.mailbox,
                    reductions=kind.reductions,
                    restarts=kind.restarts,
                    memory=kind.memory,
                )
                for kind in node.folded
            ),
        )


class TraceEvent(Value):
    """One line of a trace: something that a process took in or sent out."""

    at: float
    event: str
    """tracing (the first line), call, cast, receive, send, bytes (of a connection), answer, failure, reply,
    exit, down, link, unlink, monitor, demonitor, spawn, dropped; lost (lines that came too fast), end (of the
    process, with the reason), over (of the trace).
    """
    way: Literal["in", "out", ""]
    peer: str
    """From whom or to whom, where that is known."""
    text: str
    """What it was, shortened, without secrets."""


class Health(Value):
    """The event loop turns."""

    status: Literal["ok"] = "ok"
    name: str


class Page(Value, Generic[T]):
    """Some of many; ``next`` gets the following ones as ``after``, and is null with the last."""

    items: tuple[T, ...]
    next: str | None = None
    missing: Mapping[str, str] = {}
    """Nodes that were asked and did not answer, and why."""


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


class Done(Value):
    """What was done, and the members afterwards."""

    done: str
    members: tuple[MemberInfo, ...] = ()


class Problem(Value):
    """What went wrong (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str


class Sample(Value):
    """One number of a metric."""

    value: float
    """Of a histogram, how many observations there are."""
    labels: Mapping[str, str] = {}
    buckets: tuple[tuple[str, int], ...] = ()
    """Of a histogram: upper bounds, and how many observations were at most that."""
    sum: float = 0.0
    """Of a histogram: of all observations."""


class Metric(Value):
    """One family of numbers, for ``/metrics``; the name carries its unit."""

    name: str
    help: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...] = ()
    """Names of the labels that each sample has, also while there is none."""
    samples: tuple[Sample, ...]
