"""What a Python client has of queues: requests, and consumers that live as long as its attachment.

Rules: 1. A consumer belongs to its attachment, and what it has goes to others when that ends: the client
consumes again at the next node.  2. A message is settled by offset and attempt: what was given again
meanwhile is not settled for another one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gossamer.errors import GossamerError
from gossamer.gateway.messages import (
    QueueConsume,
    QueueGiven,
    QueuePublish,
    QueueRefused,
    QueueSettle,
    Refused,
)
from gossamer.mqtt import Properties, data_of, properties_of
from gossamer.queues import Assigned, LocalConsumer, NotDoneError, Outcome, Queues, Why, why_of
from gossamer.supervisor import Pid, Runtime

MAX_CONSUMERS = 1000
LONGEST_GROUP = 64

Answer = Callable[[object], object]


class RemoteConsumers:
    """Requests and consumers of one client; ``queues`` None: the node has none."""

    def __init__(self, queues: Queues | None, client: Pid, source: Pid, runtime: Runtime) -> None:
        self._queues = queues
        self._client = client
        self._source = source
        self._runtime = runtime
        self._consumers: dict[int, LocalConsumer] = {}

    def ask(self, wanted: QueuePublish | QueueConsume | QueueSettle, answer: Answer) -> None:
        """Do what is asked; ``answer`` is called once, now or later."""
        queues = self._queues
        if queues is None:
            answer(Refused("this node has no queues"))
            return
        match wanted:
            case QueuePublish(queue, key, payload, user, expiry):
                properties = Properties(user=tuple((name, value) for name, value in user))
                data = data_of(properties) if user else b""
                done = partial(_answer, queue, answer)
                queues.append(queue, payload, done, key=key, properties=data, expiry=expiry)
            case QueueConsume():
                self._consume(queues, wanted, answer)
            case QueueSettle():
                self._settle(queues, wanted, answer)

    def close(self, number: int | None = None) -> None:
        """End a consumer, or all of them."""
        for one in list(self._consumers) if number is None else [number]:
            consumer = self._consumers.pop(one, None)
            if consumer is not None and self._queues is not None:
                self._queues.leave(consumer)

    def _consume(self, queues: Queues, wanted: QueueConsume, answer: Answer) -> None:
        if len(self._consumers) >= MAX_CONSUMERS:
            answer(Refused(f"one client may have {MAX_CONSUMERS} consumers"))
            return
        if not 0 < len(wanted.group) <= LONGEST_GROUP:
            answer(Refused(f"expected a consumer group of 1 to {LONGEST_GROUP} characters"))
            return
        # The one before it, if its answer came too late for the client.
        self.close(wanted.number)

        def give(one: Assigned) -> None:
            message = one.message
            user = [list(pair) for pair in properties_of(message.properties).user]
            told = (message.offset, one.attempt, message.key, message.payload, user, message.note)
            self._runtime.send(self._client, QueueGiven(self._source, wanted.number, *told))

        consumer = self._consumers[wanted.number] = LocalConsumer(
            wanted.queue,
            wanted.group,
            client=self._client.node,
            limit=max(1, wanted.in_flight),
            start=wanted.offset,
            give=give,
        )

        def joined(result: int | GossamerError) -> None:
            mine = self._consumers.get(wanted.number) is consumer
            if isinstance(result, GossamerError) and mine:
                del self._consumers[wanted.number]
            _answer(wanted.queue, answer, True if result == 0 else result)

        queues.join(consumer, joined)

    def _settle(self, queues: Queues, wanted: QueueSettle, answer: Answer) -> None:
        consumer = self._consumers.get(wanted.number)
        there = [] if consumer is None else [one for one, n in wanted.given if consumer.held.get(one) == n]
        queue = "" if consumer is None else consumer.queue
        late = QueueRefused(queue, int(Why.NOT_HELD), "")

        def settled(result: int | GossamerError) -> None:
            # Want of a quorum first: those are tried again.
            if isinstance(result, GossamerError):
                answer(_refusal(queue, result))
            else:
                answer(True if len(there) == len(wanted.given) else late)

        if consumer is None or not there:
            answer(late)
            return
        more: dict[str, Any] = {"reason": wanted.reason, "delay": wanted.delay}
        queues.settle(consumer, there, Outcome(wanted.outcome), settled, **more)


def _refusal(queue: str, error: GossamerError) -> QueueRefused:
    unknown = isinstance(error, NotDoneError) and error.unknown
    text = error.why if isinstance(error, NotDoneError) else str(error)
    return QueueRefused(queue, int(why_of(error) or 0), text, unknown)


def _answer(queue: str, answer: Answer, result: int | GossamerError) -> None:
    answer(_refusal(queue, result) if isinstance(result, GossamerError) else result)


def ignore(_answer: object) -> None:
    """Take an answer that nobody wants."""
