"""Consumers of queues: what SUBSCRIBE to ``$queue/NAME/#`` brings, and how messages are settled.

::

    $queue/NAME/#                 subscribe; the consumer group is a user property, or ``default``
    $queue/NAME/$group/GROUP      the same with the group in the filter, for clients of 3.1.1
    $queue/NAME/$ack              publish: done; $nack: later; $reject: never

Rules: 1. A message is sent with QoS 1. Clients of 3.1.1 settle it by PUBACK, and so do those of 5.0 that say
``settle: puback``; others by a publish that names it: ``message-id`` is ``NAME:OFFSET``, ``group-id`` the
group.  2. A consumer lives as long as its connection: what it has not settled then goes to others at once,
and a client that comes back subscribes again.  3. A message in flight takes a place in the client's receive
maximum, but it is the queue's, not the session's: it is on no disc, and moves nowhere, with the session.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from msgspec.structs import replace

from gossamer.errors import GossamerError
from gossamer.mqtt.codec.encoder import PACKET_ID, encode, explained
from gossamer.mqtt.codec.packets import V5, Puback, Publish, Pubrec, Subscribe, Subscription
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.connection.channel import Channel
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.publish.queued import QUEUE, properties_of, refusal_of
from gossamer.mqtt.session.session import Session
from gossamer.queues import (
    Assigned,
    BadStartError,
    LocalConsumer,
    NotDoneError,
    NotHeldError,
    Outcome,
    Queues,
    TooManyGroupsError,
    UnknownQueueError,
)

PREFIX = QUEUE.decode()
OUTCOMES = {"$ack": Outcome.ACK, "$nack": Outcome.NACK, "$reject": Outcome.REJECT}
BAD_FILTER = "expected $queue/NAME/# or $queue/NAME/$group/GROUP, with a group of 1 to 64 characters"
LONGEST_GROUP = 64
_RETRY = 1.0
_IN_FLIGHT = b"\xf2"
"""In place of a packet in flight: nothing that a client acknowledges in the read loop."""

Reasons = Mapping[str, tuple[int, str]]
"""Reason code of each filter, and why."""


class ChannelConsumers:
    """Consumers of one connection, and the messages that are in flight to it."""

    def __init__(self, channel: Channel, queues: Queues) -> None:
        self._channel = channel
        self._queues = queues
        self.by_filter: dict[str, LocalConsumer] = {}
        self._flying: dict[int, tuple[LocalConsumer, int]] = {}
        """Consumer and offset by packet identifier."""
        self._waiting: deque[tuple[LocalConsumer, Assigned]] = deque()
        """What has no room in the client's receive maximum: no more than the consumers' limits."""
        self._by_puback: set[LocalConsumer] = set()
        self._identifiers: dict[LocalConsumer, tuple[int, ...]] = {}

    def join(
        self, item: Subscription, packet: Subscribe, queue: str, group: str, done: Callable[[object], object]
    ) -> None:
        """Begin to consume."""
        channel, user = self._channel, dict(packet.properties.user)
        consumer = LocalConsumer(
            queue,
            group,
            client=channel.client_id,
            limit=max(1, channel.session.receive_maximum),
            start=user.get("offset", ""),
            give=lambda one: self._give(consumer, one),
        )
        if channel.version != V5 or user.get("settle") == "puback":
            self._by_puback.add(consumer)
        self._identifiers[consumer] = packet.properties.subscription_identifiers[:1]
        self.leave(item.filter)
        self.by_filter[item.filter] = consumer

        def joined(result: int | GossamerError) -> None:
            if isinstance(result, GossamerError) and self.by_filter.get(item.filter) is consumer:
                del self.by_filter[item.filter]
            done(result)

        self._queues.join(consumer, joined)

    def leave(self, topic_filter: str) -> bool:
        """Consume no more by a filter; False: there was no consumer."""
        consumer = self.by_filter.pop(topic_filter, None)
        if consumer is None:
            return False
        self._queues.leave(consumer)
        self._by_puback.discard(consumer)
        self._identifiers.pop(consumer, None)
        self._waiting = deque(one for one in self._waiting if one[0] is not consumer)
        return True

    def close(self) -> None:
        """The connection ends: nothing of this stays in its session."""
        for topic_filter in list(self.by_filter):
            self.leave(topic_filter)
        for packet_id in self._flying:
            self._channel.session.inflight.pop(packet_id, None)
        self._flying.clear()

    # -- messages

    def _give(self, consumer: LocalConsumer, given: Assigned) -> None:
        self._waiting.append((consumer, given))
        self.send()

    def send(self) -> None:
        """Send what waits, as far as the client's receive maximum goes."""
        session = self._channel.session
        while self._waiting and len(session.inflight) < session.window:
            self._send(*self._waiting.popleft())

    def _send(self, consumer: LocalConsumer, given: Assigned) -> None:
        session, message = self._channel.session, given.message
        if given.consumer != consumer.name or message.offset not in consumer.held:
            return
        properties = properties_of(message.properties)
        notes = [
            ("message-id", f"{given.queue}:{message.offset}"),
            ("queue", given.queue),
            ("group-id", given.group),
            ("offset", str(message.offset)),
            ("attempt", str(given.attempt)),
            *([("dead-letter", message.note)] if message.note else []),
        ]
        out = Message(
            f"{PREFIX}{given.queue}/{message.key}".encode(),
            message.payload,
            qos=1,
            properties=replace(properties, user=(*properties.user, *notes), message_expiry=None),
        )
        parts = session.encoded(
            out,
            1,
            retain=False,
            identifiers=self._identifiers.get(consumer, ()),
            now=self._channel.fanout.now,
        )
        if isinstance(parts, str):
            # It is too large for this client, whoever else may take it.
            self._queues.settle(consumer, message.offset, Outcome.REJECT, ignore, reason=parts)
            return
        packet_id = _reserve(session)
        self._flying[packet_id] = consumer, message.offset
        session.push(parts[0] + PACKET_ID[packet_id] + parts[1])
        self._channel.fanout.sent += 1
        self._channel.fanout.sent1 += 1

    # -- settling

    def acked(self, packet_id: int) -> bool:
        """Take a PUBACK; False: it is not for a message of a queue."""
        found = self._flying.pop(packet_id, None)
        if found is None:
            return False
        del self._channel.session.inflight[packet_id]
        consumer, offset = found
        if consumer in self._by_puback:
            self._settle_until_done(consumer, offset)
        self.send()
        return True

    def _settle_until_done(self, consumer: LocalConsumer, offset: int) -> None:
        """Settle a message that the client takes for settled, as long as it is the consumer's."""

        def done(result: int | GossamerError) -> None:
            if isinstance(result, NotDoneError) and consumer.name in self._queues.consumers:
                again = partial(self._settle_until_done, consumer, offset)
                self._channel.runtime.loop.call_later(_RETRY, again)

        self._queues.settle(consumer, offset, Outcome.ACK, done)

    def settle(
        self,
        queue: str,
        outcome: Outcome,
        user: tuple[tuple[str, str], ...],
        done: Callable[[GossamerError | None], object],
    ) -> None:
        """Settle the messages that a publish names in its ``user`` properties; ``done`` once, with an error
        if one was not."""
        group = dict(user).get("group-id")
        mine = [one for one in self.by_filter.values() if one.queue == queue and group in (None, one.group)]
        offsets = [_offset_in(value, queue) for name, value in user if name == "message-id"]
        if not mine or not offsets or None in offsets:
            done(NotHeldError(queue))
            return
        left, failed = [len(offsets)], list[GossamerError]()

        def settled(result: int | GossamerError) -> None:
            left[0] -= 1
            if isinstance(result, GossamerError):
                failed.append(result)
            if not left[0]:
                done(failed[0] if failed else None)

        reason, delay = dict(user).get("reason", ""), _seconds(dict(user).get("delay", ""))
        for offset in offsets:
            self._queues.settle(mine[0], offset or 0, outcome, settled, reason=reason, delay=delay)


class Consuming:
    """Handler of SUBSCRIBE, UNSUBSCRIBE and settling publishes, where they are about queues."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues

    def subscribe(
        self,
        channel: Channel,
        packet: Subscribe,
        items: list[Subscription],
        then: Callable[[Reasons], object],
    ) -> None:
        """Join the queues of ``items``; ``then`` once with what came of each."""
        if channel.consumers is None:
            channel.consumers = ChannelConsumers(channel, self._queues)
        reasons: dict[str, tuple[int, str]] = {}

        def done(topic_filter: str, result: object) -> None:
            reasons[topic_filter] = _reason_of(result) if isinstance(result, GossamerError) else (1, "")
            if len(reasons) == len({item.filter for item in items}):
                then(reasons)

        user = dict(packet.properties.user)
        for item in items:
            queue, group = queue_and_group(item.filter) or ("", "")
            group = user.get("consumer-group", group or "default")
            if not queue or not 0 < len(group) <= LONGEST_GROUP:
                done(item.filter, BadFilterError(item.filter))
            else:
                channel.consumers.join(item, packet, queue, group, partial(done, item.filter))

    def unsubscribe(self, channel: Channel, topic_filter: str) -> int:
        """Consume no more by a filter; return the reason code."""
        there = channel.consumers is not None and channel.consumers.leave(topic_filter)
        return ReasonCode.SUCCESS if there else ReasonCode.NO_SUBSCRIPTION_EXISTED

    def settle(self, channel: Channel, packet: Publish, topic: bytes) -> bool:
        """Take a publish that settles messages; False: it is none."""
        if not topic.startswith(QUEUE):
            return False
        queue, _, what = topic.decode(errors="replace").removeprefix(PREFIX).partition("/")
        if what not in OUTCOMES:
            return False
        packet_id = packet.packet_id or 0
        kind = Pubrec if packet.qos == 2 else Puback

        def done(error: GossamerError | None) -> None:
            if not channel.is_up or not packet.qos:
                return
            answer = kind(packet_id) if error is None else kind(packet_id, _settle_reason(error))
            if channel.version == V5:
                channel.session.push(explained(answer, "" if error is None else str(error), channel.asked))
            else:
                channel.session.push(encode(kind(packet_id), channel.version))

        if channel.consumers is None:
            done(NotHeldError(queue))
        else:
            channel.consumers.settle(queue, OUTCOMES[what], packet.properties.user, done)
        return True


class BadFilterError(BadStartError):
    """A filter of a queue that is none."""

    def __init__(self, topic_filter: str) -> None:
        GossamerError.__init__(self, f"{topic_filter[:100]!r}: {BAD_FILTER}")


def _reserve(session: Session) -> int:
    """Take the next packet identifier of a session for a message that is not its own."""
    packet_id = session.last_id % 65535 + 1
    while packet_id in session.inflight:
        packet_id = packet_id % 65535 + 1
    session.last_id = packet_id
    session.inflight[packet_id] = _IN_FLIGHT
    return packet_id


def queue_and_group(topic_filter: str) -> tuple[str, str] | None:
    """Return the queue and the consumer group of a filter, the group blank where it has none; None: it is no
    filter of a queue."""
    match topic_filter.split("/"):
        case ["$queue", name, "#"] if name and "+" not in name:
            return name, ""
        case ["$queue", name, "$group", group] if name and group and not {"+", "#"} & {*name, *group}:
            return name, group
    return None


def _offset_in(message_id: str, queue: str) -> int | None:
    name, _, number = message_id.rpartition(":")
    return (
        int(number)
        if name == queue and number.isascii() and number.isdecimal() and len(number) < 19
        else None
    )


def _seconds(text: str) -> float | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _settle_reason(error: GossamerError) -> int:
    refused = refusal_of(error)[0]
    return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR if isinstance(error, NotHeldError) else refused


def _reason_of(error: GossamerError) -> tuple[int, str]:
    if isinstance(error, UnknownQueueError | BadStartError):
        return ReasonCode.TOPIC_FILTER_INVALID, str(error)
    full = isinstance(error, TooManyGroupsError)
    return ReasonCode.QUOTA_EXCEEDED if full else ReasonCode.UNSPECIFIED_ERROR, str(error)


def ignore(_result: object) -> None:
    """Take a result that nobody wants."""
