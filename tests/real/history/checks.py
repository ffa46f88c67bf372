"""Judges of sessions and their messages; pure: a story in, what broke a promise out.

What is legal, and so no violation:

- A message that no server acknowledged may come or not; one of QoS 1 may come again.
- QoS 2 is once within one session of the subscriber, and for sends within one session of the publisher. Where
  a cut hit a move of either, or one began its session anew behind it, both sides have its session
  (docs/design/guarantees.md).
- A session may be gone where its node is down, paused or cut off, unless ``strict`` is asked for; what was
  acknowledged for it before has to come all the same.
- A SUBACK that says that nodes are not told, or is given while a node is not seen as a member, promises
  nothing of what is published there before all nodes see each other again.
- First deliveries are in order for what was sent within one session of the subscriber. What a node that was
  away had queued comes behind newer messages that the session got elsewhere (docs/design/guarantees.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .history import Event
from .story import Message, Story, Subscription, matches

ANSWER_WITHIN = 15.0
LET_IN_WITHIN = 10.0
UNSPECIFIED_ERROR = 0x80


@dataclass(frozen=True, slots=True)
class Violation:
    promise: str
    says: str
    at: float = 0.0

    def __str__(self) -> str:
        return f"{self.promise}: {self.says}"


Check = Callable[[Story], Iterator[Violation]]


def delivered(story: Story) -> Iterator[Violation]:
    """What was acknowledged after SUBACK comes to every persistent session that asked for it."""
    seen = {(e.client, e.message) for events in story.received.values() for e in events}
    for sub in story.subscriptions:
        if sub.topic_filter.startswith("$share/") or min(sub.qos, 1) == 0:
            continue
        for message in story.messages.values():
            if (
                matches(sub.topic_filter, message.topic)
                and (sub.client, message.name) not in seen
                and _promised(story, sub, message)
            ):
                yield Violation("lost", _lost(story, sub, message), _sent(message))


def _promised(story: Story, sub: Subscription, message: Message) -> bool:
    if not message.taken or message.acknowledged is None:
        return False
    first, last = message.sent[0], message.acknowledged
    if not (first.at > sub.granted.at and last.at < sub.end):
        return False
    nodes = {last.node, *(e.node for e in message.sent)}
    return not (nodes & sub.unseen) or first.at > story.outages.whole_after(sub.granted.at)


def _lost(story: Story, sub: Subscription, message: Message) -> str:
    assert message.acknowledged is not None
    sends = ", ".join(f"node {e.node} {e.at:.2f}s{' DUP' if e.dup else ''}" for e in message.sent)
    ended = f", that session ended {sub.end:.2f}s ({sub.lost_with})" if sub.lost_with else ""
    return (
        f"{message.name} (QoS {message.qos}, {message.topic}) sent at {sends}, acknowledged by node "
        f"{message.acknowledged.node} at {message.acknowledged.at:.2f}s, never came to {sub.client} "
        f"(SUBACK node {sub.granted.node} {sub.granted.at:.2f}s{ended}; {_where(story, sub.client, message)})"
    )


def _where(story: Story, client: str, message: Message) -> str:
    """Where the subscriber was while the message was on its way."""
    assert message.acknowledged is not None
    place = "nowhere"
    for event in story.clients[client]:
        if event.at > message.acknowledged.at:
            if event.kind == "connected":
                return f"then {place}, next at node {event.node} {event.at:.2f}s present {event.present:d}"
        elif event.kind == "connected":
            place = f"connected to node {event.node} since {event.at:.2f}s"
        elif event.kind in ("closed", "aborted", "goodbye", "connecting"):
            place = f"{event.kind} at node {event.node} {event.at:.2f}s"
    return f"then {place}, and so to the end"


def _sent(message: Message) -> float:
    return message.sent[0].at


def once(story: Story) -> Iterator[Violation]:
    """QoS 2 comes once in one session."""
    for client, events in story.received.items():
        times: dict[tuple[str, int], list[Event]] = defaultdict(list)
        for event in events:
            if event.qos == 2 and event.message:
                times[event.message, story.life(client, event.at)].append(event)
        for (name, _), got in times.items():
            message = story.messages.get(name)
            if len(got) > 1 and (message is None or len(message.lives) < 2):
                publisher = message.publisher if message is not None else client
                if any(story.forked(either, got[1].at) for either in (client, publisher)):
                    continue
                if story.parted(client, got) or (message and story.parted(publisher, message.sent)):
                    continue
                if story.outlived(client, got):
                    continue
                came = ", ".join(f"{e.at:.2f}s node {e.node} #{e.packet_id}" for e in got)
                sends = ", ".join(f"{e.at:.2f}s node {e.node}" for e in message.sent) if message else "a will"
                yield Violation(
                    "twice",
                    f"{name} (QoS 2, {got[0].topic}) came {len(got)} times to {client}: {came}; sent {sends}",
                    got[1].at,
                )


def ordered(story: Story) -> Iterator[Violation]:
    """Of one publisher and topic, what is new comes in the order in which it was sent."""
    for client, events in story.received.items():
        last: dict[tuple[str, int, int], tuple[int, Event]] = {}
        seen: set[str] = set()
        for event in events:
            message = story.messages.get(event.message)
            if event.message in seen or message is None or not message.taken or event.retain:
                continue
            seen.add(event.message)
            life = story.life(client, event.at)
            if story.life(client, message.sent[0].at) != life:
                continue
            key = (message.topic, message.qos, life)
            number, before = last.get(key, (0, event))
            if message.number > number:
                last[key] = (message.number, event)
                continue
            if story.outages.disturbed(message.sent[0].at, event.at):
                continue
            newer = story.messages[before.message]
            moved = message.sent[0].connection != newer.sent[0].connection
            yield Violation(
                "order" if not moved else "order, publisher moved",
                f"{message.name} came to {client} at {event.at:.2f}s by node {event.node}, after "
                f"{newer.name} at {before.at:.2f}s by node {before.node}; sent {_sent(message):.2f}s at node "
                f"{message.sent[0].node} and {newer.sent[0].at:.2f}s at node {newer.sent[0].node}",
                event.at,
            )


def not_invented(story: Story) -> Iterator[Violation]:
    """Nothing comes that nobody sent."""
    said = {(e.message, e.topic) for e in story.events if e.kind in ("sent", "will")}
    for client, events in story.received.items():
        for event in events:
            if event.message and (event.message, event.topic) not in said:
                yield Violation(
                    "invented",
                    f"{event.message!r} came to {client} on {event.topic} at {event.at:.2f}s, never sent",
                    event.at,
                )


def present(story: Story, *, strict: bool = False) -> Iterator[Violation]:
    """A session that exists is present; one that does not, is not."""
    for event, legal in story.absences:
        if strict or not legal:
            yield Violation(
                "session not present",
                f"{event.client} at node {event.node}, {event.at:.2f}s: session present 0, though it had one"
                + (f" (at node {', '.join(map(str, sorted(legal)))}, impaired)" if legal else ""),
                event.at,
            )
    for event in story.presences:
        yield Violation(
            "session out of nothing",
            f"{event.client} at node {event.node}, {event.at:.2f}s: session present 1 at its first CONNECT",
            event.at,
        )


def answered(story: Story) -> Iterator[Violation]:
    """Once the cluster is whole and quiet, everybody is let in and every publish is acknowledged."""
    for client, events in story.clients.items():
        ends = [e for e in events if e.kind in ("connected", "closed", "aborted", "connecting")]
        pending = [
            m
            for m in story.messages.values()
            if m.publisher == client and m.acknowledged is None and not _abandoned(events, m.name)
        ]
        if pending and ends and ends[-1].kind == "connected" and story.end - ends[-1].at > ANSWER_WITHIN:
            yield Violation(
                "not acknowledged",
                f"{len(pending)} messages of {client}, from {pending[0].name} on, connected to node "
                f"{ends[-1].node} since {ends[-1].at:.2f}s",
                ends[-1].at,
            )
        for event in events:
            if event.kind == "timeout" and event.at - LET_IN_WITHIN > story.settling:
                yield Violation(
                    "no answer",
                    f"{client} at node {event.node}, {event.at:.2f}s: nothing came upon {event.note}",
                    event.at,
                )


def _abandoned(events: list[Event], name: str) -> bool:
    return any(e.kind == "abandoned" and e.message == name for e in events)


def sound(story: Story) -> Iterator[Violation]:
    """No connection is ended by a mistake of the server's own: DISCONNECT with 0x80, unspecified error."""
    for client, events in story.clients.items():
        for event in events:
            if event.kind == "closed" and event.code == UNSPECIFIED_ERROR:
                yield Violation(
                    "server error",
                    f"{client} at node {event.node}, {event.at:.2f}s: closed with 0x80",
                    event.at,
                )


def became_whole(story: Story) -> Iterator[Violation]:
    """After the last fault all nodes are one cluster again."""
    for event in story.events:
        if event.kind == "not whole":
            yield Violation("not whole", f"the cluster was not whole {event.note}", at=event.at)
