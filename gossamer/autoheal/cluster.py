"""What a heal needs to know of the cluster at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from gossamer.autoheal.values import Message, Peer

__all__ = ["Cluster", "Tell", "leader_of"]


@dataclass(frozen=True, slots=True)
class Cluster:
    """``online``: this node and every member with a link; ``known``: every member that has not left.

    ``removed``: those that were down for too long, and are members again if they live.
    """

    online: dict[str, Peer]
    known: frozenset[str]
    removed: frozenset[str] = frozenset()

    @property
    def whole(self) -> bool:
        """Everybody is there."""
        return self.known <= self.online.keys()

    def is_majority(self, count: int) -> bool:
        """Whether ``count`` nodes are more than half of the members."""
        return 2 * count > len(self.known)


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a message to the same process of a node, which may be this one; it may get lost."""

    to: str
    message: Message


def leader_of(cluster: Cluster) -> str:
    """The earliest started node that is alive; by name where two started at once."""
    return min(cluster.online.values(), key=lambda peer: (peer.start_time, peer.name)).name
