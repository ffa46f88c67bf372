"""SplitView: from every node's view of the split to who survives and who reloads.

The members of a group saw each other throughout. The survivors are the largest such group that there is; of
equals the one that holds the leader, then the one with the oldest nodes. Those that are left form groups in
the same way. So nobody reloads who need not, whatever the shape: two-way, three-way, total, overlapping,
one-way, or cut short, so that some had declared the other side dead and some had not. The oldest survivor
coordinates, or the leader where it is one; whoever coordinates gave a view, where one of the survivors did.

Finding the largest group takes long where sight is random and nodes are many. After :data:`STEPS` steps two
nodes are in one group when the same nodes held them for running, which is quick, and finer than it need be.

Rules: 1. Survivors and victims are disjoint, together they are all nodes that are there, and survivors are
never empty.  2. The order in which views came in decides nothing.  3. A node that is there and whose view got
lost stands with those whom the others saw as they saw it: its silence moves it to no other side.

Rejected: growing a group greedily from one node and whom it sees, which depends on where it begins; asking
for a mirror image, which heals nothing but a split in two; grouping by equal sight alone, as above, by which
a node of the larger side reloads because one of the smaller had not declared it dead yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from gossamer.autoheal.values import NodeView

STEPS = 20_000
"""About a tenth of a second."""


class SplitView(NamedTuple):
    """``groups`` by rank, the survivors first, one alone where everybody saw the same; names are sorted."""

    groups: tuple[tuple[str, ...], ...]
    coordinator: str


def build_split_view(
    views: Mapping[str, NodeView], *, leader: str, silent: Mapping[str, float] | None = None
) -> SplitView:
    """The split that ``views``, by the node that gave each, describe; at least one view is needed.

    ``silent``: nodes that are there and gave none, with their start times.
    """
    quiet = {name: started for name, started in (silent or {}).items() if name not in views}
    nodes = sorted({*views, *quiet})

    def age(node: str) -> tuple[float, str]:
        return quiet[node] if node in quiet else views[node].start_time, node

    def rank(group: Iterable[str]) -> tuple[int, bool, list[tuple[float, str]]]:
        ages = sorted(map(age, group))
        return -len(ages), leader not in group, ages

    found = _by_sight(nodes, views, rank)
    groups = tuple(sorted((tuple(sorted(group)) for group in found), key=rank))
    told = [node for node in groups[0] if node in views] or groups[0]
    return SplitView(groups, leader if leader in told else min(told, key=age))


def _by_sight(
    nodes: list[str], views: Mapping[str, NodeView], rank: Callable[[Iterable[str]], Any]
) -> list[Iterable[str]]:
    """Groups whose members saw each other, the best first."""
    # Silent and seen by nobody: no reason to think that two such nodes saw each other.
    seen = {
        node: {
            other
            for other in nodes
            if other != node
            and _saw(views, node, other)
            and _saw(views, other, node)
            and (node in views or other in views)
        }
        for node in nodes
    }
    # Two nodes of which no view came saw each other if all others saw them alike.
    witnesses = {node: frozenset(o for o in views if node in views[o].running) for node in nodes}
    for node in nodes:
        for other in nodes:
            alike = witnesses[node] and witnesses[node] == witnesses[other]
            if node != other and node not in views and other not in views and alike:
                seen[node].add(other)
    steps = [STEPS]
    groups: list[Iterable[str]] = []
    left = set(nodes)
    while left:
        best = min(_cliques(set(), set(left), set(), seen, steps), key=rank, default=None)
        if steps[0] <= 0 or best is None:
            return _by_witnesses(nodes, views)
        groups.append(best)
        left -= set(best)
    return groups


def _saw(views: Mapping[str, NodeView], one: str, other: str) -> bool:
    """Whether ``one`` held ``other`` for running; who gave no view is not asked."""
    return one not in views or other in views[one].running


def _cliques(
    group: set[str], may: set[str], done: set[str], seen: Mapping[str, set[str]], steps: list[int]
) -> Iterator[tuple[str, ...]]:
    """The largest groups that ``group`` can grow into (Bron and Kerbosch, with a pivot)."""
    steps[0] -= 1
    if steps[0] <= 0:
        return
    if not may and not done:
        yield tuple(sorted(group))
        return
    pivot = max(sorted(may | done), key=lambda node: len(seen[node] & may))
    for node in sorted(may - seen[pivot]):
        yield from _cliques(group | {node}, may & seen[node], done & seen[node], seen, steps)
        may = may - {node}
        done = done | {node}


def _by_witnesses(nodes: list[str], views: Mapping[str, NodeView]) -> list[Iterable[str]]:
    """Groups whose members were held for running by the same nodes."""
    found: dict[tuple[str, ...], list[str]] = {}
    for node in nodes:
        # A node runs by its own testimony, even if it forgot to say so.
        witnesses = tuple(other for other in sorted(views) if other == node or node in views[other].running)
        found.setdefault(witnesses or (node,), []).append(node)
    return list(found.values())
