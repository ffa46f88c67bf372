"""The other nodes: members, links to them, what looked like a partition; and who joins and leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from gossamer import __version__
from gossamer.api.model.cluster import (
    ClusterInfo,
    ClusterNode,
    FeatureInfo,
    HintInfo,
    KeyRequest,
    KeysInfo,
    MemberInfo,
    NodeInfo,
    NodeStatus,
)
from gossamer.config import SERVICES, Endpoint
from gossamer.discovery import ClusterCommands
from gossamer.errors import GossamerError, UsageError, WrongValueError, mismatch
from gossamer.gossip import Keys, Member, Status, cluster_key, explain
from gossamer.mqtt import drain
from gossamer.node.parts import NodeParts

ROUTES = "routes"
"""The table of routes."""
HINTS_FOR = 600.0
"""Seconds a partition hint is shown."""
GOSSIP_TIMEOUT = 15.0
"""Seconds a change of membership may take."""
SHORTEST_KEY = 16
"""Characters of a gossip key."""

StatusWord = Literal["online", "suspect", "offline", "stopped", "left"]


class MembersView:
    """The part of :class:`gossamer.api.NodeView` that is about the cluster."""

    def __init__(self, node: NodeParts) -> None:
        self._node = node
        self.name = node.name
        singleton = node.config.cluster.discovery.strategy == "singleton"
        self._commands = ClusterCommands(
            self._ask_gossip, node.members, singleton=singleton, standalone=node.standalone
        )

    def cluster(self) -> ClusterInfo:
        """The members that are not down, in the shape that ``GET /cluster`` promises."""
        members = self._node.members.members()
        return ClusterInfo(
            env=self._node.config.cluster.env,
            nodes=tuple(
                ClusterNode(id=m.id, address=m.address, port=m.port, pid=m.metadata.pid)
                for m in members
                if m.status in Status.AVAILABLE
            ),
            local=members[0].id if members else "",
        )

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
            hints=tuple(self._hints()),
        )

    def members(self) -> Sequence[MemberInfo]:
        """Every member known, this node first."""
        named: dict[str, dict[str, None]] = {}
        for hint in self._hints():
            for value in hint.evidence.values():
                for name in value if isinstance(value, list) else [value]:
                    named.setdefault(str(name), {})[hint.kind] = None
        return [
            MemberInfo(
                id=m.id,
                name=m.name,
                address=m.address,
                port=m.port,
                status=_status_word(m),
                incarnation=m.incarnation,
                creation=m.metadata.creation,
                pid=m.metadata.pid,
                version=m.metadata.version,
                ports=m.metadata.ports,
                services=m.metadata.services,
                started_at=m.metadata.start_time,
                local=at == 0,
                hints=tuple(named.get(m.name, ())),
            )
            for at, m in enumerate(self._node.members.members(include_left=True))
        ]

    def nodes(self) -> Sequence[NodeInfo]:
        """Every node and the link to it."""
        up, peers = self._node.distribution.nodes(), self._node.distribution.peers
        routes = self._routes()
        return [
            NodeInfo(
                name=m.name,
                status=_status_word(m),
                link="self"
                if at == 0
                else "up"
                if m.name in up
                else "connecting"
                if m.status in Status.AVAILABLE
                else "down",
                address=f"{m.address}:{m.port}",
                ports=m.metadata.ports,
                pid=m.metadata.pid,
                protocol=peers[m.name].protocol if m.name in up else 0,
                version=m.metadata.version,
                rack=m.metadata.rack,
                services={one: one not in m.metadata.off for one in SERVICES},
                started_at=m.metadata.start_time,
                routes=routes.get(m.name, 0),
            )
            for at, m in enumerate(self._node.members.members())
        ]

    def _routes(self) -> dict[str, int]:
        """Count the filters that have a subscriber, by node."""
        store = self._node.store
        return store.table_info(ROUTES)["owners"] if ROUTES in store.tables() else {}

    def _hints(self) -> Iterator[HintInfo]:
        """Return the hints of partitions of late, latest first."""
        since = self._node.clock.wall() - HINTS_FOR
        for at, hint in reversed(self._node.members.hints):
            if at >= since:
                yield HintInfo(kind=hint.kind, at=at, text=explain(hint), evidence=hint.evidence)

    # -- commands

    async def join(self, endpoints: Sequence[Endpoint]) -> None:
        """Join the cluster that answers at one of ``endpoints``."""
        await self._commands.join(endpoints)
        if self._node.state == "left":
            self._node.state = "running"
        self._node.broker.admission.references = None

    async def leave(self) -> None:
        """Leave the cluster and live on alone."""
        handoff = self._node.broker.handoff
        if handoff is not None and self._node.distribution.nodes():
            await self._node.runtime.run(handoff.transfer.hand_over)
        await self._commands.leave()
        self._node.state = "left"

    async def force_leave(self, name: str) -> None:
        """Remove a member that will not come back."""
        await self._commands.force_leave(name)

    async def drain(self) -> str:
        """Send clients and sessions to the other nodes. It lets nobody in until it joins again.

        Raises:
            UsageError: there is no other node that takes clients.
        """
        others = [
            m
            for m in self._node.members.members()[1:]
            if m.status is Status.ONLINE and not m.left and "mqtt" in m.metadata.ports
        ]
        if not others:
            raise mismatch(
                UsageError, self.name, "nobody to send clients to", "another node that is up with mqtt"
            )
        done = await self._node.runtime.run(
            drain,
            self._node.broker.connections,
            self._node.broker.sessions,
            references=[f"{m.address}:{m.metadata.ports['mqtt']}" for m in others],
            nodes=[m.name for m in others],
        )
        return (
            f"{self.name} drained: {done.clients} clients sent elsewhere, {done.moved} sessions moved, "
            f"{done.left} left"
        )

    def features(self) -> Sequence[FeatureInfo]:
        """The feature flags of this release, and the members that each one waits for."""
        features, members = self._node.features, self._node.feature_table.support(down=True)
        return [
            FeatureInfo(
                name=one.name,
                enabled=one.name in features.enabled,
                since=one.since,
                stability=one.stability,
                does=one.does,
                lacked_by=tuple(
                    sorted(node for node, names in members.items() if one.name not in (names or ()))
                ),
            )
            for one in features.declared.values()
        ]

    async def enable_features(self, name: str | None) -> None:
        """Enable a flag, or all stable ones, in the whole cluster."""
        await self._node.feature_table.enable(name)

    async def keys(self, order: KeyRequest | None = None) -> KeysInfo:
        """The gossip keys of this node, after ``order``.

        Raises:
            WrongValueError: a key to install could be guessed.
        """
        request = Keys("list")
        if order is not None:
            text = order.key.get_secret_value()
            install = order.action == "install"
            if install and len(text) < SHORTEST_KEY:
                wanted = f"{SHORTEST_KEY} or more; make one with `openssl rand -hex 32`"
                raise mismatch(WrongValueError, "key", f"{len(text)} characters", wanted)
            request = Keys(order.action, cluster_key(text) if install else text)
        answer = await self._ask_gossip(request)
        if isinstance(answer, GossamerError):
            raise answer
        return KeysInfo(name=self.name, keys=tuple(answer))

    async def _ask_gossip(self, request: object) -> Any:
        return await self._node.runtime.call("gossip", request, timeout=GOSSIP_TIMEOUT)


def _status_word(member: Member) -> StatusWord:
    """The member's status as one word for people."""
    if member.left:
        return "left"
    if member.status is Status.ONLINE:
        return "online"
    if member.status is Status.SUSPECT:
        return "suspect"
    return "stopped" if member.stopped else "offline"
