"""Publish and Subscribe, for programs that speak no MQTT.

Rules: 1. A publish is answered as PUBACK is: once every node that must deliver the message has it, on disc
where there is one, and once no receiver here is behind.  2. A subscription sends within a window; what gRPC
has taken from us counts as delivered, so a program that dies may lose what it had not worked on. Work that
must not be lost goes through queues.  3. A subscription that is not allowed any more ends with its call, and
what waits for it is dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from itertools import count
from typing import Any

import grpc
import grpc.aio

from gossamer.errors import GossamerError, UnavailableError, UsageError, mismatch
from gossamer.gateway.grpc.callers import Caller, CallerCheck, CallRefusedError
from gossamer.gateway.grpc.gossamer_pb2 import (
    RETAIN_HANDLING_NONE,
    Delivery,
    Message,
    PublishFailure,
    PublishReply,
    PublishRequest,
    SubscribeRequest,
)
from gossamer.gateway.messages import WINDOW
from gossamer.gateway.remote_client import Publisher, RemoteClient, route
from gossamer.gateway.subscription import RemoteSubscription
from gossamer.mqtt import Broker, Properties
from gossamer.mqtt import Message as Published
from gossamer.routes import parse_name

MOST_MESSAGES = 1000
"""Messages of one request."""
UNSAFE = "a node that needs it may not have it; publish again, it may then come twice"
Context = Any
"""``grpc.aio.ServicerContext``; gRPC brings no types."""


def user_of(properties: Any) -> tuple[tuple[str, str], ...]:
    """Return the user properties of a request as MQTT has them."""
    return tuple((one.name, one.value) for one in properties)


class MessageService:
    """Implements ``gossamer.v1.Messages``."""

    def __init__(self, broker: Broker, check: CallerCheck) -> None:
        self._broker = broker
        self._check = check
        self._remote = RemoteClient(broker.fanout, f"{broker.runtime.node}/grpc")
        self._numbers = count(1)

    async def publish(self, request: PublishRequest, context: Context) -> PublishReply:
        """Publish what is asked, in order; see ``gossamer.proto``."""
        if len(request.messages) > MOST_MESSAGES:
            text = f"messages: got {len(request.messages)}, expected at most {MOST_MESSAGES} in a request"
            raise CallRefusedError(grpc.StatusCode.INVALID_ARGUMENT, text)
        caller = await self._check.of(context)
        sent = [self._publish(caller, message) for message in request.messages]
        failures = [
            PublishFailure(index=index, topic=request.messages[index].topic, error=error)
            for index, error in enumerate(await asyncio.gather(*sent))
            if error
        ]
        return PublishReply(published=len(sent) - len(failures), failures=failures)

    def _publish(self, caller: Caller, wanted: Message) -> asyncio.Future[str]:
        """Publish a message; the result is why it failed, blank once it is done."""
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        publisher = Publisher(self._broker)

        def settled(safe: bool) -> None:
            said = "" if safe else UNSAFE
            publisher.published(wanted.topic, lambda: None if done.done() else done.set_result(said))

        try:
            message = self._message(wanted)
            caller.may_publish(wanted.topic)
            route(self._broker, self._remote, message, settled if message.qos else None)
        except (GossamerError, UnicodeError) as error:
            done.set_result(str(error))
        else:
            if not message.qos:
                settled(True)
        return done

    def _message(self, wanted: Message) -> Published:
        parse_name(wanted.topic)
        if wanted.topic.startswith("$"):
            expected = "one without $ in front; for queues there is Append"
            raise mismatch(UsageError, "topic", repr(wanted.topic[:100]), expected)
        if wanted.qos > 2:
            raise UsageError(f"qos: got {wanted.qos}, expected 0, 1 or 2")
        expiry = wanted.expiry or None
        properties = Properties(
            message_expiry=expiry,
            content_type=wanted.content_type or None,
            user=user_of(wanted.user_properties),
        )
        return Published(
            *(wanted.topic.encode(), wanted.payload),
            qos=wanted.qos,
            retain=wanted.retain,
            properties=properties,
            expires_at=None if expiry is None else self._broker.fanout.now() + expiry,
        )

    async def subscribe(self, request: SubscribeRequest, context: Context) -> AsyncGenerator[Delivery]:
        """Deliver messages until the call ends; see ``gossamer.proto``."""
        caller = await self._check.of(context)
        caller.may_subscribe(request.filter)
        if request.qos > 2:
            raise UsageError(f"qos: got {request.qos}, expected 0, 1 or 2")
        waiting: deque[Delivery] = deque()
        there = asyncio.Event()
        refusals: list[CallRefusedError] = []

        def end(refusal: CallRefusedError) -> None:
            refusals.append(refusal)
            subscription.close("not_authorized")
            waiting.clear()
            there.set()

        def emit(messages: list[list[Any]], dropped: int, lost: int) -> None:
            found = [
                Message(topic=topic, payload=payload, qos=qos, retain=retain)
                for topic, payload, qos, retain in messages
            ]
            waiting.append(Delivery(messages=found, dropped=dropped, lost=lost))
            there.set()

        subscription = RemoteSubscription(
            *(self._broker, f"{caller.name}/{next(self._numbers)}", request.filter, request.qos),
            emit=emit,
            owner=None,
            window=WINDOW,
        )
        number = subscription.open()
        stop = self._check.watch(caller, request.filter, end)
        try:
            if not await self._broker.router.visible(number):
                raise UnavailableError(
                    "subscribe: some node does not answer, and may not know the filter; try again"
                )
            yield Delivery()
            subscription.begin(2 if request.retain_handling == RETAIN_HANDLING_NONE else 0)
            taken = 0
            while not refusals:
                await there.wait()
                there.clear()
                while waiting:
                    delivery = waiting.popleft()
                    yield delivery
                    # Bounded by the window, and written by now.
                    taken += len(delivery.messages)
                    subscription.taken(taken)
            raise refusals[0]
        finally:
            stop()
            subscription.close("unsubscribed")
