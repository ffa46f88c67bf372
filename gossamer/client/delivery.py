"""Jobs that a client was given, and what it says of them.

Rule: the end of the body of ``async with job`` is an ``ack``, an exception out of it a ``nack``, and goes on;
:class:`RejectJob` and :class:`RetryJob` say what else is to become of the job, and end there.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Protocol, Self

import structlog

from gossamer.errors import UnavailableError, UsageError
from gossamer.gateway import QueueGiven
from gossamer.queues import NotDoneError, NotHeldError, Outcome

log = structlog.get_logger(__name__)


class RejectJob(UsageError):  # noqa: N818 - said by a worker, as Ignore is
    """Raised in the body of ``async with job``: it is never done, and becomes a dead letter."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


class RetryJob(UnavailableError):  # noqa: N818
    """Raised in the body of ``async with job``: it comes again after ``delay`` seconds, or the queue's
    back-off."""

    def __init__(self, reason: str = "", *, delay: float | None = None) -> None:
        super().__init__(reason)
        self.delay = delay


class Settler(Protocol):
    """Consumer that a job came to."""

    queue: str
    group: str

    async def settle(
        self, jobs: list[Delivery], outcome: Outcome, reason: str = "", delay: float | None = None
    ) -> None: ...

    def give_back(self, jobs: list[Delivery]) -> None: ...


class _Settled:
    """Jobs that are settled together, by hand or at the end of ``async with``."""

    def __init__(self, consumer: Settler) -> None:
        self._consumer = consumer

    def _open(self) -> list[Delivery]:
        """Return those that nothing was said of."""
        raise NotImplementedError

    async def ack(self) -> None:
        """Say that it is done.

        Raises:
            NotHeldError: it is with somebody else by now, or comes again.
            NotDoneError: that is not known, or its node is gone; unless it was taken, it comes again.
        """
        await self._settle(Outcome.ACK)

    async def nack(self, reason: str = "", *, delay: float | None = None) -> None:
        """Have it come again after ``delay`` seconds, or the queue's back-off. Raises as :meth:`ack`."""
        await self._settle(Outcome.NACK, reason, delay)

    async def reject(self, reason: str = "") -> None:
        """Make it a dead letter. Raises as :meth:`ack`."""
        await self._settle(Outcome.REJECT, reason)

    async def _settle(self, outcome: Outcome, reason: str = "", delay: float | None = None) -> None:
        jobs = self._open()
        if jobs:
            await self._consumer.settle(jobs, outcome, reason, delay)
            for job in jobs:
                job.settled = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        said = isinstance(error, RejectJob | RetryJob)
        try:
            match error:
                case None:
                    await self.ack()
                case RejectJob():
                    await self.reject(str(error))
                case RetryJob(delay=delay):
                    await self.nack(str(error), delay=delay)
                case Exception():
                    await self.nack(f"{type(error).__name__}: {error}"[:200])
                case _:
                    # It is cancelled, and waits for nobody.
                    self._consumer.give_back(self._open())
        except (NotHeldError, NotDoneError) as lost:
            # At least once: it comes again, and that is no failure of the body.
            log.warning("job_not_settled", queue=self._consumer.queue, jobs=len(self._open()), why=str(lost))
        return said


class Delivery(_Settled):
    """A job: one message, with this consumer until it is settled.

    ``attempt``: how often it was given to a consumer, with this; ``headers``: its user properties; ``note``:
    of a dead letter, where it comes from and why. ``id`` is the same each time that it comes.
    """

    def __init__(self, consumer: Settler, given: QueueGiven) -> None:
        super().__init__(consumer)
        self.queue = consumer.queue
        self.group = consumer.group
        self.offset = given.offset
        self.attempt = given.attempt
        self.key = given.key
        self.payload = given.payload
        self.headers = dict(given.user)
        self.note = given.note
        self.source = given.source
        """Attachment that it came by."""
        self.settled = False

    @property
    def id(self) -> str:
        """Name of the message, ``QUEUE:OFFSET``, as ``message-id`` in MQTT."""
        return f"{self.queue}:{self.offset}"

    def _open(self) -> list[Delivery]:
        return [] if self.settled else [self]


class Batch(_Settled, list[Delivery]):
    """Jobs that are settled together: all that nothing was said of alone."""

    def __init__(self, consumer: Settler, jobs: Iterable[Delivery]) -> None:
        _Settled.__init__(self, consumer)
        list.__init__(self, jobs)

    def _open(self) -> list[Delivery]:
        return [job for job in self if not job.settled]
