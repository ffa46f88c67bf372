"""From what a recorder notes to spans: what happened to one message on one node, put together.

::

    publish                        (its parent: the publisher's span, if it named one)
    ├── acknowledge publisher      until PUBACK, or the last of QoS 2, was sent
    └── route <node>               which filters matched, which nodes it goes to
        ├── forward <node> <peer>
        │   └── receive <peer>     on the peer, from here on noted by that
        │       └── route <peer>
        │           └── deliver <peer> <client>
        ├── deliver <node> <client>
        │   └── acknowledge <client>
        └── drop <node> <client>   an error, with the reason

A span's identifier is a hash of the message's name and of what the line above calls it, so that each node
makes its part alone and they fit.

Rules: 1. No clock and no I/O: rows come with the time at which they were noted, in microseconds.  2. What
belongs to one message is kept until nothing came for :data:`SETTLE`, and then told at once; what comes later
is told as it comes, with the same parents.  3. Everything is bounded: messages that are open, parents that
are remembered, spans of one message. What finds no room is counted.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import gossamer.audit.schema as schema
from gossamer.audit import KINDS, Row
from gossamer.mqtt import ASIDE
from gossamer.tracing.context import Name, Parent, picks, span_id, trace_id

PARENT = -1
"""The kind of a row that is none of a recorder's: whose child a message is."""
SETTLE = 1_000_000
"""Microseconds of silence after which a message is told."""
OPEN = 4_000
"""Messages that are put together at once."""
REMEMBERED = 20_000
"""Messages whose parents are remembered."""

_PUBLISHED: int = KINDS[schema.PUBLISHED]
_ROUTED: int = KINDS[schema.ROUTED]
_FORWARDED: int = KINDS[schema.FORWARDED]
_RECEIVED: int = KINDS[schema.RECEIVED]
_DELIVERED: int = KINDS[schema.DELIVERED]
_ACKNOWLEDGED: int = KINDS[schema.ACKNOWLEDGED]
_DROPPED: int = KINDS[schema.DROPPED]
_RETAINED: int = KINDS[schema.RETAINED]


Attribute = str | bool | int | tuple[str, ...]
Kind = Literal["server", "internal", "producer", "consumer"]


class Span(NamedTuple):
    """One span; times are microseconds of the wall clock."""

    trace: int
    span: int
    parent: int | None
    name: str
    kind: Kind
    start: int
    end: int
    attributes: dict[str, Attribute]
    error: str | None = None
    remote: bool = False
    """Its parent was made elsewhere."""


_Route = tuple[int, Sequence[str], Sequence[str], str | None, str | None]
"""When; filters; nodes; share group; node chosen of it."""


@dataclass(slots=True, eq=False)
class _MessageTrace:
    """Facts of one message on this node."""

    name: Name
    parent: Parent | None
    trace: int
    touched: int = 0
    came: int | None = None
    published: dict[str, Attribute] | None = None
    received: list[tuple[str, int]] = field(default_factory=list)
    routes: list[_Route] = field(default_factory=list)
    forwards: list[tuple[str, int]] = field(default_factory=list)
    deliveries: dict[str, tuple[int, dict[str, Attribute]]] = field(default_factory=dict)
    acks: list[tuple[str, str, int]] = field(default_factory=list)
    drops: list[tuple[str | None, str | None, str, int]] = field(default_factory=list)
    retained: int | None = None
    told: Counter[str] = field(default_factory=Counter)
    omitted: int = 0


class SpanBuilder:
    """``feed`` it rows as ``(kind, wall, *values)``; ``flush`` gives the spans of what is complete."""

    def __init__(self, node: str, *, deliveries: int) -> None:
        self._node = node
        self._most = deliveries
        self._open: OrderedDict[Name, _MessageTrace] = OrderedDict()
        self._parents: OrderedDict[Name, Parent] = OrderedDict()
        self.share = 1.0
        """The share of the recorded messages that is traced; not asked of those with a parent."""
        self.crowded = 0
        """Messages that found no room."""
        self.forgotten = 0
        """Rows about messages whose parents are not known any more."""

    def feed(self, rows: Iterable[Row]) -> None:
        """Take rows in the order in which they were noted."""
        for kind, wall, *values in rows:
            origin, creation, first, count, *rest = values
            if origin is None:
                # No message: a client that was not let in.
                continue
            if kind == PARENT:
                self._remember(Name(origin, creation, first), count)
                continue
            for number in range(first, first + count):
                story = self._story(Name(origin, creation, number))
                if story is not None:
                    story.touched = max(story.touched, wall)
                    self._add(story, kind, wall, count, rest)

    def flush(self, now: int | None = None) -> list[Span]:
        """The spans of messages of which nothing was heard for a while at ``now``; None: of all."""
        spans: list[Span] = []
        for name in [
            name for name, story in self._open.items() if now is None or story.touched + SETTLE <= now
        ]:
            spans += _told(self._open.pop(name), self._node)
        return spans

    def _remember(self, name: Name, parent: Parent) -> None:
        self._parents[name] = parent
        if len(self._parents) > REMEMBERED:
            self._parents.popitem(last=False)

    def _story(self, name: Name) -> _MessageTrace | None:
        story = self._open.get(name)
        if story is not None:
            return story
        parent = self._parents.get(name)
        if parent is not None:
            if not parent.sampled:
                return None
        elif name.number & ASIDE:
            self.forgotten += 1
            return None
        elif not picks(name.number, self.share):
            return None
        if len(self._open) >= OPEN:
            self.crowded += 1
            return None
        story = self._open[name] = _MessageTrace(
            name, parent, trace_id(name) if parent is None else parent.trace
        )
        return story

    def _add(self, story: _MessageTrace, kind: int, wall: int, count: int, rest: list[Any]) -> None:
        if kind == _PUBLISHED:
            topic, qos, retain, size, _, client = rest
            story.came = wall
            story.published = {"messaging.destination.name": topic, "mqtt.qos": qos, "mqtt.retain": retain}
            if client is not None:
                story.published["messaging.client.id"] = client
            if count == 1:
                story.published["messaging.message.body.size"] = size
            else:
                # Neighbours are noted together: their sizes are known as a sum.
                story.published |= {"gossamer.run.messages": count, "gossamer.run.bytes": size}
        elif kind == _RECEIVED:
            story.came = wall
            story.received.append((rest[1], wall))
        elif kind == _ROUTED:
            story.routes.append((wall, *rest[1:]))
            if rest[4] is not None:
                # A share group's message goes there without a row that says so.
                story.forwards.append((rest[4], wall))
        elif kind == _FORWARDED:
            story.forwards.append((rest[0], wall))
        elif kind == _RETAINED:
            story.retained = wall
        elif kind == _DELIVERED:
            self._delivered(story, wall, *rest)
        elif kind == _ACKNOWLEDGED:
            story.told["acknowledged"] += 1
            client, role = rest
            if role == "publisher" or len(story.acks) < self._most:
                story.acks.append((client, role, wall))
            else:
                story.omitted += 1
        elif kind == _DROPPED:
            story.told["dropped"] += 1
            if len(story.drops) < self._most:
                story.drops.append((rest[0], rest[1], rest[2], wall))
            else:
                story.omitted += 1

    def _delivered(
        self,
        story: _MessageTrace,
        wall: int,
        clients: str | tuple[str, ...],
        qos: int,
        retain: bool,
        share: str | None,
        topic_filter: str | None,
        reason: str | None,
    ) -> None:
        names = clients if isinstance(clients, tuple) else (clients,)
        story.told["delivered"] += len(names)
        room = max(0, self._most - len(story.deliveries))
        story.omitted += max(0, len(names) - room)
        facts = _known(
            {"mqtt.qos": qos, "mqtt.retain": retain or None, "mqtt.share": share, "gossamer.reason": reason}
        )
        for name in names[:room]:
            story.deliveries[name] = (wall, facts | {"messaging.client.id": name})


def _told(story: _MessageTrace, node: str) -> Iterator[Span]:
    """The spans of one message on ``node``."""
    name = story.name
    last = max([story.touched if story.came is None else story.came, *(at for at, *_ in story.routes)])
    last = max([last, *(at for _, at in story.forwards)])
    if story.published is not None and story.came is not None:
        acked = max((at for _, role, at in story.acks if role == "publisher"), default=last)
        parent = None if story.parent is None else story.parent.span
        end = max(last, acked)
        span = _span(story, node, "server", parent, story.came, end, story.published, "publish")
        yield span._replace(remote=parent is not None)
    for peer, at in story.received:
        above = span_id(name, "forward", peer, node)
        facts = {"gossamer.peer": peer}
        span = _span(story, node, "consumer", above, at, max(at, last), facts, "receive", node)
        yield span._replace(remote=True)
    if story.routes:
        ours = name.origin == node and not story.received
        above = span_id(name, "publish") if ours else span_id(name, "receive", node)
        begin, end = story.routes[0][0], max(at for at, *_ in story.routes)
        begin = begin if story.came is None else min(begin, story.came)
        yield _span(story, node, "internal", above, begin, end, _where(story), "route", node)
    yield from _went(story, node)


def _went(story: _MessageTrace, node: str) -> Iterator[Span]:
    """To whom, and whether it came there."""
    name = story.name
    route = span_id(name, "route", node)
    routed = story.routes[0][0] if story.routes else None
    for to, at in story.forwards:
        begin = at if routed is None else min(routed, at)
        yield _span(story, node, "producer", route, begin, at, {"gossamer.peer": to}, "forward", node, to)
    for client, (at, facts) in story.deliveries.items():
        begin = at if routed is None or "gossamer.reason" in facts else min(routed, at)
        yield _span(story, node, "producer", route, begin, at, facts, "deliver", node, client)
    for client, role, at in story.acks:
        sent = story.came if role == "publisher" else story.deliveries.get(client, (None,))[0]
        above = ("publish",) if role == "publisher" else ("deliver", node, client)
        begin = at if sent is None else min(sent, at)
        facts = {"messaging.client.id": client, "mqtt.role": role}
        parent = span_id(name, *above)
        yield _span(story, node, "internal", parent, begin, at, facts, "acknowledge", node, role, client)
    for number, (lost, peer, reason, at) in enumerate(story.drops):
        facts = _known({"messaging.client.id": lost, "gossamer.peer": peer, "gossamer.reason": reason})
        which = (lost or "", peer or "", str(number))
        span = _span(story, node, "internal", route, at, at, facts, "drop", node, *which)
        yield span._replace(error=reason)
    if story.retained is not None:
        at = story.retained
        yield _span(story, node, "internal", route, at, at, {}, "retain", node)


def _span(
    story: _MessageTrace,
    node: str,
    kind: Kind,
    parent: int | None,
    begin: int,
    end: int,
    facts: Mapping[str, Attribute],
    *what: str,
) -> Span:
    """One span, named after the first word of ``what`` happened."""
    common: dict[str, Attribute] = {
        "messaging.system": "mqtt",
        "messaging.message.id": str(story.name),
        "gossamer.node": node,
    }
    span = span_id(story.name, *what)
    return Span(story.trace, span, parent, what[0], kind, begin, end, {**common, **facts})


def _where(story: _MessageTrace) -> dict[str, Attribute]:
    """Return what the node decided, and how much became of it."""
    return _known(
        {
            "gossamer.filters": tuple(dict.fromkeys(f for _, found, *_ in story.routes for f in found)),
            "gossamer.nodes": tuple(dict.fromkeys(n for _, _, nodes, *_ in story.routes for n in nodes)),
            "mqtt.shares": tuple(share for *_, share, _ in story.routes if share),
            "gossamer.delivered": story.told["delivered"],
            "gossamer.dropped": story.told["dropped"] or None,
            "gossamer.omitted": story.omitted or None,
        }
    )


def _known(facts: Mapping[str, Attribute | None]) -> dict[str, Attribute]:
    return {key: value for key, value in facts.items() if value is not None and value != ()}
