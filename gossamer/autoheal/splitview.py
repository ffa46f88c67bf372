"""SplitView: from every node's view of the split to who survives and who reloads.

Two nodes are in one group when the same nodes held them for running. Since every node holds itself for
running, the members of a group saw each other throughout, whatever the shape: two-way, three-way, total,
overlapping, one-way. The largest group survives; of equals the one that holds the leader, then the one with
the oldest node. Its oldest node coordinates, or the leader where it is a survivor; whoever coordinates gave a
view, where one of the survivors did.

Rules: 1. Survivors and victims are disjoint, together they are all nodes that are there, and survivors are
never empty.  2. The order in which views came in decides nothing.  3. A node that is there and whose view got
lost stands with those whom the others saw as they saw it: its silence moves it to no other side.

Rejected: growing a group greedily from one node and whom it sees, which depends on where it begins; and
asking for a mirror image, which heals nothing but a split in two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gossamer.autoheal.values import NodeView

__all__ = ["SplitView", "build_split_view"]


@dataclass(frozen=True, slots=True)
class SplitView:
    """``groups`` by rank, the survivors first; names are sorted within each."""

    groups: tuple[tuple[str, ...], ...]
    coordinator: str

    @property
    def survivors(self) -> tuple[str, ...]:
        """Who keeps running."""
        return self.groups[0]

    @property
    def victims(self) -> tuple[str, ...]:
        """Who reloads, smallest group last."""
        return tuple(name for group in self.groups[1:] for name in group)

    @property
    def partitioned(self) -> bool:
        """False where everybody saw the same."""
        return len(self.groups) > 1


def build_split_view(
    views: Mapping[str, NodeView], *, leader: str, silent: Mapping[str, float] | None = None
) -> SplitView:
    """The split that ``views``, by the node that gave each, describe; at least one view is needed.

    ``silent``: nodes that are there and gave none, with their start times.
    """
    quiet = {name: started for name, started in (silent or {}).items() if name not in views}
    nodes = sorted({*views, *quiet})
    seen_by: dict[tuple[str, ...], list[str]] = {}
    for node in nodes:
        # A node runs by its own testimony, even if it forgot to say so.
        witnesses = tuple(other for other in sorted(views) if other == node or node in views[other].running)
        # Silent and seen by nobody: no reason to think that two such nodes saw each other.
        seen_by.setdefault(witnesses or (node,), []).append(node)

    def age(node: str) -> tuple[float, str]:
        return quiet[node] if node in quiet else views[node].start_time, node

    def rank(group: tuple[str, ...]) -> tuple[int, bool, tuple[float, str]]:
        return -len(group), leader not in group, min(map(age, group))

    groups = tuple(sorted((tuple(group) for group in seen_by.values()), key=rank))
    told = [node for node in groups[0] if node in views] or groups[0]
    return SplitView(groups, leader if leader in told else min(told, key=age))
