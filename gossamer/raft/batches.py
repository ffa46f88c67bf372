"""Batches of requests that are done once, however often they come: :class:`Outbox` is a writer's side, and
:class:`Writers` part of the state of a group's machine.
 Rules: 1. A writer numbers its batches, and has one on its way at a time; what comes meanwhile makes the
next: a group that is slow gets larger batches, and requests of one writer are done in the order in which they
came. 2. One that comes again is answered as it was; one behind a later batch of its writer is not done.  3.
What has waited for :data:`PATIENCE` is not sent any more: its caller may have given up.  4. Writers are
forgotten, those first that wrote least lately, beyond :data:`MAX_WRITERS`.  5. Behind a batch of
:data:`GATHERED` or more, the next waits for as many for a moment, half of what the one before took and
:data:`GATHERING` at most: who was answered asks again soon, and a batch costs the nodes the same, whether it
has one request or all of them.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
PATIENCE = 8.0
"""Seconds for which a batch is made again until it is answered."""
MAX_WAITING = 10_000
MAX_WRITERS = 10_000
BATCH_BYTES = 256 * 1024
BATCH_REQUESTS = 512
GATHERED = 12
GATHERING = 0.008
"""Seconds."""

Answered = Callable[[Any], object]
"""Called once with what came of a request."""


class Outbox(Generic[T]):
    """Requests of one writer to one group. ``late`` makes what a request is answered that waited too long."""

    def __init__(self, late: Callable[[], object]) -> None:
        self._late = late
        self._waiting: deque[tuple[T, int, Answered, float]] = deque()
        """With its size, and the time at which it came."""
        self._sent: list[tuple[T, Answered, float]] = []
        """The batch that is on its way, with the times at which its requests came."""
        self.number = 0
        """Number of the last batch."""
        self._began = 0.0
        """When that was made."""
        self._expected = 0
        """How many the next one waits for, until ``_gathers`` at most."""
        self._gathers = 0.0

    @property
    def is_full(self) -> bool:
        """Return whether as many wait as may."""
        return len(self._waiting) >= MAX_WAITING

    def add(self, request: T, size: int, answered: Answered, now: float) -> bool:
        """Add a request of so many bytes; return whether to look now if a batch is due, and when the next
        is."""
        self._waiting.append((request, size, answered, now))
        return not self._sent and (len(self._waiting) == 1 or not self.gathers(now))

    def gathers(self, now: float) -> float:
        """Return for how many seconds the next batch is to wait for more; 0: it is due, if there is any."""
        if self._sent or not self._waiting or len(self._waiting) >= self._expected:
            return 0.0
        left = self._gathers - now
        # A rest that rounding leaves to a timer is none.
        return left if left > 1e-6 else 0.0

    def pull(self, wanted: Callable[[T], bool]) -> list[tuple[T, Answered]]:
        """Take requests that are not on their way yet."""
        pulled = [one for one in self._waiting if wanted(one[0])]
        if pulled:
            self._waiting = deque(one for one in self._waiting if not wanted(one[0]))
        return [(request, answered) for request, _, answered, _ in pulled]

    def next_batch(self, now: float) -> list[T]:
        """Return the requests of the next batch, which is on its way now; empty: there is none, or one is, or
        it is to wait for more."""
        if self._sent or self.gathers(now):
            return []
        size = 0
        while self._waiting and size < BATCH_BYTES and len(self._sent) < BATCH_REQUESTS:
            request, weight, answered, came = self._waiting.popleft()
            if now - came >= PATIENCE:
                answered(self._late())
                continue
            size += weight
            self._sent.append((request, answered, came))
        self.number += bool(self._sent)
        self._began = now
        return [request for request, _, _ in self._sent]

    def take_sent(self, now: float) -> list[tuple[T, Answered]]:
        """Take the requests of the batch that was on its way: it was answered, or will not be."""
        sent, self._sent = self._sent, []
        self._expected = len(sent) + len(self._waiting) if len(sent) >= GATHERED else 0
        self._gathers = now + min((now - self._began) / 2, GATHERING)
        return [(request, answered) for request, answered, _ in sent]

    def expire(self, before: float, unknown: Callable[[], object]) -> float | None:
        """Answer what came up to ``before``: what waits as late, and what is on its way with ``unknown()``,
        since it may be done yet. Return when the oldest came that is left; None: there is none."""
        for place, (request, answered, came) in enumerate(self._sent):
            if came > before:
                return came
            if answered is not _nobody:
                answered(unknown())
                self._sent[place] = request, _nobody, came
        while self._waiting and self._waiting[0][3] <= before:
            self._waiting.popleft()[2](self._late())
        return self._waiting[0][3] if self._waiting else None


def _nobody(_result: object) -> None:
    """In place of who was answered before."""


class Writers(Generic[R]):
    """Number and results of the last batch of each writer."""

    def __init__(self, rows: Iterable[tuple[bytes, int, list[R]]] = ()) -> None:
        self._last = OrderedDict((writer, (number, results)) for writer, number, results in rows)

    def known(self, writer: bytes, number: int) -> list[R] | None:
        """Return the results of a batch that was done; None: it is new.

        Raises:
            LookupError: a later one came before it; it may have been done before that.
        """
        last, results = self._last.get(writer, (0, []))
        if number < last:
            raise LookupError
        return results if number == last else None

    def done(self, writer: bytes, number: int, results: list[R]) -> None:
        """Remember what came of a batch."""
        self._last[writer] = number, results
        self._last.move_to_end(writer)
        if len(self._last) > MAX_WRITERS:
            self._last.popitem(last=False)

    def absorb(self, rows: Iterable[tuple[bytes, int, list[R]]]) -> None:
        """Remember what another group knew, too: of each writer the later batch."""
        for writer, number, results in rows:
            if number > self._last.get(writer, (0, []))[0]:
                self.done(writer, number, results)

    def rows(self) -> list[tuple[bytes, int, list[R]]]:
        """Return all, for a snapshot."""
        return [(writer, number, results) for writer, (number, results) in self._last.items()]
