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

from gossamer.distribution import Distribution
from gossamer.errors import UnavailableError
from gossamer.gossip import (
    ForcedOut,
    Member,
    MemberAlive,
    MemberDown,
    MemberLeft,
    MembershipView,
    MemberSuspect,
    MemberUp,
    MemberUpdated,
    NameConflict,
    Status,
)
from gossamer.supervisor import GenServer, self_pid, send_after

__all__ = ["MEMBERSHIP", "Membership", "NodeNameTakenError"]

MEMBERSHIP = "membership"
_HEARSAY = 1.0
"""Seconds for a member that others declared dead to say that it lives."""


class NodeNameTakenError(UnavailableError):
    """Another living node of the cluster has this node's name."""

    def __init__(self, *, name: str, holder: str) -> None:
        self.name = name
        self.holder = holder
        super().__init__(
            f"a node named {name} is alive at {holder} and was there first; "
            "give this node another node.name, or stop that one"
        )


@dataclass(frozen=True, slots=True)
class _Bury:
    """It has had its time to say that it lives."""

    member: Member


class Membership(GenServer):
    """Subscribed to gossip under the name ``membership``. ``fatal`` is told why this node must stop.

    ``gone`` is told of a life that has left for good after it was down, which ends no session. ``note`` keeps
    what gossip says of members: kind, name, why.
    """

    async def init(
        self,
        *,
        view: MembershipView,
        distribution: Distribution,
        fatal: Callable[[UnavailableError], None],
        forced_out: Callable[[str], None],
        gone: Callable[[str, int], None],
        note: Callable[..., None] = lambda *_: None,
    ) -> None:
        self._distribution = distribution
        self._fatal = fatal
        self._forced_out = forced_out
        self._gone = gone
        self._note = note
        self._reported: dict[str, Member] = {}
        self._compare(view)

    async def handle_info(self, message: Any) -> None:
        self._record(message)
        match message:
            case MemberUp(member) | MemberAlive(member) | MemberUpdated(member):
                self._reported.pop(member.name, None)
                self._connect(member)
            case MemberDown(member, "reported") if member.name in self._distribution.nodes():
                self._reported[member.name] = member
                send_after(_HEARSAY, self_pid(), _Bury(member))
            case MemberDown(member, reason):
                # Who said goodbye is not cut off: neither side has to remember a split.
                self._disconnect(member, "stopped" if reason == "stopped" else "down")
            case _Bury(member):
                if self._reported.get(member.name) is member:
                    del self._reported[member.name]
                    self._disconnect(member, "down")
            case MemberLeft(member):
                self._left(member)
            case NameConflict(name, holder):
                self._fatal(NodeNameTakenError(name=name, holder=f"{holder.address}:{holder.port}"))
            case ForcedOut(by):
                self._forced_out(by)

    def _record(self, message: Any) -> None:
        match message:
            case MemberUp(member):
                self._note("up", member.name)
            case MemberSuspect(member):
                self._note("suspected", member.name)
            case MemberAlive(member):
                self._note("refuted", member.name)
            case MemberDown(member, reason):
                self._note("down", member.name, reason)
            case MemberLeft(member):
                self._note("left", member.name)

    def _compare(self, view: MembershipView) -> None:
        alive = [member for member in view.members()[1:] if member.status is not Status.OFFLINE]
        names = {member.name for member in alive}
        # Hidden peers are no members, and no verdict is about them.
        for name in [name for name, peer in self._distribution.peers.items() if not peer.hidden]:
            if name not in names:
                self._distribution.disconnect(name, "down")
        for member in alive:
            self._connect(member)

    def _connect(self, member: Member) -> None:
        port = member.metadata.ports.get("distribution")
        if port and member.name != self.process.runtime.node:
            self._distribution.connect(member.name, member.metadata.creation, (member.address, port))

    def _left(self, member: Member) -> None:
        if self._distribution.creation_of(member.name) is None:
            self._gone(member.name, member.metadata.creation)
        self._disconnect(member, "left")

    def _disconnect(self, member: Member, reason: str) -> None:
        if self._distribution.creation_of(member.name) == member.metadata.creation:
            self._distribution.disconnect(member.name, reason)
