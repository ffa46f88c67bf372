"""Which nodes were out of reach when, and which of them saw each other, as a history tells it.

Pure. A node is **impaired** from the moment it is killed, stopped or paused until ``GRACE`` after it is back;
two nodes are **apart** while packets between them are dropped, or either is paused, and ``GRACE`` longer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter, itemgetter

from .history import Event

GRACE = 10.0
"""Seconds after a fault in which the nodes may still act on it."""
MOVE_END = 1.0
"""Seconds after CONNACK in which a move comes to its end between the nodes."""
PASSED_ON = 2.5
"""Seconds after a node holds another for down in which others pass on what that had told them alone."""
STALE = 1.5
"""Seconds by which the operator's view of the members may lag."""

_BEGINS = {"down": "down", "paused": "paused", "cut": "cut"}
_ENDS = {"up": "down", "resumed": "paused", "joined": "cut"}
"""Kinds of events, or notes of a fault, between which something is wrong."""


@dataclass(frozen=True, slots=True)
class Span:
    start: float
    end: float

    def has(self, at: float) -> bool:
        return self.start <= at <= self.end


class Outages:
    """``events`` of nodes, and of what was done to them."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.nodes = sorted({e.node for e in events if e.kind == "up"})
        self.wholes = [e.at for e in events if e.kind == "whole"]
        self.down: dict[int, list[Span]] = defaultdict(list)
        self.paused: dict[int, list[Span]] = defaultdict(list)
        self.separate: dict[frozenset[int], list[Span]] = defaultdict(list)
        """When packets between two nodes were dropped."""
        self._deaths: dict[int, list[float]] = defaultdict(list)
        self._views: dict[int, list[tuple[float, frozenset[int]]]] = defaultdict(list)
        self._read(events)

    def _read(self, events: Sequence[Event]) -> None:
        began: dict[tuple[str, int, int], float] = {}

        def end(key: tuple[str, int, int], at: float) -> None:
            what, node, other = key
            span = Span(began.pop(key), at)
            if what == "cut":
                self.separate[frozenset((node, other))].append(span)
            else:
                {"down": self.down, "paused": self.paused}[what][node].append(span)

        for event in events:
            kind = event.note if event.kind == "fault" else event.kind
            if kind == "members":
                seen = frozenset(int(n) for n in event.note.split(",") if n)
                self._views[event.node].append((event.at, seen))
            elif what := _BEGINS.get(kind):
                key = (what, event.node, event.code)
                if what == "down":
                    self._deaths[event.node].append(event.at)
                # Of a node that was killed in its sleep nobody says that it woke.
                if what == "paused" or key not in began:
                    began[key] = event.at
            elif (key := (_ENDS.get(kind, ""), event.node, event.code)) in began:
                end(key, event.at)
        for key in list(began):
            end(key, inf)

    def impaired(self, node: int, start: float, end: float | None = None) -> bool:
        """Was it down or paused at any time from start to end, or shortly before?"""
        spans = [*self.down[node], *self.paused[node]]
        return any(_touch(span, start, start if end is None else end) for span in spans)

    def apart(self, one: int, other: int, start: float, end: float | None = None) -> bool:
        """Could two nodes not talk at any time from start to end, or shortly before?"""
        spans = [*self.separate[frozenset((one, other))], *self.paused[one], *self.paused[other]]
        return one != other and any(_touch(span, start, start if end is None else end) for span in spans)

    def cuts(self, one: int, other: int) -> list[Span]:
        """When two nodes were cut off from each other, until they see each other again.

        If that is for so short a time that one may not have told the other what it has, the next cut goes on
        with the one before.
        """
        joined: list[Span] = []
        for span in sorted(self.separate[frozenset((one, other))], key=attrgetter("start")):
            start = span.start
            if joined and start <= joined[-1].end + MOVE_END:
                start = joined.pop().start
            joined.append(Span(start, self.met(one, other, span.end)))
        return joined

    def met(self, one: int, other: int, since: float) -> float:
        """When two nodes said that they see each other, not before that time."""
        at = since
        for node, peer in ((one, other), (other, one)):
            views = self._views[node]
            place = bisect_right(views, since, key=itemgetter(0)) - 1
            if place >= 0 and peer not in views[place][1]:
                at = max(at, next((when for when, seen in views[place + 1 :] if peer in seen), inf))
        return at

    def told_some(self, node: int, other: int, sent: float, done: float, start: float, end: float) -> bool:
        """May another node, from start to end, lack what it was sent by a node that went meanwhile?

        That went between ``sent`` and ``done``, the acknowledgement, or had begun to; and the other has not
        held it for down long enough to have been told by a third.
        """
        spans = [*self.separate[frozenset((node, other))], *self.down[node], *self.paused[node]]
        return any(
            sent <= span.start + MOVE_END
            and span.start <= min(done, end)
            and start <= min(self._lost(other, node, span.start) + PASSED_ON, span.end + GRACE)
            for span in spans
        )

    def sent_apart(self, node: int, other: int, sent: float, start: float, end: float) -> bool:
        """Was it sent at a node that could not tell another, which may lack it from start to end, though the
        cut is over?"""
        spans = [*self.separate[frozenset((node, other))], *self.paused[other]]
        return any(
            span.start <= sent <= (met := self.met(node, other, span.end))
            and span.end <= end
            and start <= met + PASSED_ON
            for span in spans
        )

    def _lost(self, node: int, peer: int, since: float) -> float:
        """When a node said that it does not see another, not before that time."""
        views = self._views[node]
        place = max(bisect_right(views, since, key=itemgetter(0)) - 1, 0)
        return next((max(at, since) for at, seen in views[place:] if seen and peer not in seen), inf)

    def died_again(self, event: Event, *, until: float) -> bool:
        """Did another node die just after this, on its way back from where it had died, and stay away?"""
        return any(
            down.start < death <= down.end and event.at <= death <= event.at + MOVE_END and until <= down.end
            for node, deaths in self._deaths.items()
            if node != event.node
            for death in deaths
            for down in self.down[node]
        )

    def disturbed(self, start: float, end: float) -> bool:
        """Was anything wrong with any node or link in that time, or shortly before?"""
        every = [*self.down.values(), *self.paused.values(), *self.separate.values()]
        return any(_touch(span, start, end) for spans in every for span in spans)

    def whole_after(self, at: float) -> float:
        place = bisect_right(self.wholes, at)
        return self.wholes[place] if place < len(self.wholes) else inf

    def unseen(self, node: int, at: float) -> frozenset[int]:
        """Nodes that this node did not say it sees, at that time or nearly."""
        views = self._views[node]
        missing: set[int] = set()
        for place, (since, seen) in enumerate(views):
            until = views[place + 1][0] if place + 1 < len(views) else inf
            if since <= at + STALE and until >= at - STALE:
                missing |= {n for n in self.nodes if n not in seen}
        return frozenset(missing - {node})

    def may_be_new(self, owners: Iterable[int], node: int, start: float, end: float) -> bool:
        """May a session that could be at ``owners`` not be found by ``node``?"""
        return any(
            owner != node and (self.impaired(owner, start, end) or self.apart(owner, node, start, end))
            for owner in owners
        )


def _touch(span: Span, start: float, end: float) -> bool:
    return span.start <= end and start <= span.end + GRACE
