"""Values of a heal: down records, messages between nodes, plans.

Most is plain data that travels between nodes and is stored in the file that survives a crash; then requests
of other processes to the healer of their node, and its snapshot of the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from msgspec import Struct

from gossamer.supervisor import Pid

Context = Literal["running_partitioned_network", "starting_partitioned_network"]
"""Mnesia's words: both nodes ran through the split; or one of them has started since."""


Restart = Literal["store", "node"]
"""Scope of a restart at a node of the minority: its tables, or, as with EMQX, all that clients see of it."""


class Peer(Struct, frozen=True):
    """Live node in the membership view; ``start_time`` in wall-clock seconds."""

    name: str
    creation: int
    start_time: float


class DownRecord(Struct, frozen=True):
    """Creation ``mine`` of this node considered creation ``theirs`` of ``peer`` down, at ``wall``.

    ``serial`` distinguishes splits. ``met`` is set once both have compared their records: ``mutual`` if each
    considered the other down.
    """

    peer: str
    theirs: int
    mine: int
    serial: int
    wall: float
    met: Literal["", "mutual", "one-sided"] = ""
    met_wall: float = 0.0


class Pair(Struct, frozen=True):
    """Two nodes that considered each other down: ``node`` reports ``peer``."""

    node: str
    peer: str
    serial: int


class NodeView(Struct, frozen=True):
    """Nodes that one considered up during the split, and the serials of its records of the others.

    ``split_at``: the wall-clock time of its earliest mark, 0 without one.
    """

    node: str
    creation: int
    start_time: float
    running: tuple[str, ...]
    marks: dict[str, int]
    split_at: float = 0.0
    busy: str = ""
    """The plan that this node coordinates at the moment."""
    lost: int = 0
    """Rows that it saw lose, and keeps."""


class HealPlan(Struct, frozen=True):
    """Nodes that keep running, and nodes that reload. ``marks`` are what the heal settles, of each node."""

    id: str
    leader: str
    coordinator: str
    groups: tuple[tuple[str, ...], ...]
    """Groups by rank: the survivors, then those that reload."""
    creations: dict[str, int]
    marks: dict[str, dict[str, int]]
    made: float
    split_at: float = 0.0
    missing: tuple[str, ...] = ()
    """Members that are away; what they remember is healed once they are back."""
    restart: Restart = "store"
    lost: int = 0
    """Rows that lost already, since the sides have met, at the node that saw most of them."""

    @property
    def survivors(self) -> tuple[str, ...]:
        """Nodes that keep running."""
        return self.groups[0]

    @property
    def victims(self) -> tuple[str, ...]:
        """Nodes that reload, those of the smallest group last."""
        return tuple(name for group in self.groups[1:] for name in group)

    @property
    def saw_down(self) -> dict[str, tuple[str, ...]]:
        """Nodes that each considered down."""
        return {name: tuple(sorted(marks)) for name, marks in sorted(self.marks.items()) if marks}


class Reconciled(Struct, frozen=True):
    """Result of a heal for rows that both sides wrote: rows restored to the survivors' values, rows decided
    by a merge function, rows in the fullest node's quarantine, and rows left unchanged because the
    quarantine had no room."""

    restored: int = 0
    merged: int = 0
    quarantined: int = 0
    left: int = 0


class Incident(Struct, frozen=True):
    """Healed split, for the history. Wall-clock seconds."""

    plan: str
    coordinator: str
    survivors: tuple[str, ...]
    reloaded: tuple[str, ...]
    skipped: tuple[str, ...]
    saw_down: dict[str, tuple[str, ...]]
    split_at: float
    healed_at: float
    rows: Reconciled = Reconciled()


# -- messages from node to node; each names its sender


class DownQuery(Struct, frozen=True):
    """The record that ``source`` has of the receiver; ``ask``: send me yours of me."""

    source: str
    creation: int
    mark: DownRecord | None
    ask: bool


class Report(Struct, frozen=True):
    """Confirmed pairs, sent to the leader repeatedly until they are healed."""

    source: str
    pairs: tuple[Pair, ...]


class AskView(Struct, frozen=True):
    """The leader wants a view."""

    source: str
    round: int


class AskLost(Struct, frozen=True):
    """The coordinator wants the rows of victims that lost where they met others, as
    :meth:`Discards.lost_of` gives them: where a loser was let go in time, it has never seen them."""

    victims: tuple[str, ...]


class ViewTold(Struct, frozen=True):
    """The answer to :class:`AskView`."""

    source: str
    round: int
    view: NodeView


class HealOrder(Struct, frozen=True):
    """The leader wants the receiver to carry out a plan."""

    source: str
    plan: HealPlan


class Progress(Struct, frozen=True):
    """The coordinator is at it."""

    source: str
    plan: str


class Reload(Struct, frozen=True):
    """Request of the coordinator to reload the store, and to report it."""

    source: str
    plan: str
    restart: Restart = "store"


class Reloaded(Struct, frozen=True):
    """The receiver of :class:`Reload` has done so."""

    source: str
    plan: str


class Healed(Struct, frozen=True):
    """A plan is carried out; ``marks`` are those that it settles, of each node by peer."""

    source: str
    episode: Incident
    marks: dict[str, dict[str, int]]


class HealedPart(Struct, frozen=True):
    """Acknowledgement of :class:`Healed`."""

    source: str
    plan: str


Message = (
    DownQuery | Report | AskView | ViewTold | HealOrder | Progress | Reload | Reloaded | Healed | HealedPart
)


class Replayed(Struct, frozen=True):
    """Notice that this row of the quarantine was written again and can be dropped."""

    id: str


MESSAGES = (AskLost, DownRecord, Pair, NodeView, HealPlan, Reconciled, Incident, Replayed, *get_args(Message))
"""Types to register for travelling."""


# -- what happens at this node


class Partition(Struct, frozen=True):
    """``inconsistent_database``: this node and ``peer`` considered each other down and are reconnected.

    ``context`` is blank if an earlier run of the process raised it. Wall-clock seconds.
    """

    peer: str
    context: Context | Literal[""]
    down_at: float
    met_at: float


class Confirmed(Struct, frozen=True):
    """The split from ``peer`` has been believed for long enough to be reported."""

    peer: str


# -- messages of other processes to the healer of their node


class Subscribe(Struct, frozen=True):
    """A cast: send ``pid`` every :class:`Partition`, :class:`Cleaned`, and :class:`Incident` of a heal."""

    pid: Pid


Setting = Literal["autoheal", "autoclean"]
"""The leader's wait before it heals; the time that a member may be down. Off where it is None."""


class ChangeSetting(Struct, frozen=True):
    """A call: change a setting of all nodes, to ``seconds`` or off.

    They keep it over restarts; one that was away has it from its peers. The configuration file stays as it
    is. Answered once it is on disc, or with the error.
    """

    name: Setting
    seconds: float | None


class DryRun(Struct, frozen=True):
    """A call: what would be healed now, as a plan; None where all nodes saw the same. Changes nothing."""


class Replay(Struct, frozen=True):
    """A call: write a row of the quarantine again. Answered with the row, or with the error."""

    id: str


# -- the cluster at one moment


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
        """True if all known members are online."""
        return self.known <= self.online.keys()

    def is_majority(self, count: int) -> bool:
        """Return whether ``count`` nodes are more than half of the members."""
        return 2 * count > len(self.known)


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a message to the same process of a node, which may be this one; it may get lost."""

    to: str
    message: Message


def leader_of(cluster: Cluster) -> str:
    """The earliest started node that is alive; by name where two started at once."""
    return min(cluster.online.values(), key=lambda peer: (peer.start_time, peer.name)).name
