"""Judges of what a cluster keeps as a whole: retained messages, wills, client ids, groups, routes; pure.

What is legal, and so no violation:

- A retained message may be read older than it was written or read elsewhere, while the two nodes are apart or
  were so since; what is read last of all, by clients named ``…/final…``, has no excuse.
- A write that one node was told of and another was not, when its own was killed, paused or cut off before it
  was acknowledged: until the other has held that node for down for 2.5 s.
- A write that was sent at a node from which the reader's was cut off, and read at one that was told first,
  until 2.5 s after the two have met.
- A write that was sent again elsewhere may take effect a second time when the node that had the first copy of
  it is back; what it overwrites is read older then.
- The will of a client that said goodbye may come where its node was down, paused or cut off in its life or
  just after, since the others may have taken it for dead; twice never.
- Two connections of one client may both be served while their nodes are apart.
- A message for a group may come again where it was sent again, was not acknowledged, or anything was broken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from .checks import Violation
from .history import Event
from .story import Message, Story

TWINS_WITHIN = 2.0
"""Seconds after the CONNACK of one for which another connection of the same client may be served."""
READ_AT_LEAST = 2.5
"""Seconds that a reader waits before it has read nothing."""
EARLY = 0.5
ACK_LATE = 2.0
SWITCH_OFF = 1.0
"""Seconds that a goodbye may take to all nodes."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A version of a retained message that was written or read."""

    version: int
    since: float
    """When the write or read began."""
    at: float
    """When it was known."""
    node: int
    client: str
    what: str


def register(story: Story) -> Iterator[Violation]:
    """No read goes back behind what was acknowledged or read before it began."""
    known: dict[str, list[_Seen]] = defaultdict(list)
    for message in story.messages.values():
        if message.taken and message.acknowledged is not None and message.sent[0].retain:
            ack = message.acknowledged
            seen = _Seen(
                message.number, message.sent[0].at, ack.at, ack.node, message.publisher, "acknowledged"
            )
            known[message.topic].append(seen)
    reads = list(_reads(story))
    for topic, read in reads:
        if read.version:
            known[topic].append(read)
    for topic, read in reads:
        final = "/final" in read.client
        before = [
            seen
            for seen in known[topic]
            if seen.at < read.since
            and seen.version > read.version
            and (final or not _behind(story, topic, seen, read))
        ]
        newest = max(before, key=lambda seen: seen.version, default=None)
        if newest is not None and not _late(story, topic, read):
            yield Violation(
                "went back",
                f"{topic}: version {newest.version} {newest.what} at node {newest.node} at {newest.at:.2f}s "
                f"({newest.client}), then {read.version or 'nothing'} read at node {read.node}, "
                f"{read.since:.2f} to {read.at:.2f}s by {read.client}",
                read.at,
            )


def _behind(story: Story, topic: str, seen: _Seen, read: _Seen) -> bool:
    """May one node not have what was seen at another: apart, or not told by a third that went?"""
    if story.outages.apart(seen.node, read.node, seen.since, read.at):
        return True
    message = _message(story, topic, seen)
    if message is None or seen.what != "read" or seen.node == read.node:
        return False
    done = inf if message.acknowledged is None else message.acknowledged.at
    return any(
        story.outages.told_some(sent.node, read.node, sent.at, done, read.since, read.at)
        or story.outages.sent_apart(sent.node, read.node, sent.at, read.since, read.at)
        for sent in message.sent
        if sent.node != read.node
    )


def _message(story: Story, topic: str, seen: _Seen) -> Message | None:
    messages = story.messages.values()
    return next((m for m in messages if m.topic == topic and m.number == seen.version), None)


def _late(story: Story, topic: str, read: _Seen) -> bool:
    """May a copy of the message have lain in front of a node that was not running or not reached?"""
    message = _message(story, topic, read)
    return message is not None and any(
        _broken(story, sent.node, sent.at, read.at)
        for sent in message.sent
        if message.acknowledged is None or sent.connection != message.acknowledged.connection
    )


def _reads(story: Story) -> Iterator[tuple[str, _Seen]]:
    for client, events in story.clients.items():
        asked: dict[str, Event] = {}
        granted: dict[str, Event] = {}
        for event in events:
            match event.kind:
                case "subscribing":
                    asked[event.topic] = event
                case "subscribed" if event.code < 0x80 and event.topic in asked:
                    granted[event.topic] = event
                case "received" if event.retain and event.topic in asked:
                    began = asked.pop(event.topic)
                    version = int(event.message.rpartition(":")[2])
                    yield event.topic, _Seen(version, began.at, event.at, event.node, client, "read")
                case "goodbye" | "aborted" | "closed":
                    for topic, begun in asked.items():
                        if topic in granted and event.at - granted[topic].at > READ_AT_LEAST:
                            yield topic, _Seen(0, begun.at, event.at, begun.node, client, "read")
                    asked.clear()
                    granted.clear()


def wills(story: Story) -> Iterator[Violation]:
    """A will comes once where its connection ended without DISCONNECT, else never; not before its delay."""
    watchers = {
        s.client: s for s in story.subscriptions if s.lost_with == "" and len(story.lives[s.client]) == 1
    }
    came: dict[str, dict[str, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for watcher in watchers:
        for event in story.received[watcher]:
            came[event.message][watcher].append(event)
    for client, events in story.clients.items():
        for event in events:
            if event.kind == "will":
                yield from _will(story, client, event, came[event.message], set(watchers))


def _will(
    story: Story, client: str, will: Event, came: dict[str, list[Event]], watchers: set[str]
) -> Iterator[Violation]:
    own = [e for e in story.clients[client] if e.connection == will.connection]
    least, most, end = _fate(story, client, will, own)
    told = f"will of {client} (node {will.node}, delay {will.code} s), {_course(own)}"
    for watcher in sorted(watchers):
        got = came.get(watcher, [])
        times = ", ".join(f"{e.at:.2f}s node {e.node}" for e in got) or "never"
        if len(got) > 1:
            yield Violation("will twice", f"{told}; came to {watcher}: {times}", got[1].at)
        elif len(got) > most:
            yield Violation("will for nothing", f"{told}; came: {times}", got[0].at)
        elif len(got) < least:
            yield Violation("will never came", f"{told}; not to {watcher}", end)
        early = bool(got) and got[0].at < end + will.code - EARLY
        if early and least and not _broken(story, will.node, will.at, end + will.code):
            yield Violation("will too early", f"{told}; came: {times}", got[0].at)


def _fate(story: Story, client: str, will: Event, own: list[Event]) -> tuple[int, int, float]:
    """How often the will of a connection comes at least and at most, and when the connection ended."""
    connected = next((e for e in own if e.kind == "connected"), None)
    over = next((e for e in own if e.kind in ("goodbye", "aborted", "closed")), None)
    if connected is None or over is None:
        return 0, 1 if over is not None or connected is None else 0, story.end
    said_goodbye = any(e.kind == "goodbye" for e in own)
    broken = _broken(story, will.node, connected.at, over.at + SWITCH_OFF)
    if said_goodbye:
        return 0, int(broken), over.at
    if over.note or (over.kind == "closed" and over.code):
        # DISCONNECT may have been read or not; or the server said why, and whether that is an end without
        # DISCONNECT is not for us to say.
        return 0, 1, over.at
    later = [e for e in story.clients[client] if e.connection > will.connection]
    asked = next((e for e in later if e.kind == "connecting"), None)
    if will.code and asked is not None and asked.at < over.at + will.code + 2 * EARLY:
        # A CONNECT that is answered late, or not, may have been taken in time.
        in_time = any(e.kind == "connected" and e.at < over.at + will.code - EARLY for e in later)
        return 0, 0 if in_time and not broken else 1, over.at
    return 1, 1, over.at


def _broken(story: Story, node: int, start: float, end: float) -> bool:
    """May the other nodes have taken this one for dead?"""
    others = [other for other in story.outages.nodes if other != node]
    return story.outages.impaired(node, start, end) or any(
        story.outages.apart(node, other, start, end) for other in others
    )


def _course(own: list[Event]) -> str:
    shown = [e for e in own if e.kind in ("connected", "goodbye", "aborted", "closed")]
    return ", ".join(f"{e.kind} {e.at:.2f}s" for e in shown) or "never connected"


def one_of_twins(story: Story) -> Iterator[Violation]:
    """Of two connections of one client, named ``ID.…``, the later one is served and the earlier one ends."""
    by_id: dict[str, dict[tuple[str, int], list[Event]]] = defaultdict(lambda: defaultdict(list))
    for client, events in story.clients.items():
        for event in events:
            by_id[client.rpartition(".")[0]][client, event.connection].append(event)
    for connections in by_id.values():
        let_in = sorted(
            (e for own in connections.values() for e in own if e.kind == "connected"), key=lambda e: e.at
        )
        for earlier, later in pairwise(let_in):
            old = connections[earlier.client, earlier.connection]
            new = connections[later.client, later.connection]
            yield from _both(story, earlier, later, old, new)


def _both(
    story: Story, earlier: Event, later: Event, old: list[Event], new: list[Event]
) -> Iterator[Violation]:
    served = [e.at for e in old if e.kind == "served" and e.at > later.at]
    ended = next((e for e in new if e.kind in ("closed", "aborted", "goodbye")), None)
    until = ended.at if ended is not None else story.end
    both = [at for at in served if at < until]
    if not served or story.outages.apart(earlier.node, later.node, earlier.at, served[-1]):
        return
    told = f"{earlier.client} at node {earlier.node} and {later.client} at node {later.node}"
    if ended is not None and ended.kind == "closed" and served[-1] > ended.at + EARLY:
        yield Violation(
            "the earlier one stayed",
            f"{told}, let in at {later.at:.2f}s: the later one was closed at {ended.at:.2f}s with "
            f"0x{ended.code:02X}, the earlier one served until {served[-1]:.2f}s",
            ended.at,
        )
    elif both and both[-1] - later.at > TWINS_WITHIN:
        yield Violation(
            "two at once", f"{told}: both served from {later.at:.2f} to {both[-1]:.2f}s", later.at
        )


def shared(story: Story) -> Iterator[Violation]:
    """A message for a group comes to a member that takes it, and in quiet times to one alone."""
    members = [s for s in story.subscriptions if s.topic_filter.startswith("$share/")]
    yield from _each_to_one(story, max((s.granted.at for s in members[:1]), default=0.0))


def worked(story: Story) -> Iterator[Violation]:
    """A message that a queue has taken is done by a consumer, and in quiet times by one alone."""
    yield from _each_to_one(story, 0.0)


def _each_to_one(story: Story, began: float) -> Iterator[Violation]:
    got: dict[str, list[Event]] = defaultdict(list)
    for events in story.received.values():
        for event in events:
            got[event.message].append(event)
    for message in story.messages.values():
        if not message.taken or message.acknowledged is None or message.sent[0].at < began:
            continue
        came = sorted(got[message.name], key=lambda e: e.at)
        taken = [e for e in came if e.note != "unacknowledged"]
        ack = message.acknowledged
        sends = ", ".join(f"node {e.node} {e.at:.2f}s" for e in message.sent)
        told = f"{message.name} sent at {sends}, acknowledged by node {ack.node} {ack.at:.2f}s"
        if not taken:
            to = ", ".join(f"{e.client} {e.at:.2f}s unacknowledged" for e in came) or "nobody"
            yield Violation("given to nobody", f"{told}; came to {to}", ack.at)
        elif len(taken) > 1 and len(message.sent) == 1:
            first, second = taken[:2]
            if not story.outages.disturbed(first.at, second.at) and not _left(story, first):
                to = ", ".join(f"{e.client} {e.at:.2f}s" for e in taken)
                yield Violation("given twice", f"{told}; came to {to}", second.at)


def _left(story: Story, event: Event) -> bool:
    """Did the connection end just after, so that its acknowledgement may not have been read?"""
    return any(
        e.connection == event.connection
        and e.kind in ("closed", "aborted", "goodbye")
        and 0 <= e.at - event.at < 1
        for e in story.clients[event.client]
    )


def routed(story: Story) -> Iterator[Violation]:
    """What is published once all is quiet comes to nobody who does not subscribe to it."""
    by_client = defaultdict(list)
    for sub in story.subscriptions:
        by_client[sub.client].append(sub)
    for client, events in story.received.items():
        for event in events:
            message = story.messages.get(event.message)
            if message is None or message.sent[0].at < story.settling:
                continue
            sent = message.sent[0]
            # A message may overtake the SUBACK of the subscription that asks for it.
            if not any(
                s.topic_filter == event.topic and s.granted.at < event.at + ACK_LATE and s.end > sent.at
                for s in by_client[client]
            ):
                yield Violation(
                    "routed to a stranger",
                    f"{message.name} ({event.topic}), sent at node {sent.node} {sent.at:.2f}s, came to "
                    f"{client} at node {event.node} {event.at:.2f}s, which does not subscribe to it",
                    event.at,
                )
