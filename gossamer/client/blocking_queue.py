"""Queues for code without an event loop: the async ones, each step done in the client's thread."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from gossamer.client.delivery import Batch, Delivery
from gossamer.client.queue import ClientQueue, QueueConsumer

T = TypeVar("T")


class Do(Protocol):
    """Does something in the client's loop, and returns what it came to, or raises what it raised."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


class _Settled:
    """Jobs that are settled together, by hand or at the end of ``with``, as in the async client."""

    def __init__(self, do: Do, jobs: Delivery | Batch) -> None:
        self._do = do
        self._jobs = jobs

    def ack(self) -> None:
        """Say that it is done. Raises NotHeldError, NotDoneError."""
        self._do(self._jobs.ack())

    def nack(self, reason: str = "", *, delay: float | None = None) -> None:
        """Have it come again after ``delay`` seconds, or the queue's back-off. Raises as :meth:`ack`."""
        self._do(self._jobs.nack(reason, delay=delay))

    def reject(self, reason: str = "") -> None:
        """Make it a dead letter. Raises as :meth:`ack`."""
        self._do(self._jobs.reject(reason))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self._do(self._jobs.__aexit__(kind, error, trace))


class BlockingDelivery(_Settled):
    """A job: as :class:`Delivery`, whose fields it has."""

    def __init__(self, do: Do, job: Delivery) -> None:
        super().__init__(do, job)
        self.id = job.id
        self.queue = job.queue
        self.group = job.group
        self.offset = job.offset
        self.attempt = job.attempt
        self.key = job.key
        self.payload = job.payload
        self.headers = job.headers
        self.note = job.note


class BlockingBatch(_Settled):
    """Jobs that are settled together: all that nothing was said of alone."""

    def __init__(self, do: Do, jobs: Batch) -> None:
        super().__init__(do, jobs)
        self._each = [BlockingDelivery(do, job) for job in jobs]

    def __iter__(self) -> Iterator[BlockingDelivery]:
        return iter(self._each)

    def __len__(self) -> int:
        return len(self._each)


class BlockingConsumer:
    """Iterator of :class:`BlockingDelivery`; ``with`` joins its consumer group, and leaves it at the end."""

    def __init__(self, do: Do, consumer: QueueConsumer) -> None:
        self._do = do
        self._consumer = consumer

    def get(self, timeout: float | None = None) -> BlockingDelivery:
        """Return the next job. Raises TimeoutError when none came in ``timeout`` seconds; else as iteration:
        UnknownQueueError, BadStartError, TooManyGroupsError, RefusedError, StopAsyncIteration once closed."""
        return BlockingDelivery(self._do, self._do(asyncio.wait_for(anext(self._consumer), timeout)))

    def batch(self, size: int, within: float) -> BlockingBatch:
        """Return up to ``size`` jobs: those that come within so many seconds of the first. Raises as
        :meth:`get`, and UsageError where ``size`` is more than ``in_flight``."""
        return BlockingBatch(self._do, self._do(self._consumer.batch(size, within)))

    def close(self) -> None:
        """End it: what was not settled goes to others at once."""

        async def close() -> None:
            self._consumer.close()

        self._do(close())

    def __enter__(self) -> Self:
        self._do(self._consumer.join())
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> BlockingDelivery:
        try:
            return self.get()
        except StopAsyncIteration:
            raise StopIteration from None


class BlockingQueue:
    """A queue, to publish into and to consume."""

    def __init__(self, do: Do, queue: ClientQueue) -> None:
        self._do = do
        self._queue = queue
        self.name = queue.name

    def publish(
        self,
        payload: bytes | str,
        *,
        key: str = "",
        headers: Mapping[str, str] | None = None,
        expiry: float | None = None,
    ) -> int:
        """As :meth:`ClientQueue.publish`."""
        return self._do(self._queue.publish(payload, key=key, headers=headers, expiry=expiry))

    def consume(self, *, group: str = "default", in_flight: int = 16, offset: str = "") -> BlockingConsumer:
        """As :meth:`ClientQueue.consume`; the result is a plain iterator."""
        return BlockingConsumer(
            self._do, self._queue.consume(group=group, in_flight=in_flight, offset=offset)
        )
