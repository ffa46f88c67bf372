"""What a node tells of the other nodes: who is a member, what link there is, what looked like a partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from gossamer.api.model.cluster import HintInfo, MemberInfo, NodeInfo
from gossamer.gossip import Member, Status, explain
from gossamer.node.parts import NodeParts

__all__ = ["ROUTES", "hints_of", "members_of", "nodes_of"]

ROUTES = "routes"
"""The table of routes."""
HINTS_FOR = 600.0
"""Seconds a partition hint is shown."""

StatusWord = Literal["online", "suspect", "offline", "stopped", "left"]


def hints_of(node: NodeParts) -> Iterator[HintInfo]:
    """What looked like a partition lately, latest first."""
    since = node.clock.wall() - HINTS_FOR
    for at, hint in reversed(node.members.hints):
        if at >= since:
            yield HintInfo(kind=hint.kind, at=at, text=explain(hint), evidence=hint.evidence)


def members_of(node: NodeParts) -> Sequence[MemberInfo]:
    """Every member known, this node first."""
    named: dict[str, dict[str, None]] = {}
    for hint in hints_of(node):
        for value in hint.evidence.values():
            for name in value if isinstance(value, list) else [value]:
                named.setdefault(str(name), {})[hint.kind] = None
    return [
        MemberInfo(
            id=m.id,
            name=m.name,
            address=m.address,
            port=m.port,
            status=status_word(m),
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
        for at, m in enumerate(node.members.members(include_left=True))
    ]


def nodes_of(node: NodeParts) -> Sequence[NodeInfo]:
    """Every node and the link to it."""
    up = node.distribution.nodes()
    routes = node.store.table_info(ROUTES)["owners"] if ROUTES in node.store.tables() else {}
    return [
        NodeInfo(
            name=m.name,
            status=status_word(m),
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
            version=m.metadata.version,
            started_at=m.metadata.start_time,
            routes=routes.get(m.name, 0),
        )
        for at, m in enumerate(node.members.members())
    ]


def status_word(member: Member) -> StatusWord:
    """The member's status as one word for people."""
    if member.left:
        return "left"
    if member.status is Status.ONLINE:
        return "online"
    if member.status is Status.SUSPECT:
        return "suspect"
    return "stopped" if member.stopped else "offline"
