"""What a node's lane in the timeline shows: stretches of its sight, and marks that fall together.

Pure. A stretch is ``clear`` while the node sees everybody, ``doubt`` from its first suspicion, ``blind``
while it holds anybody for dead, ``gone`` while its process does not run, ``still`` while that is paused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from gossamer.drill.record import Mark, MarkKind

__all__ = ["Cluster", "Condition", "Stretch", "clusters", "stretches"]

Condition = Literal["clear", "doubt", "blind", "gone", "still"]

_SIGHT: dict[MarkKind, Condition] = {
    "suspected": "doubt",
    "declared down": "blind",
    "refuted": "clear",
    "saw the return": "clear",
    "left": "clear",
    "removed": "clear",
}
_PROCESS: dict[MarkKind, Condition] = {
    "process killed": "gone",
    "process stopped": "gone",
    "process ended": "gone",
    "process started": "clear",
    "process paused": "still",
    "process resumed": "clear",
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """From ``begin`` to ``end`` the node was in ``condition``."""

    begin: float
    end: float
    condition: Condition


@dataclass(frozen=True, slots=True)
class Cluster:
    """Marks of one kind at one node that are too close to be told apart."""

    at: float
    node: str
    kind: MarkKind
    marks: tuple[Mark, ...]


def stretches(marks: Iterable[Mark], node: str, end: float) -> list[Stretch]:
    """The lane of ``node`` from 0 to ``end``."""
    found: list[Stretch] = []
    since, now = 0.0, "clear"
    for at, condition in (*_changes(marks, node), (end, "over")):
        at = min(max(at, 0.0), end)
        if condition != now:
            if at > since:
                found.append(Stretch(since, at, now))  # type: ignore[arg-type]
            since, now = at, condition
    return found


def _changes(marks: Iterable[Mark], node: str) -> Iterator[tuple[float, Condition]]:
    """When the node came into which condition."""
    peers: dict[str, Condition] = {}
    process: Condition = "clear"
    for mark in marks:
        if mark.node != node:
            continue
        if mark.kind in _PROCESS:
            process = _PROCESS[mark.kind]
            if process == "gone":
                # Its next life knows nothing of what this one saw.
                peers.clear()
        elif mark.kind in _SIGHT:
            peers[mark.peer] = _SIGHT[mark.kind]
        else:
            continue
        sight = set(peers.values())
        worst: Condition = "blind" if "blind" in sight else "doubt" if "doubt" in sight else "clear"
        yield mark.at, process if process != "clear" else worst


def clusters(marks: Sequence[Mark], *, near: float) -> list[Cluster]:
    """Marks of the same node and kind, those within ``near`` seconds of the first together."""
    open_: dict[tuple[str, MarkKind], list[Mark]] = {}
    found: list[Cluster] = []

    def close(group: list[Mark]) -> None:
        found.append(Cluster(group[0].at, group[0].node, group[0].kind, tuple(group)))

    for mark in marks:
        key = mark.node, mark.kind
        group = open_.get(key)
        if group and mark.at - group[0].at <= near:
            group.append(mark)
            continue
        if group:
            close(group)
        open_[key] = [mark]
    for group in open_.values():
        close(group)
    return sorted(found, key=lambda cluster: cluster.at)
