"""What a node tells of itself: the API's view, read from the objects that the processes publish into."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from gossamer import __version__
from gossamer.api import (
    REQUEST,
    Answer,
    Ask,
    ClientSearch,
    Listed,
    Metric,
    More,
    PeerRequests,
    PeerSilentError,
    Runs,
    TopicRow,
    Walked,
    make_app,
)
from gossamer.api.model.cluster import (
    ClusterInfo,
    ClusterNode,
    KeyRequest,
    KeysInfo,
    MemberInfo,
    NodeHistory,
    NodeInfo,
    NodeStatus,
    Pulse,
    Readiness,
)
from gossamer.api.model.node import (
    BackupInfo,
    ClientInfo,
    ProcessInfo,
    RetainedInfo,
    RouteFindings,
    SubscriptionInfo,
    TableDigest,
    TableInfo,
    TopicInfo,
    TopicMatch,
)
from gossamer.config import Endpoint, to_plain
from gossamer.discovery import ClusterCommands
from gossamer.distribution import rpc
from gossamer.errors import GossamerError
from gossamer.faults import FaultTable
from gossamer.gossip import Status
from gossamer.mnesia_like import OwnedTable
from gossamer.node.metrics import Census, metrics_of, take_census
from gossamer.node.parts import NodeParts
from gossamer.node.views.backups import back_up
from gossamer.node.views.commands import drain_node, publish, reload_files, request_for_keys
from gossamer.node.views.digests import digests_of
from gossamer.node.views.healing import Healing
from gossamer.node.views.log_level import log_level
from gossamer.node.views.members import hints_of, members_of, nodes_of
from gossamer.node.views.readiness import ReadinessCheck
from gossamer.node.views.recording import Recording
from gossamer.node.views.sample import sample_of
from gossamer.node.views.sessions import clients_of, retained_of, subscriptions_of
from gossamer.routes import Findings, matches
from gossamer.supervisor import TraceLine, describe, follow, locate

__all__ = ["View"]

GOSSIP_TIMEOUT = 15.0
"""Seconds a change of membership may take."""
VERIFY_TIMEOUT = 120.0
"""Seconds a verification of routes may take: about two for each million, and what peers need."""

TRACE_PULSE = 5.0
"""Seconds after which a trace without events gives a sign of life."""


class View:
    """Implements :class:`gossamer.api.NodeView`."""

    def __init__(self, node: NodeParts) -> None:
        self._node = node
        self._census = Census()
        self._readiness = ReadinessCheck(node)
        self._healing = Healing(node, self._readiness)
        self._recording = Recording(node)
        self._commands = ClusterCommands(
            self._ask_gossip,
            node.members,
            singleton=node.config.cluster.discovery.strategy == "singleton",
            aloof=node.aloof,
        )
        self.peer_requests = PeerRequests(
            partial(
                make_app,
                self,
                config=node.config.api,
                tokens=node.tokens,
                clock=node.clock,
                limits=node.limits,
            ),
            node.runtime,
        )
        """Answers what other nodes ask of this one's API."""

    @property
    def healing(self) -> Healing:
        """Splits seen and healed."""
        return self._healing

    @property
    def recording(self) -> Recording:
        """The flow recorder."""
        return self._recording

    @property
    def drills(self) -> Runs:
        """Drills that this node had carried out beside itself."""
        return self._node.drills

    @property
    def audits(self) -> Runs:
        """Audits that it had run."""
        return self._node.audits

    @property
    def faults(self) -> FaultTable | None:
        """The gate to the network, None where the configuration has none."""
        return self._node.faults

    @property
    def name(self) -> str:
        """The node's name."""
        return self._node.name

    # -- the cluster

    def cluster(self) -> ClusterInfo:
        """The members that are not down, in the shape that ``GET /cluster`` promises."""
        node = self._node
        members = node.members.members()
        return ClusterInfo(
            env=node.config.cluster.env,
            nodes=tuple(
                ClusterNode(id=m.id, address=m.address, port=m.port, pid=m.metadata.pid)
                for m in members
                if m.status in Status.AVAILABLE
            ),
            local=members[0].id if members else "",
        )

    def readiness(self) -> Readiness:
        """Whether the node takes clients; see :mod:`gossamer.node.views.readiness`."""
        return self._readiness.readiness()

    def status(self) -> NodeStatus:
        """This node and everybody it knows."""
        node = self._node
        state = "starting" if node.state == "new" else "stopping" if node.state == "stopped" else node.state
        return NodeStatus(
            name=node.name,
            env=node.config.cluster.env,
            version=__version__,
            pid=node.pid,
            creation=node.creation,
            uptime=max(0.0, node.clock.wall() - node.started_at),
            state=state,
            ports=node.ports,
            connections=node.broker.stats()["connections"],
            members=tuple(self.members()),
            hints=tuple(hints_of(self._node)),
        )

    def members(self) -> Sequence[MemberInfo]:
        """Every member known, this node first."""
        return members_of(self._node)

    def nodes(self) -> Sequence[NodeInfo]:
        """Every node and the link to it."""
        return nodes_of(self._node)

    # -- routes and clients

    def topics(self, *, filter: str | None = None) -> Iterator[TopicRow]:  # noqa: A002
        """The route table by filter."""
        # Held as a list: the walk is long and the table changes under it.
        for topic_filter, others, here in list(self._node.router.routes()):
            if filter is None or topic_filter == filter:
                yield TopicRow(topic_filter, (self.name, *others) if here else tuple(others))

    def match(self, topic: str) -> TopicMatch:
        """Where a message to ``topic`` would go from here."""
        route = self._node.router.resolve(topic.encode())
        found = tuple(
            TopicInfo(filter=row.filter, nodes=row.nodes)
            for row in self.topics()
            if matches(row.filter, topic)
        )
        return TopicMatch(
            topic=topic,
            matches=found,
            nodes=tuple(dict.fromkeys(name for info in found for name in info.nodes)),
            subscribers=len(route.deliveries),
        )

    async def verify_routes(self, *, repair: bool) -> RouteFindings:
        """Hold this node's routes against their sources and its peers."""
        request = "verify" if repair else "check"
        found: Findings = await self._node.runtime.call("routes", request, timeout=VERIFY_TIMEOUT)
        return RouteFindings(
            node=self.name,
            repaired=repair,
            checked=found.checked,
            peers=found.peers,
            silent=found.silent,
            wrong=found.wrong,
            differences=found.differences,
        )

    def subscriptions(
        self,
        *,
        client: str | None = None,
        filter: str | None = None,  # noqa: A002
        search: str = "",
    ) -> Iterator[Walked[SubscriptionInfo]]:
        """Every subscription of every session here."""
        return subscriptions_of(
            self._node.broker, self.name, client=client, topic_filter=filter, search=search
        )

    def clients(self, search: ClientSearch) -> Iterator[Walked[ClientInfo]]:
        """Every session here that is wanted."""
        return clients_of(self._node.broker, self.name, search)

    def pulse(self) -> Pulse:
        """The node at this moment, in few numbers."""
        return sample_of(self._node, self.status(), self.nodes(), self._healing)

    def history(self, *, seconds: int, step: int) -> NodeHistory:
        """The last ``seconds`` of this node, a point a ``step``."""
        now = self._node.clock.wall()
        return self._node.history.history(self.name, now=now, seconds=seconds, step=step)

    async def publish(self, topic: str, payload: bytes, *, qos: int, retain: bool) -> tuple[int, bool]:
        """To how many it went, and whether all nodes that it went to have it."""
        return await publish(self._node, topic, payload, qos=qos, retain=retain)

    def retained(self, topic_filter: str) -> Iterable[Listed[RetainedInfo]]:
        """The topics that match and have a retained message."""
        return retained_of(self._node.broker, self._node.clock, topic_filter)

    def config(self, *, changed_only: bool = False) -> dict[str, Any]:
        """The configuration that the node runs with, secrets hidden."""
        return to_plain(self._node.config, changed_only=changed_only)

    async def reload(self) -> tuple[str, ...]:
        """Read again what can be; which files that are."""
        return await reload_files(self._node)

    async def backup(self, path: str | None) -> BackupInfo:
        """Write what is on disc to a new file."""
        return await back_up(self._node, path)

    def log_level(self, level: str | None = None) -> str:
        """How much the process of this node logs, from now on."""
        return log_level(level)

    async def ask_peer(self, node: str, ask: Ask | More, timeout: float) -> Answer:
        """What another node's API answers."""
        runtime = self._node.runtime
        if node == self.name:
            return await self.peer_requests.answer(ask)
        result = await runtime.run(rpc.call, node, REQUEST, ask, timeout=timeout)
        match result:
            case rpc.Returned(value=Answer() as answer):
                return answer
            case rpc.Raised(message=message):
                raise PeerSilentError(node=node, reason=message)
            case rpc.Exited(reason=reason) | rpc.Unreachable(reason=reason):
                raise PeerSilentError(node=node, reason=describe(reason))
            case _:
                raise PeerSilentError(node=node, reason="its answer makes no sense")

    # -- inside

    def tables(self) -> Sequence[TableInfo]:
        """The tables of this node."""
        store = self._node.store
        infos = []
        for name in store.tables():
            table = store.table(name)
            info = store.table_info(name)
            owned = isinstance(table, OwnedTable)
            infos.append(
                TableInfo(
                    name=name,
                    type=info["type"],
                    storage=info["storage"],
                    replication=info["replication"],
                    rows=info["size"],
                    loaded=not owned or all(r["loaded"] or not r["up"] for r in info["replicas"].values()),
                    owners=info.get("owners", {self._node.name: info["size"]}),
                )
            )
        return infos

    async def digests(self) -> Sequence[TableDigest]:
        """Checksums of the replicated tables, as they are now."""
        return [digest async for digest in digests_of(self._node.store)]

    async def processes(self, *, fold: int = 20, root: str | None = None) -> Sequence[ProcessInfo]:
        """The supervision tree, or what is below one process."""
        runtime = self._node.runtime
        pid = None if root is None else locate(runtime, root)
        return [ProcessInfo.model_validate(node) for node in await runtime.tree(fold=fold, root=pid)]

    def trace(self, pid: str, *, seconds: float, limit: int) -> AsyncGenerator[TraceLine | None, None]:
        """What a process takes in and sends out, as it happens."""
        runtime = self._node.runtime
        return follow(
            runtime,
            locate(runtime, pid),
            now=self._node.clock.wall,
            seconds=seconds,
            limit=limit,
            pulse=TRACE_PULSE,
        )

    async def count(self) -> None:
        """Count anew what is counted for ``metrics`` alone, a little in each turn of the loop."""
        self._census = await take_census(self._node)

    def metrics(self) -> Iterable[Metric]:
        """Every number of this node; some as they were at the last ``count``."""
        return metrics_of(
            self._node,
            self._census,
            ready=self.readiness().ready,
            alarms=self._healing.alarms(),
        )

    # -- orders

    async def join(self, endpoints: Sequence[Endpoint]) -> None:
        """Join the cluster that answers at one of ``endpoints``."""
        await self._commands.join([(endpoint.host, endpoint.port) for endpoint in endpoints])
        if self._node.state == "left":
            self._node.state = "running"
        self._node.broker.references = None

    async def leave(self) -> None:
        """Leave the cluster and live on alone."""
        away = self._node.broker.away
        if away is not None and self._node.distribution.nodes():
            await self._node.runtime.run(away.transfer.hand_over)
        await self._commands.leave()
        self._node.state = "left"

    async def drain(self) -> str:
        """Send clients and sessions to the other nodes. It lets nobody in until it joins again."""
        return await drain_node(self._node)

    async def keys(self, order: KeyRequest | None = None) -> KeysInfo:
        """The gossip keys of this node, after ``order``."""
        answer = await self._ask_gossip(request_for_keys(order))
        if isinstance(answer, GossamerError):
            raise answer
        return KeysInfo(name=self.name, keys=tuple(answer))

    async def kick(self, client: str) -> bool:
        """End a client's connection and session, on whichever node they are."""
        takeovers = self._node.broker.takeovers
        if takeovers is None:
            return self._node.broker.kick(client)
        return await self._node.runtime.run(takeovers.kick, client)

    async def force_leave(self, name: str) -> None:
        """Remove a member that is gone for good."""
        await self._commands.force_leave(name)

    async def _ask_gossip(self, request: object) -> Any:
        return await self._node.runtime.call("gossip", request, timeout=GOSSIP_TIMEOUT)
