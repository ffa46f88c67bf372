"""SplitView: derives survivors and reloading nodes from all nodes' views of the split.

The members of a group saw each other throughout. The survivors are the largest such group; of equals the one
with the leader, then the one with the oldest nodes. The rest forms groups in the same way. So no node reloads
needlessly, whatever the shape: two-way, three-way, total, overlapping, one-way, or cut short, so that some
had declared the other side down and some had not. The oldest survivor coordinates, or the leader if it
survives; the coordinator is one that sent a view, if any survivor did.

Finding the largest group takes long if views are random and nodes are many. After :data:`STEPS` steps two
nodes are in one group if the same nodes considered them up, which is fast, and finer than necessary.

Rules: 1. Survivors and victims are disjoint, together they are all nodes that are up, and survivors are never
empty.  2. The order of the views has no effect.  3. A node that is up and whose view got lost is grouped with
those that the others saw alike: its silence moves it to no other side.

Rejected: growing a group greedily from one node, which depends on the start; requiring mirrored views, which
heals only a split in two; grouping by equal views alone, as above, by which a node of the larger side reloads
because one of the smaller had not declared it down yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from gossamer.autoheal.values import NodeView

STEPS = 20_000
"""About a tenth of a second."""


class SplitView(NamedTuple):
    """Groups by rank, the survivors first, only one if all views are equal; names are sorted."""

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
    # Silent and seen by none: there is no evidence that two such nodes saw each other.
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
    """Return whether ``one`` considered ``other`` up, or sent no view."""
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
    """Group nodes that the same nodes considered up."""
    found: dict[tuple[str, ...], list[str]] = {}
    for node in nodes:
        # A node considers itself up, even if its view does not list it.
        witnesses = tuple(other for other in sorted(views) if other == node or node in views[other].running)
        found.setdefault(witnesses or (node,), []).append(node)
    return list(found.values())
