"""Queues for a Python client: publish into one, and do its jobs.

::

    queue = client.queue("jobs")
    await queue.publish(b"pack order 7", key="orders/7")
    async for job in queue.consume(group="workers", in_flight=16):
        async with job:
            pack(job.payload)

Rules: 1. A publish is tried again, at the next node too, until it is answered or the client's timeout is
over: a message may be in the queue twice, and is not lost.  2. A consumer lives as long as the attachment of
its client, and begins again at the next node: what it had goes to others, and may come again here.  3. A job
whose body ran and that could not be settled is not the body's failure: it comes again, which is logged.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Self

import structlog

from gossamer.client.delivery import Batch, Delivery
from gossamer.client.keeper import RETRY_INTERVAL, Keeper, NotAttachedError, RefusedError
from gossamer.errors import GossamerError, UsageError
from gossamer.gateway import (
    QueueConsume,
    QueueGiven,
    QueuePublish,
    QueueRefused,
    QueueSettle,
    Refused,
)
from gossamer.queues import NotDoneError, Outcome, Why, error_of
from gossamer.supervisor import CallFailed, Pid, Runtime

log = structlog.get_logger(__name__)

_CONSUME_TIMEOUT = 30.0

Open = Callable[["QueueConsumer"], int]
Close = Callable[[int], None]


class ClientQueue:
    """Made by ``Client.queue``; nothing is asked until it is used."""

    def __init__(self, name: str, keeper: Keeper, runtime: Runtime, *, open: Open, close: Close) -> None:  # noqa: A002
        self.name = name
        self._keeper = keeper
        self._runtime = runtime
        self._open = open
        self._close = close

    async def publish(
        self,
        payload: bytes | str,
        *,
        key: str = "",
        headers: Mapping[str, str] | None = None,
        expiry: float | None = None,
    ) -> int:
        """Put a message in; return its offset, once a quorum has it. ``headers`` are its user properties in
        MQTT; after ``expiry`` seconds it goes.

        Raises:
            UnknownQueueError, TooLargeError, QueueFullError: it is in no queue.
            NotDoneError: no quorum could be reached within the client's timeout; it may be there or not.
            NotAttachedError: there was no node in time.
        """
        data = payload.encode() if isinstance(payload, str) else bytes(payload)
        user = [[name, value] for name, value in (headers or {}).items()]
        request = QueuePublish(self.name, key, data, user, expiry)
        loop, keeper = self._runtime.loop, self._keeper
        deadline = loop.time() + keeper.timeout
        last = NotDoneError("no node has answered", unknown=True)
        while (left := deadline - loop.time()) > 0:
            try:
                where = await keeper.where(deadline)
                return int(_result(self.name, await self._runtime.call(where, request, left)))
            except NotDoneError as error:
                last = error
            except CallFailed as failure:
                keeper.last = f"publish into queue {self.name}: {failure.reason}"
            await asyncio.sleep(RETRY_INTERVAL)
        raise last

    def consume(self, *, group: str = "default", in_flight: int = 16, offset: str = "") -> QueueConsumer:
        """Return a consumer of a consumer group: iterate over it, ``close()`` it when done, or leave that to
        ``async with``. It has ``in_flight`` jobs at once at most. ``offset``: where a new consumer group
        begins: ``first``, ``last``, ``next``, a number, or ``timestamp:`` and milliseconds since 1970."""
        if in_flight < 1:
            raise UsageError(f"in_flight: expected at least 1, got {in_flight}")
        return QueueConsumer(
            self.name,
            group,
            self._keeper,
            self._runtime,
            in_flight=in_flight,
            offset=offset,
            open=self._open,
            close=self._close,
        )


class QueueConsumer:
    """Async iterator of :class:`Delivery`; begins with the first that is asked for, or with :meth:`join`."""

    def __init__(
        self,
        queue: str,
        group: str,
        keeper: Keeper,
        runtime: Runtime,
        *,
        in_flight: int,
        offset: str,
        open: Open,  # noqa: A002
        close: Close,
    ) -> None:
        self.queue = queue
        self.group = group
        self.in_flight = in_flight
        self._offset = offset
        self._keeper = keeper
        self._runtime = runtime
        self._open = open
        self._close = close
        self._number: int | None = None
        self._joiner: Pid | None = None
        self._attachment: Pid | None = None
        """Where it consumes."""
        self._moved = asyncio.Event()
        self._buffer: deque[Delivery] = deque()
        self._news = asyncio.Event()
        self._error: GossamerError | None = None
        self._closed = self._joined = False

    async def join(self) -> None:
        """Return once it is in its consumer group: what is published from now on waits for the group, where
        it is a new one. Raises as ``anext``."""
        self._begin()
        while not self._joined and self._error is None and not self._closed:
            self._news.clear()
            await self._news.wait()
        if self._error is not None:
            raise self._error

    async def __aenter__(self) -> Self:
        await self.join()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        """Return the next job.

        Raises:
            UnknownQueueError, BadStartError, TooManyGroupsError, RefusedError: nobody can consume so.
        """
        self._begin()
        while not self._buffer:
            if self._error is not None:
                raise self._error
            if self._closed:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._buffer.popleft()

    async def batch(self, size: int, within: float) -> Batch:
        """Return up to ``size`` jobs: those that come within so many seconds of the first.

        ``size`` is no more than ``in_flight``, or no batch would ever be full. Raises as ``anext``;
        StopAsyncIteration once it is closed.
        """
        if not 0 < size <= self.in_flight:
            raise UsageError(f"a batch of {size}: expected 1 to {self.in_flight} jobs, as in_flight says")
        found = [await anext(self)]
        deadline = self._runtime.loop.time() + within
        while len(found) < size:
            try:
                async with asyncio.timeout_at(deadline):
                    found.append(await anext(self))
            except (TimeoutError, StopAsyncIteration):
                break
        return Batch(self, found)

    def close(self) -> None:
        """End it: what was not settled goes to others at once."""
        if not self._closed:
            self._closed = True
            self._buffer.clear()
            self._news.set()
            if self._joiner is not None and self._number is not None:
                self._runtime.exit(self._joiner, "kill")
                self._close(self._number)

    # -- for its jobs

    async def settle(
        self, jobs: list[Delivery], outcome: Outcome, reason: str = "", delay: float | None = None
    ) -> None:
        """Say what became of jobs; want of a quorum is tried again until the client's timeout."""
        loop = self._runtime.loop
        deadline = loop.time() + self._keeper.timeout
        last = NotDoneError("the node that gave the job is gone, or does not answer", unknown=True)
        while (left := deadline - loop.time()) > 0:
            request = self._request(jobs, outcome, reason, delay)
            if request is None:
                break
            try:
                _result(self.queue, await self._runtime.call(*request, left))
            except NotDoneError as error:
                last = error
                await asyncio.sleep(RETRY_INTERVAL)
            except CallFailed:
                break
            else:
                return
        raise last

    def give_back(self, jobs: list[Delivery]) -> None:
        """Have jobs go to whoever has room, without waiting for it."""
        request = self._request(jobs, Outcome.NACK, "its worker was cancelled", 0.0)
        if request is not None:
            self._runtime.cast(*request)

    def _request(
        self, jobs: list[Delivery], outcome: Outcome, reason: str, delay: float | None
    ) -> tuple[Pid, QueueSettle] | None:
        attachment = self._attachment
        if (
            not jobs
            or attachment is None
            or self._number is None
            or any(job.source != attachment for job in jobs)
        ):
            return None
        given = [[job.offset, job.attempt] for job in jobs]
        return attachment, QueueSettle(self._number, given, int(outcome), reason, delay)

    # -- for the client

    def feed(self, given: QueueGiven) -> None:
        """Take a job."""
        if given.source == self._attachment and not self._closed:
            self._buffer.append(Delivery(self, given))
            self._news.set()

    def moved(self) -> None:
        """Begin again: the attachment is another one, or none."""
        if self._attachment is not None:
            log.info("consumer_moved", queue=self.queue, group=self.group)
        self._attachment = None
        self._buffer.clear()
        self._moved.set()

    def _begin(self) -> None:
        if self._number is None and not self._closed:
            self._number = self._open(self)
            self._joiner = self._runtime.spawn(self._stay_joined, label=f"consumer of {self.queue}")

    async def _stay_joined(self) -> None:
        """Consume at the node of each attachment, until it is refused."""
        while True:
            self._moved.clear()
            try:
                where = await self._keeper.where()
                # Jobs may come before the answer.
                self._attachment = where
                await self._join(where)
                self._joined = True
                self._news.set()
            except (CallFailed, NotAttachedError, NotDoneError) as error:
                log.debug("not_consuming_yet", queue=self.queue, error=str(error))
                await asyncio.sleep(RETRY_INTERVAL)
                continue
            except GossamerError as error:
                self._error = error
                self._news.set()
                return
            await self._moved.wait()

    async def _join(self, where: Pid) -> None:
        number = self._number or 0
        request = QueueConsume(number, self.queue, self.group, self.in_flight, self._offset)
        _result(self.queue, await self._runtime.call(where, request, _CONSUME_TIMEOUT))


def _result(queue: str, answer: object) -> int:
    """Return an answer, or raise the error that it says."""
    match answer:
        case QueueRefused(why=0, text=text, unknown=unknown):
            raise NotDoneError(text, unknown=unknown)
        case QueueRefused(why=why):
            raise error_of(Why(why), queue)
        case Refused(reason):
            raise RefusedError(what=f"queue {queue}", reason=reason)
        case int():
            return answer
    raise RefusedError(what=f"queue {queue}", reason=f"it answered {type(answer).__name__}")
