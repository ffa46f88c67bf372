"""A node's view of its cluster, readable without a call.

The view outlives the gossip server: it is created once per node, the server publishes into it, and a server
restarted by its supervisor takes its identity and the last known members from it. To the cluster a restarted
server is the same instance with a higher incarnation, not a node that died and came back.
"""

from __future__ import annotations

from collections import Counter, deque

from gossamer.gossip.member import Member, PartitionHint
from gossamer.gossip.swim.swim import Swim
from gossamer.gossip.wire import Record
from gossamer.histogram import Histogram
from gossamer.network import Address

_HINTS = 64


class Identity:
    """Identity of one instance of this node, with packet numbers that must not repeat."""

    __slots__ = ("address", "id", "incarnation", "number")

    def __init__(self, *, id: str, address: Address, incarnation: int) -> None:  # noqa: A002
        self.id = id
        self.address = address
        self.incarnation = incarnation
        self.number = 0

    def next_number(self) -> int:
        """Return the number of the next packet."""
        self.number += 1
        return self.number


class MembershipView:
    """Members, health, counters and hints of one node."""

    def __init__(self) -> None:
        self.identity: Identity | None = None
        self.counters: Counter[str] = Counter()
        """Packets and bytes in and out, and ``rejected.<reason>``."""
        self.hints: deque[tuple[float, PartitionHint]] = deque(maxlen=_HINTS)
        """The latest partition hints with the wall-clock time of each."""
        self.rtt = Histogram()
        """Round-trip times of probes in seconds."""
        self._swim: Swim | None = None
        self._cached: tuple[int, Member | None, tuple[Member, ...]] = (-1, None, ())

    @property
    def local(self) -> Member:
        """This node's member. Raises LookupError before gossip has started."""
        if self._swim is None:
            raise LookupError("gossip has not started on this node; start the node first")
        return self._swim.local

    @property
    def health(self) -> int:
        """Local health score: 0 is healthy, 7 is worst."""
        return 0 if self._swim is None else self._swim.awareness.score

    @property
    def standalone(self) -> bool:
        """True after this node left its cluster, until it joins again."""
        return self._swim is not None and self._swim.standalone

    def members(self, *, include_left: bool = False) -> list[Member]:
        """Return all known members, this node first: online, suspected and down ones."""
        swim = self._swim
        if swim is None:
            return []
        version, local, members = self._cached
        if version != swim.table.version or local != swim.local:
            members = tuple(swim.members())
            self._cached = (swim.table.version, members[0], members)
        return [member for member in members if include_left or not member.left or member is members[0]]

    def get(self, name: str) -> Member | None:
        """Return a member by its node name."""
        return next((member for member in self.members(include_left=True) if member.name == name), None)

    def publish(self, swim: Swim) -> None:
        """Read from this state machine from now on; called by the gossip server."""
        self._swim = swim
        self._cached = (-1, None, ())

    def records(self, now: float) -> list[Record]:
        """Return the predecessor's table, for a restarted gossip server."""
        return [] if self._swim is None else self._swim.table.records(now)[1:]
