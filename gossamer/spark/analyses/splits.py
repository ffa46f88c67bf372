"""Splits of the cluster: pairs and durations, from the nodes' records about their peers.

A split begins when the first node marks another down that is alive, and ends with the heal, without one when
all nodes see each other again, or at the end of the recording.

Rules: 1. Two nodes were split if both marked the other down at a time, or if autoheal found that they had
(``partition``). A node that crashed or left does not record that it lost others.  2. Pairs whose losses
overlap in time are one split.  3. Its sides are sets of nodes that did not lose each other.  4. A node that
shuts down is no split, nor is one that restarts: losses by leaving (``left``), or for a moment while a node
is about to close, are not counted; and a node that has stopped marks no other down.  5. Plain values in and
out: splits are few, however large the recording is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import gossamer.audit.schema as schema

_BEFORE = 60_000_000
"""Microseconds before a split was found in which a node may have been marked down because of it."""
_GOODBYE = "left"
"""Reason of a loss where a node left, at that node and at the others."""
_STOPPING = 60_000_000
"""Microseconds that a node takes to stop, at most."""
_MOMENT = 5_000_000
"""Microseconds for which two nodes may disagree whether one of them is stopping."""


class Change(NamedTuple):
    """A node's note of a peer, or of a heal."""

    t: int
    event: str
    recorder: str
    peer: str | None = None
    reason: str | None = None
    creation: int = 0
    """Of the recorder."""


@dataclass(frozen=True, slots=True)
class Split:
    """Microseconds since 1970, end excluded."""

    begin: int
    end: int
    sides: tuple[tuple[str, ...], ...]
    met: bool
    """Its nodes have seen each other again."""
    healed: bool
    """And autoheal made one cluster of them."""


class _Loss(NamedTuple):
    begin: int
    end: int
    met: bool


def splits_of(changes: Iterable[Change], *, last: int) -> list[Split]:
    """The splits in the order in which they began; ``last``: when the recording ends."""
    ordered = sorted(changes, key=lambda change: (change.t, change.event, change.recorder, change.peer or ""))
    lost = _without_stops(_lost(ordered, last), ordered)
    pairs = _pairs(ordered, lost)
    heals = [change.t for change in ordered if change.event == schema.HEALED]
    found: list[Split] = []
    for group in _overlapping(pairs):
        begin, end = min(loss.begin for _, loss in group), max(loss.end for _, loss in group)
        met = all(loss.met for _, loss in group)
        following = min((o.begin for _, o in pairs if o.begin > end), default=last + 1)
        heal = next((t for t in heals if end <= t < following), None) if met else None
        found.append(
            Split(begin, heal if heal is not None else end, _sides(group), met, healed=heal is not None)
        )
    return found


def _lost(changes: Iterable[Change], last: int) -> dict[tuple[str, str], list[_Loss]]:
    """Per node and peer, the spans in which the one held the other for gone; but for goodbyes."""
    open_: dict[tuple[str, str], int] = {}
    lost: dict[tuple[str, str], list[_Loss]] = {}
    lives: dict[str, int] = {}
    for change in changes:
        life = lives.setdefault(change.recorder, change.creation)
        if change.event == schema.CLOSED or life != change.creation:
            # Whatever it held for gone, it holds no more.
            lives[change.recorder] = change.creation
            for key in [key for key in open_ if key[0] == change.recorder]:
                lost.setdefault(key, []).append(_Loss(open_.pop(key), change.t, False))
        if change.peer is None:
            continue
        key = (change.recorder, change.peer)
        if change.event == schema.NODE_DOWN and change.reason != _GOODBYE:
            open_.setdefault(key, change.t)
        elif change.event == schema.NODE_UP and key in open_:
            lost.setdefault(key, []).append(_Loss(open_.pop(key), change.t, True))
    for key, begin in open_.items():
        lost.setdefault(key, []).append(_Loss(begin, last, False))
    return lost


def _without_stops(
    lost: dict[tuple[str, str], list[_Loss]], changes: Iterable[Change]
) -> dict[tuple[str, str], list[_Loss]]:
    """Those that are not a moment's disagreement about one of the two that was about to close."""
    closed = [(change.recorder, change.t) for change in changes if change.event == schema.CLOSED]

    def stops(key: tuple[str, str], loss: _Loss) -> bool:
        return loss.end - loss.begin <= _MOMENT and any(
            node in key and loss.begin <= t <= loss.end + _STOPPING for node, t in closed
        )

    return {key: [loss for loss in losses if not stops(key, loss)] for key, losses in lost.items()}


def _pairs(
    changes: Iterable[Change], lost: dict[tuple[str, str], list[_Loss]]
) -> list[tuple[tuple[str, str], _Loss]]:
    pairs = []
    for (a, b), losses in sorted(lost.items()):
        if a < b:
            for one in losses:
                for other in lost.get((b, a), ()):
                    if one.begin < other.end and other.begin < one.end:
                        whole = _Loss(
                            min(one.begin, other.begin), max(one.end, other.end), one.met and other.met
                        )
                        pairs.append(((a, b), whole))
    for change in changes:
        if change.event != schema.PARTITION or change.peer is None:
            continue
        a, b = sorted((change.recorder, change.peer))
        known = [
            loss
            for key in ((a, b), (b, a))
            for loss in lost.get(key, ())
            if loss.begin <= change.t <= loss.end + _BEFORE
        ]
        begin = min((loss.begin for loss in known), default=change.t)
        pairs.append(((a, b), _Loss(begin, change.t, True)))
    return pairs


def _overlapping(
    pairs: Iterable[tuple[tuple[str, str], _Loss]],
) -> list[list[tuple[tuple[str, str], _Loss]]]:
    groups: list[list[tuple[tuple[str, str], _Loss]]] = []
    until = 0
    for pair in sorted(pairs, key=lambda pair: (pair[1].begin, pair[0])):
        if groups and pair[1].begin <= until:
            groups[-1].append(pair)
        else:
            groups.append([pair])
        until = max(until, pair[1].end)
    return groups


def _sides(group: Iterable[tuple[tuple[str, str], _Loss]]) -> tuple[tuple[str, ...], ...]:
    parted = {pair for pair, _ in group}
    nodes = sorted({name for pair in parted for name in pair})
    sides: list[list[str]] = []
    for name in nodes:
        # A node joins the first side of which it lost no member.
        for side in sides:
            if all((min(name, other), max(name, other)) not in parted for other in side):
                side.append(name)
                break
        else:
            sides.append([name])
    return tuple(tuple(side) for side in sorted(sides, key=lambda side: (-len(side), side)))
