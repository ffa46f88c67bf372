"""A history put in order for the judges: which sessions lasted, and what was in them.

Pure. What is legal is decided here, by what the nodes went through meanwhile (``outages``). A session is new
where CONNACK says so. It may be new without a word where a CONNECT before had no answer at a time when a new
session was legal: that answer is lost, and the next one names the session that it made.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import inf

from .history import Event
from .outages import MOVE_END, Outages, Span

LATE_CONNECT = 5.0
"""Seconds after which a node may read a CONNECT whose client has gone."""
NEW_SESSION = 3.0
"""Seconds after CONNACK in which a new session subscribes, and other nodes come to know what it has had."""


@dataclass(slots=True)
class Message:
    """What its publisher knows of it."""

    name: str
    topic: str
    qos: int
    sent: list[Event] = field(default_factory=list)
    acknowledged: Event | None = None
    lives: set[int] = field(default_factory=set)
    """In which of the publisher's sessions it was sent."""

    @property
    def publisher(self) -> str:
        return self.name.rpartition(":")[0]

    @property
    def number(self) -> int:
        return int(self.name.rpartition(":")[2])

    @property
    def taken(self) -> bool:
        return self.acknowledged is not None and self.acknowledged.code < 0x80


@dataclass(slots=True)
class Subscription:
    """From SUBACK to whatever ended it."""

    client: str
    topic_filter: str
    qos: int
    granted: Event
    end: float = inf
    lost_with: str = ""
    """What ended it, if not the client."""
    unseen: frozenset[int] = frozenset()
    """Nodes that the subscriber's node did not see when it said SUBACK, or said are not told yet."""


class Story:
    """``events`` of some clients, and of nodes."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.end = events[-1].at if events else 0.0
        self.outages = Outages(events)
        self.settling = next((e.at for e in events if e.kind == "settling"), inf)
        self.clients: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            if event.client:
                self.clients[event.client].append(event)
        self.messages: dict[str, Message] = {}
        self.subscriptions: list[Subscription] = []
        self.lives: dict[str, list[float]] = {}
        """When each session of a client began."""
        self.absences: list[tuple[Event, frozenset[int]]] = []
        """Where a session was not present, and where it could have been."""
        self.presences: list[Event] = []
        """Where a session was present that had never begun."""
        for client, own in self.clients.items():
            self._tell(client, own)
        self.received: dict[str, list[Event]] = defaultdict(list)
        for client, own in self.clients.items():
            self.received[client] = list(self._handed_on(client, own))

    def parted(self, client: str, events: Sequence[Event]) -> bool:
        """Did two of these happen on both sides of one cut, and did the client begin a session during it, or
        come back to the first side?

        What it had before it did is on one side, and that one on the other, where it may have moved since;
        neither can know of the other before those two nodes have met.
        """
        return any(
            span.start <= one.at and other.at <= span.end
            for one, other in combinations(events, 2)
            for node in {one.node, *self._visited(client, one.at, other.at)} - {other.node}
            for span in self.outages.cuts(node, other.node)
            if any(span.start <= began <= other.at for began in self.lives[client])
            or one.node in self._visited(client, other.at, span.end)
        )

    def _visited(self, client: str, start: float, end: float) -> set[int]:
        """The nodes that let it in between the two."""
        own = self.clients.get(client, ())
        return {e.node for e in own if e.kind == "connected" and start <= e.at <= end}

    def outlived(self, client: str, events: Sequence[Event]) -> bool:
        """Was one of these in a session whose node died, slept or was cut off just then with what it knew of
        it, while an older copy was elsewhere?

        That goes on then, and may have got the same. There is one where the session began anew, where a node
        was killed while it moved from there, and where another was away then, or just back: that might still
        send to the place it knew. "Just then" is longer for one that was new: what it had at
        first is told others when it has subscribed; and as long as the other node is not back to be told.
        So is what came to that one, on its way back, just before it died again.
        """
        own = self.clients.get(client, ())
        asked = {e.connection: e.at for e in own if e.kind == "connecting"}
        told = {e.connection: e.at for e in own if e.kind == "connected"}
        for one, other in combinations(events, 2):
            sent, began = self._sent(one, other.node), self._began(client, one.at)
            anew = sum(start <= one.at for start in self.lives[client]) > 1
            left = self._left_behind(client, one)
            copied = anew or bool(left) or self._moved_unmarked(client, one)
            unknown = max(one.at + MOVE_END, began + NEW_SESSION)
            gone = [*self.outages.down[one.node], *self.outages.paused[one.node]]
            for span in [*gone, *self.outages.separate[frozenset((one.node, other.node))]]:
                came = asked.get(other.connection, inf), told.get(other.connection, inf)
                # It may have asked for the session just before its node died.
                if not (sent <= span.start <= came[1] and came[0] <= span.end):
                    continue
                if (copied and span.start <= unknown) or any(span.start <= copy.end for copy in left):
                    return True
                if anew and self.outages.died_again(one, until=span.start):
                    return True
        return False

    def _moved_unmarked(self, client: str, event: Event) -> bool:
        """Was a node down or paused, or just back, when the client came to the one of this event?"""
        came = [e for e in self.clients.get(client, ()) if e.kind == "connected" and e.at <= event.at]
        return bool(came) and any(
            self.outages.impaired(node, came[-1].at) for node in self.outages.nodes if node != event.node
        )

    def _left_behind(self, client: str, event: Event) -> list[Span]:
        """When other nodes were down that went while the client moved away from them, before this."""
        moves = []
        began: Event | None = None
        for own in self.clients.get(client, ()):
            if own.kind == "connecting":
                began = began or own
            elif own.kind == "connected" and began is not None:
                moves.append((began.at, own.at + MOVE_END, own.node))
                began = None
        return [
            span
            for node in self.outages.nodes
            if node != event.node
            for span in self.outages.down[node]
            if any(
                start <= span.start <= end and start <= event.at and where != node
                for start, end, where in moves
            )
        ]

    def _sent(self, event: Event, other: int) -> float:
        """When it was known of this that it was on its way, at the latest.

        What is read while its node is dead was sent before it died. What was published in the last second
        before its node was cut off from the other may have been on its way.
        """
        at = event.at
        for span in self.outages.down[event.node]:
            if span.start <= at <= span.end:
                return span.start
        published = self.messages[event.message].sent[0].at if event.message in self.messages else inf
        for span in self.outages.separate[frozenset((event.node, other))]:
            if span.start - MOVE_END <= published <= span.start <= at <= span.end:
                return span.start
        return at

    def _began(self, client: str, at: float) -> float:
        """When the session of a client began that it had at that time."""
        return max((began for began in self.lives[client] if began <= at), default=-inf)

    def forked(self, client: str, at: float) -> bool:
        """Was it moving when a cut began, before that time, so that both sides may have its session?"""
        asked: Event | None = None
        for event in self.clients.get(client, ()):
            if event.kind == "connecting":
                asked = event
            elif asked is not None and event.kind in ("connected", "refused", "timeout", "closed", "aborted"):
                for pair, spans in self.outages.separate.items():
                    begun = (span.start for span in spans if asked.node in pair)
                    if any(asked.at <= start <= event.at + MOVE_END and start <= at for start in begun):
                        return True
                asked = None
        return False

    def _tell(self, client: str, own: list[Event]) -> None:
        """Go through what one client saw."""
        lives = self.lives[client] = []
        open_: dict[str, Subscription] = {}
        owners: set[int] = set()
        began: dict[tuple[str, int], float] = {}
        revoked: dict[str, float] = {}
        exists = clean = False
        doubt = inf
        asked: Event | None = None
        unanswered: list[Event] = []
        for event in own:
            match event.kind:
                case "connecting":
                    if (
                        asked is not None
                        and exists
                        and self.outages.may_be_new(owners, asked.node, asked.at, event.at)
                    ):
                        doubt = min(doubt, asked.at)
                    if asked is not None:
                        owners.add(asked.node)
                        unanswered.append(asked)
                    asked, clean = event, event.note == "clean"
                case "connected" if asked is not None:
                    known = exists
                    if not event.present or not exists or doubt < inf:
                        lives.append(event.at)
                        why = "" if not exists else "doubt" if event.present else "session not present"
                        for sub in open_.values():
                            sub.end, sub.lost_with = min(doubt, asked.at), why
                        open_.clear()
                    if event.present and not known and not owners:
                        self.presences.append(event)
                    if not event.present and known and not clean:
                        legal = self.outages.may_be_new(owners, event.node, asked.at, event.at)
                        self.absences.append((event, frozenset(owners) if legal else frozenset()))
                    # A node that reads a CONNECT late takes the session for a client that has gone.
                    late = (one.node for one in unanswered if event.at - one.at < LATE_CONNECT)
                    exists, doubt, asked, owners = not clean, inf, None, {event.node, *late}
                case "refused":
                    asked = None
                case "closed" | "aborted" | "goodbye" if clean:
                    for sub in open_.values():
                        sub.end, sub.lost_with = 0.0, "clean"
                    open_.clear()
                case "subscribing":
                    began[event.topic, event.packet_id] = event.at
                case "subscribed" if event.code < 0x80 and event.topic not in open_:
                    # Answered so late that the client has unsubscribed since.
                    if began.get((event.topic, event.packet_id), inf) < revoked.get(event.topic, -inf):
                        continue
                    unseen = (
                        frozenset(self.outages.nodes)
                        if event.note
                        else self.outages.unseen(event.node, event.at)
                    )
                    sub = Subscription(client, event.topic, event.code, event, unseen=unseen)
                    open_[event.topic] = sub
                    self.subscriptions.append(sub)
                case "unsubscribing":
                    revoked[event.topic] = event.at
                    if event.topic in open_:
                        open_.pop(event.topic).end = event.at
                case "sent" if event.qos:
                    message = self.messages.get(event.message)
                    if message is None:
                        message = Message(event.message, event.topic, event.qos)
                        self.messages[event.message] = message
                    message.sent.append(event)
                    message.lives.add(len(lives))
                case "acknowledged" if event.message in self.messages:
                    self.messages[event.message].acknowledged = event
        # What is left of an unanswered CONNECT ends nothing that is judged.

    def _handed_on(self, client: str, own: list[Event]) -> Iterator[Event]:
        """What came, and what was taken for a repetition of what belonged to a session that is gone.

        A client that was not told that its session is new cannot know better.
        """
        came: dict[str, float] = {}
        for event in own:
            if event.kind == "received":
                came[event.message] = event.at
                yield event
            elif event.kind == "repeated" and event.note != event.message:
                before = came.get(event.note)
                if before is not None and self.life(client, before) != self.life(client, event.at):
                    yield event

    def life(self, client: str, at: float) -> int:
        """Which session of the client it was at that time."""
        return bisect_right(self.lives.get(client, []), at)


def matches(topic_filter: str, topic: str) -> bool:
    """MQTT 5.0, 4.7."""
    if topic_filter.startswith("$share/"):
        topic_filter = topic_filter.split("/", 2)[2]
    wanted, given = topic_filter.split("/"), topic.split("/")
    for place, level in enumerate(wanted):
        if level == "#":
            return True
        if place >= len(given) or level not in ("+", given[place]):
            return False
    return len(wanted) == len(given)
