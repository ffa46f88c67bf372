"""The API's view of the cluster's groups of replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from gossamer import basekv
from gossamer.api.model.raft import GroupInfo, KeyRange, ReplicaInfo, UniqueName
from gossamer.errors import NotFoundError, UnavailableError, mismatch
from gossamer.node.consensus import range_directory
from gossamer.node.parts import NodeParts
from gossamer.raft import RAFT, ConsistentNames, NotDone, Transfer, Where
from gossamer.supervisor import CallFailed, call

ASK = 3.0
HAND_OVER = 3.0
"""Seconds in which leadership is handed over."""
PAUSE = 0.2


class Consensus:
    """Implements :class:`gossamer.api.ConsensusView`."""

    def __init__(self, node: NodeParts) -> None:
        self._node = node

    async def _ask(self, request: object, node: str = "") -> Any:
        """Ask the server of a node, by default this one's. Raises UnavailableError where none answers."""
        own = node in ("", self._node.name)
        try:
            return await self._node.runtime.run(call, RAFT if own else (RAFT, node), request, ASK)
        except CallFailed as error:
            why = f"it is starting, or its disc stands still ({error})"
            raise UnavailableError(f"raft at {node or self._node.name}: {why}; try again") from None

    async def groups(self) -> Sequence[GroupInfo]:
        """Return the groups as their leaders see them, or this node where none leads or answers."""
        return await asyncio.gather(*(self._group(kind) for kind in await self._ask("kinds")))

    async def _group(self, kind: str) -> GroupInfo:
        number, leader = await self._ask(Where(kind))
        told_by = leader or self._node.name
        try:
            answer = await self._ask("status", told_by)
        except UnavailableError:
            if told_by == self._node.name:
                raise
            told_by = self._node.name
            answer = await self._ask("status")
        for found in answer:
            if found["group"] == f"{number:x}":
                return _group(found, told_by)
        return GroupInfo(kind=kind, group=f"{number:x}" if number else "", leader=leader, told_by=told_by)

    async def transfer(self, node: str, kind: str) -> GroupInfo:
        """Have ``node`` lead the group of a kind; return the group.

        Raises:
            NotFoundError: it is no voter.
            UnavailableError: none leads, or it does not within three seconds.
        """
        known = await self._group(kind)
        voters = [member.node for member in known.members if member.voter]
        if node not in voters:
            expected = f"one of the voters {', '.join(voters)}" if voters else "a voter; there is none"
            raise mismatch(NotFoundError, "NODE", repr(node[:100]), expected)
        for _ in range(int(HAND_OVER / PAUSE)):
            if known.leader == node:
                return known
            if known.leader:
                await self._ask(Transfer(int(known.group, 16), node), known.leader)
            await asyncio.sleep(PAUSE)
            known = await self._group(kind)
        leader = known.leader or "nobody"
        raise UnavailableError(f"raft transfer: {leader} leads after {HAND_OVER:g} s; try again")

    async def recover(self) -> None:
        """Abandon the groups whose quorum is lost, and found new ones from this node's copies.

        Raises:
            UnavailableError: all have a leader, or this node cannot have a replica.
        """
        answer = await self._ask("recover")
        if isinstance(answer, NotDone):
            raise UnavailableError(f"raft recover: {answer.why}")

    async def ranges(self) -> Sequence[KeyRange]:
        """Return the ranges of keys as this node knows them. Raises UnavailableError."""
        try:
            found = await self._node.runtime.run(basekv.ranges)
        except CallFailed as error:
            raise UnavailableError(f"ranges: it is starting ({error}); try again") from None
        return [self._range(info) for info in found]

    async def split_range(self, key: bytes) -> KeyRange:
        """Have the range of a key end before it; return the one that begins there. Raises BadRangeError,
        NotWrittenError."""
        return self._range(await self._node.runtime.run(basekv.split, key))

    async def merge_range(self, number: int) -> KeyRange:
        """Have a range begin to take over its neighbour on the right; return it. Raises BadRangeError,
        NotWrittenError."""
        return self._range(await self._node.runtime.run(basekv.merge, number))

    def _range(self, info: basekv.RangeInfo) -> KeyRange:
        kind, directory = basekv.kind_of(info.number), range_directory(self._node)
        return KeyRange(
            range=info.number,
            kind=kind,
            start=info.start.hex(),
            end=None if info.end is None else info.end.hex(),
            version=info.version,
            leader=self._node.consensus.leader_of(kind),
            size=None if directory is None else directory.sizes().get(info.number),
        )

    async def names(self) -> Sequence[UniqueName]:
        """Return the names that have one holder. Raises UnavailableError without a quorum."""
        found = await self._node.runtime.run(ConsistentNames().names)
        return [
            UniqueName(name=name, node=pid.node, pid=str(pid), fence=fence)
            for name, (pid, fence) in sorted(found.items())
        ]


def _group(found: dict[str, Any], told_by: str) -> GroupInfo:
    return GroupInfo(
        kind=found["kind"],
        group=found["group"],
        leader=found["leader"],
        told_by=told_by,
        term=found["term"],
        committed=found["committed"],
        applied=found["applied"],
        changing=found["joint"],
        members=tuple(ReplicaInfo(**member) for member in found["members"]),
    )
