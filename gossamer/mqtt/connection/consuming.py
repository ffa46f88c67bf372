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

from gossamer.errors import GossamerError, UsageError
from gossamer.mqtt.codec.encoder import PACKET_ID, encode, explained
from gossamer.mqtt.codec.errors import MqttProtocolError
from gossamer.mqtt.codec.packets import V5, Puback, Publish, Pubrec, Subscribe, Subscription
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.connection.channel import Channel
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.publish.queue_words import PREFIX, Wanted, settled, wanted
from gossamer.mqtt.publish.queued import QUEUE, properties_of, refusal_of
from gossamer.mqtt.session.session import Session
from gossamer.queues import (
    Assigned,
    LocalConsumer,
    NotConsumingError,
    NotDoneError,
    NotHeldError,
    Outcome,
    Queues,
    TooManyGroupsError,
)

OUTCOMES = {"$ack": Outcome.ACK, "$nack": Outcome.NACK, "$reject": Outcome.REJECT}
_ENDS = tuple(outcome.encode() for outcome in OUTCOMES)
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
        self._acked: dict[LocalConsumer, list[int]] = {}
        """What the client has acknowledged and :meth:`send` settles: of one read all in one step."""
        self._identifiers: dict[LocalConsumer, tuple[int, ...]] = {}

    def join(
        self, item: Subscription, packet: Subscribe, asked: Wanted, done: Callable[[object], object]
    ) -> None:
        """Begin to consume."""
        channel = self._channel
        consumer = LocalConsumer(
            asked.queue,
            asked.group,
            client=channel.client_id,
            limit=max(1, channel.session.receive_maximum),
            start=asked.start,
            give=lambda one: self._give(consumer, one),
        )
        if channel.version != V5 or asked.by_puback:
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
        if (acked := self._acked.pop(consumer, None)) is not None:
            self._settle_until_done(consumer, acked)
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
        """Settle what was acknowledged; send what waits, as far as the client's receive maximum goes."""
        acked, self._acked = self._acked, {}
        for consumer, offsets in acked.items():
            self._settle_until_done(consumer, offsets)
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
            self._queues.settle(consumer, [message.offset], Outcome.REJECT, ignore, reason=parts)
            return
        packet_id = _reserve(session)
        self._flying[packet_id] = consumer, message.offset
        session.push(parts[0] + PACKET_ID[packet_id] + parts[1])
        self._channel.fanout.sent += 1
        self._channel.fanout.sent1 += 1

    # -- settling

    def acked(self, packet_id: int) -> bool:
        """Take a PUBACK, which :meth:`send` settles; False: it is not for a message of a queue."""
        found = self._flying.pop(packet_id, None)
        if found is None:
            return False
        del self._channel.session.inflight[packet_id]
        consumer, offset = found
        if consumer in self._by_puback:
            self._acked.setdefault(consumer, []).append(offset)
        return True

    def _settle_until_done(self, consumer: LocalConsumer, offsets: list[int]) -> None:
        """Settle messages that the client takes for settled, as long as they are the consumer's."""

        def done(result: int | GossamerError) -> None:
            if isinstance(result, NotDoneError) and consumer.name in self._queues.consumers:
                again = partial(self._settle_until_done, consumer, offsets)
                self._channel.runtime.loop.call_later(_RETRY, again)

        self._queues.settle(consumer, offsets, Outcome.ACK, done)

    def settle(
        self,
        queue: str,
        outcome: Outcome,
        user: tuple[tuple[str, str], ...],
        done: Callable[[GossamerError | None], object],
    ) -> None:
        """Settle the messages that a publish names in its ``user`` properties; ``done`` once, with an error
        if one was not."""
        try:
            group, offsets, reason, delay = settled(queue, user)
        except UsageError as error:
            done(error)
            return
        mine = [one for one in self.by_filter.values() if one.queue == queue and group in (None, one.group)]
        if not mine:
            done(NotConsumingError(queue, group))
            return
        # What nobody has is no question for a quorum: a client that settles at random costs its node alone.
        found: dict[LocalConsumer, list[int]] = {}
        for offset in offsets:
            if (consumer := next((one for one in mine if offset in one.held), None)) is not None:
                found.setdefault(consumer, []).append(offset)
        there = sum(map(len, found.values()))
        failed: list[GossamerError] = [NotHeldError(queue)] if there < len(offsets) else []
        left = [len(found)]
        if not found:
            done(failed[0])
            return

        def answered(result: int | GossamerError) -> None:
            left[0] -= 1
            if isinstance(result, GossamerError):
                failed.append(result)
            if not left[0]:
                done(failed[0] if failed else None)

        for consumer, held in found.items():
            self._queues.settle(consumer, held, outcome, answered, reason=reason, delay=delay)


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

        for item in items:
            try:
                asked = wanted(item.filter, packet.properties.user)
            except UsageError as error:
                done(item.filter, error)
            else:
                channel.consumers.join(item, packet, asked, partial(done, item.filter))

    def unsubscribe(self, channel: Channel, topic_filter: str) -> int:
        """Consume no more by a filter; return the reason code."""
        there = channel.consumers is not None and channel.consumers.leave(topic_filter)
        return ReasonCode.SUCCESS if there else ReasonCode.NO_SUBSCRIPTION_EXISTED

    def settle(self, channel: Channel, packet: Publish, topic: bytes) -> bool:
        """Take a publish that settles messages; False: it is none."""
        if not (topic.startswith(QUEUE) and topic.endswith(_ENDS)):
            return False
        queue, _, what = topic.decode(errors="replace").removeprefix(PREFIX).partition("/")
        if what not in OUTCOMES:
            return False
        packet_id = packet.packet_id or 0
        kind = Pubrec if packet.qos == 2 else Puback

        def done(error: GossamerError | None) -> None:
            if not channel.is_up:
                return
            if error is not None and channel.version != V5:
                # It has no word for it but the end; and it names no message, so that it settles by PUBACK.
                channel.refuse(MqttProtocolError(_settle_reason(error), "MQTT-3.3.5-2", str(error)))
                return
            if not packet.qos:
                return
            answer = kind(packet_id) if error is None else kind(packet_id, _settle_reason(error))
            if channel.version == V5:
                channel.session.push(explained(answer, "" if error is None else str(error), channel.asked))
            else:
                channel.session.push(encode(kind(packet_id), channel.version))

        if channel.consumers is None:
            done(NotConsumingError(queue, None))
        else:
            channel.consumers.settle(queue, OUTCOMES[what], packet.properties.user, done)
        return True


def _reserve(session: Session) -> int:
    """Take the next packet identifier of a session for a message that is not its own."""
    packet_id = session.last_id % 65535 + 1
    while packet_id in session.inflight:
        packet_id = packet_id % 65535 + 1
    session.last_id = packet_id
    session.inflight[packet_id] = _IN_FLIGHT
    return packet_id


def _settle_reason(error: GossamerError) -> ReasonCode:
    refused = refusal_of(error)[0]
    mine = isinstance(error, UsageError) and refused is ReasonCode.UNSPECIFIED_ERROR
    return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR if mine else refused


def _reason_of(error: GossamerError) -> tuple[int, str]:
    if isinstance(error, UsageError):
        return ReasonCode.TOPIC_FILTER_INVALID, str(error)
    full = isinstance(error, TooManyGroupsError)
    return ReasonCode.QUOTA_EXCEEDED if full else ReasonCode.UNSPECIFIED_ERROR, str(error)


def ignore(_result: object) -> None:
    """Take a result that nobody wants."""
