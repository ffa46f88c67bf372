"""The narrow view of a node that the API works on; the node implements it, tests fake it.

Rules: 1. Reads are synchronous and answer from the node's own memory, so that no request waits for a peer,
except for processes, which are too many for one turn of the loop.
2. Long lists are iterables that are read in many turns of the loop, while their content changes.
3. Commands are awaited, and raise an error of the one tree when they fail.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from prometheus_client.metrics_core import Metric as Family

from gossamer.api.jobs.runs import Runs
from gossamer.api.model.cluster import (
    AlarmInfo,
    AlarmRequest,
    ClusterInfo,
    FeatureInfo,
    HealEpisode,
    HealPlanInfo,
    HealSettings,
    HealStatusInfo,
    KeyRequest,
    KeysInfo,
    MemberInfo,
    NodeHistory,
    NodeInfo,
    NodeStatus,
    Pulse,
    QuarantinedRow,
    Readiness,
)
from gossamer.api.model.node import (
    BackupInfo,
    ClientInfo,
    ProcessInfo,
    RecordingInfo,
    RecordingSettings,
    RetainedInfo,
    RouteFindings,
    SubscriptionInfo,
    TableDigest,
    TableInfo,
    TenantInfo,
    TenantRequest,
    TopicMatch,
)
from gossamer.api.model.raft import GroupInfo, KeyRange, UniqueName
from gossamer.api.peers.paging import ClientSearch, Listed, ListOrder, Walked
from gossamer.api.peers.requests import Ask, More, PeerAnswer
from gossamer.config import Endpoint, QueueConfig
from gossamer.faults import FaultTable
from gossamer.queues import Message, QueueDetails, QueueStats
from gossamer.supervisor import TraceLine


class TopicRow(NamedTuple):
    """Filter with all nodes that have subscribers to it, and whose it is; blank: the default tenant's."""

    filter: str
    nodes: tuple[str, ...]
    tenant: str = ""


class Metric(NamedTuple):
    """Metric family for ``/metrics``; the name contains its unit."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    """Names of the labels that each sample has, also while there is none."""
    family: Family


class EventLogView(Protocol):
    """The node's own history; its events have the fields of an ``EventInfo``, but for ``age``."""

    creation: int
    kinds: Collection[str]
    """Kinds of event that there are."""

    def after(self, serial: int) -> Sequence[Any]:
        """Events with larger serials, oldest first."""

    def age(self, happening: Any) -> float:
        """Return the age of an event in seconds."""


class ConsensusView(Protocol):
    """The cluster's groups of replicas."""

    async def groups(self) -> Sequence[GroupInfo]:
        """Return the groups as their leaders see them, or this node where none leads."""

    async def transfer(self, node: str, kind: str) -> GroupInfo:
        """Have ``node`` lead the group of a kind, and return it.

        Raises NotFoundError if it is no voter, UnavailableError if it does not.
        """

    async def recover(self) -> None:
        """Found groups with what this node has of those that lost their quorum. Raises UnavailableError."""

    async def ranges(self) -> Sequence[KeyRange]:
        """Return the ranges of keys as this node knows them, in order."""

    async def split_range(self, key: bytes) -> KeyRange:
        """Have the range of a key end before it; return the one that begins there.

        Raises UsageError if none can, UnavailableError without a quorum.
        """

    async def merge_range(self, number: int) -> KeyRange:
        """Have a range begin to take over its neighbour on the right; return it as it is.

        Raises UsageError if it cannot, UnavailableError without a quorum.
        """

    async def names(self) -> Sequence[UniqueName]:
        """Return the names that have one holder. Raises UnavailableError without a quorum."""


class HealingView(Protocol):
    """Reads and commands of a node's autoheal."""

    def status(self) -> HealStatusInfo:
        """Return the state of autoheal in this node's view."""

    def history(self) -> Sequence[HealEpisode]:
        """Return the healed splits, latest last."""

    def alarms(self) -> Sequence[AlarmInfo]:
        """Active alarms first, then healed splits, the latest first."""

    def order_alarm(self, order: AlarmRequest) -> AlarmInfo:
        """Raise or clear an alarm on behalf of an external program."""

    def quarantine(self) -> Iterable[QuarantinedRow]:
        """The rows of this node's quarantine."""

    async def rehearse(self) -> HealPlanInfo:
        """Return the plan of a heal now, as a dry run."""

    async def replay(self, id: str) -> QuarantinedRow:  # noqa: A002
        """Write a row of the quarantine again. Raises UsageError if it is not there."""

    async def configure(self, settings: HealSettings) -> HealStatusInfo:
        """Change what ``settings`` names."""


class QueuesView(Protocol):
    """The cluster's queues. Each raises NotFoundError where there is no queue of the name, UnavailableError
    without a quorum."""

    async def listed(self) -> Sequence[tuple[str, QueueStats]]:
        """Return all queues with their replication group, by name."""

    async def show(self, queue: str) -> tuple[str, QueueDetails]:
        """Return a queue with its replication group."""

    async def peek(self, queue: str, offset: int, limit: int) -> Sequence[Message]:
        """Return messages from an offset on, without taking them."""

    async def create(self, queue: str, config: QueueConfig) -> None:
        """Make or change a queue. Raises WrongValueError if it is, or would be, in no such group."""

    async def delete(self, queue: str) -> None:
        """Delete a queue."""

    async def purge(self, queue: str) -> int:
        """Delete all messages of a queue; return how many."""

    async def replay(self, queue: str, offset: int | None, limit: int | None) -> tuple[str, int]:
        """Give dead letters back to their queue; return where they were, and how many.

        Raises UsageError if they are in another replication group, UnavailableError if the queue is full.
        """

    async def move(self, queue: str, group: str) -> str:
        """Have a queue go to another replication group; return the one that it is in, for now if it takes
        long.

        Raises UsageError where it cannot be, WrongValueError if there is no such group.
        """

    async def drop_group(self, queue: str, group: str) -> None:
        """Delete a consumer group."""

    async def append(self, queue: str, payload: bytes, *, key: str) -> int:
        """Put a message into a queue; return its offset.

        Raises UsageError if it is too large, UnavailableError if the queue is full.
        """


class RecordingView(Protocol):
    """Reads and commands of a flow recorder."""

    async def status(self) -> RecordingInfo:
        """The state and counters of the recorder."""

    async def configure(self, settings: RecordingSettings) -> RecordingInfo:
        """Change what ``settings`` names."""


class NodeView(Protocol):
    """Reads and commands of a node."""

    name: str
    event_log: EventLogView
    consensus: ConsensusView
    healing: HealingView
    queues: QueuesView
    recording: RecordingView
    drills: Runs
    """Drills that ran on this node's machine."""
    audits: Runs
    """Audits that ran there."""
    faults: FaultTable | None
    """The fault gate, None where the configuration has none."""

    def cluster(self) -> ClusterInfo:
        """The members that are not down, as ``GET /cluster`` shows them."""

    def readiness(self) -> Readiness:
        """Return whether tables are loaded and listeners are open."""

    def status(self) -> NodeStatus:
        """Return this node and all members that it knows."""

    def members(self) -> Sequence[MemberInfo]:
        """Return all known members, including down and gone ones."""

    def nodes(self) -> Sequence[NodeInfo]:
        """Every node with the state of the link to it."""

    def topics(self, *, tenant: str | None = None) -> Iterable[TopicRow]:
        """The route table, or a tenant's part of it, one item a filter, in any order."""

    def match(self, topic: str, tenant: str = "") -> TopicMatch:
        """Return the receivers of a message to ``topic``. Raises UsageError if it is no topic name."""

    async def verify_routes(self, *, repair: bool) -> RouteFindings:
        """Verify this node's routes against their sources and its peers.

        Raises UnavailableError if it cannot.
        """

    def subscriptions(
        self,
        order: ListOrder,
        *,
        client: str | None = None,
        filter: str | None = None,  # noqa: A002
        search: str = "",
        tenant: str | None = None,
    ) -> Iterable[Walked[SubscriptionInfo]]:
        """The subscriptions of this node's sessions in any order, with the keys of ``order``.

        Names are client, filter and node. ``search`` is a part of the client or filter, in any case.
        """

    def clients(self, search: ClientSearch, order: ListOrder) -> Iterable[Walked[ClientInfo]]:
        """The sessions of this node in any order, with the keys of ``order``; names are client and node."""

    def pulse(self) -> Pulse:
        """A sample of the node."""

    def history(self, *, seconds: int, step: int) -> NodeHistory:
        """The last ``seconds`` of this node, a point a ``step``."""

    async def publish(
        self, topic: str, payload: bytes, *, qos: int, retain: bool, tenant: str = ""
    ) -> tuple[int, bool]:
        """Publish to clients of a tenant; return the number of receivers, and whether all nodes among them
        have the message.

        Raises UsageError if ``topic`` is no topic name.
        """

    def retained(
        self, topic_filter: str, order: ListOrder, tenant: str = ""
    ) -> Iterable[Listed[RetainedInfo]]:
        """The topics of a tenant that match and have a retained message, with the keys of ``order``.

        Raises UsageError if ``topic_filter`` is no filter.
        """

    def config(self, *, changed_only: bool = False) -> dict[str, object]:
        """The configuration that the node runs with, secrets hidden."""

    async def reload(self) -> tuple[str, ...]:
        """Reload certificates, passwords and access lists; return the files."""

    async def reload_queues(self) -> dict[str, str]:
        """Have queues as the configuration file declares them now; return what came of each that differs.

        Raises ConfigError if the file cannot be used.
        """

    async def backup(self, path: str | None) -> BackupInfo:
        """Write what is on disc to a new file.

        Raises UsageError if it cannot be one, or nothing is on disc; UnavailableError if it is not written.
        """

    def log_level(self, level: str | None = None) -> str:
        """Return the log level, after setting it to ``level`` if given."""

    async def ask_peer(self, node: str, ask: Ask | More, timeout: float) -> PeerAnswer:
        """Return the answer of another node's API. Raises PeerSilentError if there is none."""

    def tables(self) -> Sequence[TableInfo]:
        """The tables this node holds."""

    async def digests(self) -> Sequence[TableDigest]:
        """Checksums of the replicated tables, as they are now."""

    async def processes(self, *, fold: int = 20, root: str | None = None) -> Sequence[ProcessInfo]:
        """Return the roots of the process tree, or ``root``; of a parent's children with one label ``fold``.

        Raises UsageError if ``root`` is no process.
        """

    def trace(self, pid: str, *, seconds: float, limit: int) -> AsyncGenerator[TraceLine | None, None]:
        """Trace the messages of a process; None now and then while there are none.

        Raises UsageError if ``pid`` is no process, UnavailableError at the first line if too many are traced.
        """

    async def count(self) -> None:
        """Update the counts that only ``metrics`` needs, a little in each turn of the loop."""

    def metrics(self) -> Iterable[Metric]:
        """Every metric of the node."""

    async def join(self, endpoints: Sequence[Endpoint]) -> None:
        """Join the cluster that answers at one of ``endpoints``. Raises UnavailableError if none does."""

    async def leave(self) -> None:
        """Leave the cluster in order and run on alone. Raises UsageError if alone already."""

    async def drain(self) -> str:
        """Move clients and sessions to other nodes; return a summary. Raises UsageError without others."""

    def features(self) -> Sequence[FeatureInfo]:
        """Return the feature flags of this release."""

    async def enable_features(self, name: str | None) -> None:
        """Enable a flag, or all stable ones, in the whole cluster.

        Raises NotFoundError if there is none, UnavailableError if a member does not support it.
        """

    async def keys(self, order: KeyRequest | None = None) -> KeysInfo:
        """Return the names of the gossip keys, after ``order``. Raises UsageError if it is invalid."""

    def tenants(self, only: str | None = None) -> Iterable[Walked[TenantInfo]]:
        """Return the tenants that this node knows, or one of them."""

    async def change_tenant(self, name: str, order: TenantRequest) -> None:
        """Change limits of a tenant, or ban it. Raises UsageError, UnavailableError."""

    async def kick(self, client: str, tenant: str = "") -> bool:
        """End a client's connection and session, wherever they are; False if there is none.

        Raises UnavailableError if that cannot be known.
        """

    async def force_leave(self, name: str) -> None:
        """Remove a member that is permanently gone. Raises UsageError if unknown, alive, or this node."""
