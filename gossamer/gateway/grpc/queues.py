"""Append and Consume: queues for programs that speak no MQTT.

Rules: 1. A consumer lives as long as its call, which ends once it is not allowed any more; what it has not
settled then goes to others at once.  2. A message is settled by offset and attempt.  3. What a consumer may
have unsettled bounds what waits here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial
from typing import Any

import grpc

from gossamer.errors import GossamerError, UsageError, mismatch
from gossamer.gateway.grpc.callers import CallerCheck, CallRefusedError, code_of
from gossamer.gateway.grpc.gossamer_pb2 import (
    AppendReply,
    AppendRequest,
    ConsumeReply,
    ConsumeRequest,
    ConsumeStart,
    ConsumeStarted,
    QueueMessage,
    Settle,
    Settled,
    UserProperty,
)
from gossamer.gateway.grpc.messages import Context, user_of
from gossamer.gateway.queues import LONGEST_GROUP
from gossamer.mqtt import Properties, data_of, properties_of
from gossamer.queues import Assigned, LocalConsumer, NotDoneError, Outcome, Queues, Why, is_start, why_of

IN_FLIGHT = 16
MOST_IN_FLIGHT = 1000
_CODES = {
    Why.UNKNOWN_QUEUE: grpc.StatusCode.NOT_FOUND,
    Why.FULL: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Why.FEW_REPLICAS: grpc.StatusCode.UNAVAILABLE,
    Why.MOVING: grpc.StatusCode.UNAVAILABLE,
}


def _refused(error: GossamerError) -> CallRefusedError:
    why = why_of(error)
    if why is None:
        code = grpc.StatusCode.UNAVAILABLE if isinstance(error, NotDoneError) else code_of(error)
    else:
        code = _CODES.get(why, grpc.StatusCode.FAILED_PRECONDITION)
    return CallRefusedError(code, str(error))


class QueueService:
    """Implements ``gossamer.v1.Queues``; ``queues`` None: the node has none."""

    def __init__(self, queues: Queues | None, check: CallerCheck) -> None:
        self._queues = queues
        self._check = check

    async def append(self, request: AppendRequest, context: Context) -> AppendReply:
        """Put a message into a queue; see ``gossamer.proto``."""
        queues = self._here()
        (await self._check.of(context)).may_publish(f"$queue/{request.queue}/{request.key}".rstrip("/"))
        user = user_of(request.user_properties)
        add = partial(
            queues.append,
            request.queue,
            request.payload,
            key=request.key,
            properties=data_of(Properties(user=user)) if user else b"",
            expiry=request.expiry or None,
        )
        return AppendReply(offset=await _result(add))

    async def consume(
        self, requests: AsyncIterator[ConsumeRequest], context: Context
    ) -> AsyncGenerator[ConsumeReply]:
        """Take part in a consumer group for as long as the call lasts; see ``gossamer.proto``."""
        queues = self._here()
        caller = await self._check.of(context)
        first = await anext(requests, None)
        if first is None or first.WhichOneof("request") != "start":
            raise UsageError("consume: expected a start as the first request of the call")
        start = _checked(first.start)
        topic_filter = f"$queue/{start.queue}/#"
        caller.may_subscribe(topic_filter)
        call = _Consuming(queues, start, caller.name)
        with contextlib.ExitStack() as ends:
            ends.callback(call.leave)
            await _result(partial(queues.join, call.consumer))
            ends.callback(self._check.watch(caller, topic_filter, call.end))
            yield ConsumeReply(started=ConsumeStarted())
            reading = asyncio.create_task(call.read(requests), name="grpc_settle")
            try:
                async for reply in call.replies(reading):
                    yield reply
            finally:
                reading.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await reading

    def _here(self) -> Queues:
        if self._queues is None:
            raise CallRefusedError(grpc.StatusCode.UNIMPLEMENTED, "this node has no queues; call another one")
        return self._queues


class _Consuming:
    """One call of Consume: what waits to be sent, and what is settled."""

    def __init__(self, queues: Queues, start: ConsumeStart, client: str) -> None:
        self._queues = queues
        self._waiting: deque[ConsumeReply] = deque()
        self._there = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._open = 0
        """Settlements without an answer."""
        self._refusal: CallRefusedError | None = None
        self.consumer = LocalConsumer(
            *(start.queue, start.group),
            client=client,
            limit=start.in_flight or IN_FLIGHT,
            start=start.offset,
            give=self._give,
        )

    async def read(self, requests: AsyncIterator[ConsumeRequest]) -> None:
        """Settle what the program says, until it says no more."""
        try:
            async for request in requests:
                if request.WhichOneof("request") != "settle":
                    raise UsageError("consume: expected nothing but settlements after the start")
                self._settle(request.settle)
                # A program that reads no answers is not read from.
                await self._room.wait()
        finally:
            self._there.set()

    async def replies(self, reading: asyncio.Task[None]) -> AsyncIterator[ConsumeReply]:
        """Yield what is to be sent, until the program has said all and is answered."""
        while self._refusal is None and not (reading.done() and not self._waiting and not self._open):
            await self._there.wait()
            self._there.clear()
            while self._waiting:
                reply = self._waiting.popleft()
                if len(self._waiting) < MOST_IN_FLIGHT:
                    self._room.set()
                yield reply
        if self._refusal is not None:
            raise self._refusal
        await reading

    def leave(self) -> None:
        """Leave the consumer group: what is not settled goes to others."""
        self._queues.leave(self.consumer)

    def end(self, refusal: CallRefusedError) -> None:
        """Have the call end with ``refusal``, and send nothing more."""
        self._refusal = refusal
        self.leave()
        self._waiting.clear()
        self._there.set()

    def _give(self, one: Assigned) -> None:
        message = one.message
        pairs = properties_of(message.properties).user
        told = QueueMessage(
            offset=message.offset,
            attempt=one.attempt,
            key=message.key,
            payload=message.payload,
            user_properties=[UserProperty(name=name, value=value) for name, value in pairs],
        )
        self._send(ConsumeReply(message=told))

    def _settle(self, wanted: Settle) -> None:
        def settled(result: int | GossamerError) -> None:
            self._open -= 1
            error = str(result) if isinstance(result, GossamerError) else ""
            self._send(ConsumeReply(settled=Settled(offset=offset, attempt=attempt, error=error)))

        offset, attempt = wanted.offset, wanted.attempt
        self._open += 1
        if self.consumer.held.get(offset) != attempt:
            text = f"message {offset}, attempt {attempt}, is not, or no more, with this consumer"
            settled(UsageError(text))
            return
        outcome, delay = Outcome(wanted.outcome), wanted.delay or None
        self._queues.settle(self.consumer, [offset], outcome, settled, reason=wanted.reason, delay=delay)

    def _send(self, reply: ConsumeReply) -> None:
        self._waiting.append(reply)
        if len(self._waiting) >= 2 * MOST_IN_FLIGHT:
            self._room.clear()
        self._there.set()


def _checked(start: ConsumeStart) -> ConsumeStart:
    if not 0 < len(start.group) <= LONGEST_GROUP:
        raise mismatch(UsageError, "group", repr(start.group[:100]), f"1 to {LONGEST_GROUP} characters")
    if start.in_flight > MOST_IN_FLIGHT:
        raise mismatch(UsageError, "in_flight", str(start.in_flight), f"at most {MOST_IN_FLIGHT}")
    if not is_start(start.offset):
        expected = "first, last, next, an offset, or timestamp: and milliseconds since 1970"
        raise mismatch(UsageError, "offset", repr(start.offset[:100]), expected)
    return start


async def _result(ask: Callable[..., Any]) -> int:
    """Return the result of a request to queues, which takes what is called with it last."""
    done: asyncio.Future[int | GossamerError] = asyncio.get_running_loop().create_future()
    ask(done=lambda result: None if done.done() else done.set_result(result))
    result = await done
    if isinstance(result, GossamerError):
        raise _refused(result)
    return result
