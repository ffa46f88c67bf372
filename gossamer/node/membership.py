"""From verdicts to links: every member that is neither down nor gone is a peer of the distribution.

Rules: 1. Suspicion moves nothing; only a verdict ends a link.  2. A verdict is about one life: the death of a
creation that has been replaced already says nothing about its successor.  3. A restart of this process loses
nothing: it begins by comparing what gossip knows with whom the distribution has.  4. A death that others
report ends a link that works only a moment later: in a partial split the dead live, and say so at once, and
frames of a link that was ended for nothing would be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gossamer.errors import UnavailableError
from gossamer.gossip import (
    ForcedOut,
    Member,
    MemberAlive,
    MemberDown,
    MemberLeft,
    MemberSuspect,
    MemberUp,
    MemberUpdated,
    NameConflict,
    Status,
)
from gossamer.node.parts import NodeParts
from gossamer.supervisor import GenServer, self_pid, send_after

MEMBERSHIP = "membership"
_NOTED: dict[type, str] = {
    MemberUp: "up",
    MemberSuspect: "suspected",
    MemberAlive: "refuted",
    MemberDown: "down",
    MemberLeft: "left",
}
_REFUTE_TIMEOUT = 1.0
"""Seconds for a member that others declared dead to say that it lives."""


def name_taken(name: str, holder: str) -> UnavailableError:
    """Another living node of the cluster has this node's name."""
    return UnavailableError(
        f"a node named {name} is alive at {holder} and was there first; "
        "give this node another node.name, or stop that one"
    )


@dataclass(frozen=True, slots=True)
class _MarkDown:
    """The member has had its time to refute what others reported."""

    member: Member


class Membership(GenServer):
    """Subscribed to gossip under the name ``membership``. ``fatal`` is told why this node must stop."""

    async def init(self, node: NodeParts, fatal: Callable[[UnavailableError], None]) -> None:
        self._node = node
        self._distribution = node.distribution
        self._fatal = fatal
        self._reported: dict[str, Member] = {}
        self._compare()

    async def handle_info(self, message: Any) -> None:
        if kind := _NOTED.get(type(message)):
            self._node.event_log.note(kind, message.member.name, getattr(message, "reason", ""))
        match message:
            case MemberUp(member) | MemberAlive(member) | MemberUpdated(member):
                self._reported.pop(member.name, None)
                self._connect(member)
            case MemberDown(member, "reported") if member.name in self._distribution.nodes():
                self._reported[member.name] = member
                send_after(_REFUTE_TIMEOUT, self_pid(), _MarkDown(member))
            case MemberDown(member, reason):
                # Who said goodbye is not cut off: neither side has to remember a split.
                self._disconnect(member, "stopped" if reason == "stopped" else "down")
            case _MarkDown(member):
                if self._reported.get(member.name) is member:
                    del self._reported[member.name]
                    self._disconnect(member, "down")
            case MemberLeft(member):
                self._left(member)
            case NameConflict(name, holder):
                self._fatal(name_taken(name, f"{holder.address}:{holder.port}"))
            case ForcedOut(by):
                self._node.forced_out(by)

    def _compare(self) -> None:
        alive = [member for member in self._node.members.members()[1:] if member.status is not Status.OFFLINE]
        names = {member.name for member in alive}
        # Hidden peers are no members, and no verdict is about them.
        for name in [name for name, peer in self._distribution.peers.items() if not peer.hidden]:
            if name not in names:
                self._distribution.disconnect(name, "down")
        for member in alive:
            self._connect(member)

    def _connect(self, member: Member) -> None:
        port = member.metadata.ports.get("distribution")
        if port and member.name != self._node.name:
            self._distribution.connect(member.name, member.metadata.creation, (member.address, port))

    def _left(self, member: Member) -> None:
        if self._distribution.creation_of(member.name) is None:
            self._node.gone(member.name, member.metadata.creation)
        self._disconnect(member, "left")

    def _disconnect(self, member: Member, reason: str) -> None:
        if self._distribution.creation_of(member.name) == member.metadata.creation:
            self._distribution.disconnect(member.name, reason)
