"""A message for very many sessions of this node: so many a turn of the loop, the rest in the turns after.

To hand a message of QoS 1 to a session costs about 3 µs: ten thousand sessions are a turn of 30 ms in which
nobody else is read from, no timer runs and no probe is answered.

Rules: 1. Order is kept for each session: whoever is about to deliver something else to one that has not had
its turn yet (:meth:`Wide.mind`) finishes first what is under way.  2. A message is acknowledged once all have
it: this stands among its *peers* (see ``ForwarderLike``), and then waits for the disc, where there is one.
3. A publisher goes on when its message is out (:meth:`Wide.after`): one that publishes nothing but such
messages shares the loop as well.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import structlog

log = structlog.get_logger(__name__)

SLICE = 2000
"""Sessions in a turn."""


class FanoutLike(Protocol):
    """The fan-out."""

    origin: str | None


class _Job:
    """One message and the targets that still have to get it."""

    __slots__ = ("at", "give", "left", "origin", "targets")

    def __init__(self, targets: Sequence[object], give: Callable[[object], None], origin: str | None) -> None:
        self.targets = targets
        self.give = give
        self.origin = origin
        self.at = 0
        self.left: set[object] | None = None

    def awaits(self, sessions: Iterable[object]) -> bool:
        """Return whether one of ``sessions`` may not have it yet."""
        if self.left is None:
            self.left = {getattr(target, "subscriber", target) for target in self.targets[self.at :]}
        return not self.left.isdisjoint(sessions)


def _call_soon(callback: Callable[[], object]) -> None:
    asyncio.get_running_loop().call_soon(callback)


class Wide:
    """Fan-out of one message to very many local sessions, spread over turns of the loop.

    ``store`` returns the store of durable sessions, or None.
    """

    peer = "here"

    def __init__(self, fanout: FanoutLike) -> None:
        self.jobs: deque[_Job] = deque()
        self.store: Callable[[], Any] = lambda: None
        self._fanout = fanout
        self._then: list[Callable[[], object]] = []

    def spread(self, targets: Sequence[object], give: Callable[[object], None]) -> None:
        """Give to the first of ``targets`` (sessions, or deliveries) now, to the others later."""
        self.jobs.append(_Job(targets, give, self._fanout.origin))
        if len(self.jobs) == 1:
            _call_soon(self._step)
            self._take(SLICE)

    def mind(self, sessions: Iterable[object]) -> None:
        """Finish first what one of ``sessions`` waits for, before something else is delivered to it."""
        if any(job.awaits(sessions) for job in self.jobs):
            self.finish()

    def finish(self) -> None:
        """Deliver everything now."""
        self._take(1 << 60)

    def after(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` in a later turn, in which everything is out."""
        if self.jobs:
            self._then.append(lambda: _call_soon(callback))
        else:
            _call_soon(callback)

    # Among the peers of a message.

    def append(self, record: bytes) -> None:
        """QoS 0 waits for nothing."""

    def append_acked(self, record: bytes, on_safe: Callable[[bool], None]) -> None:
        """``on_safe`` once everything is out, and on disc."""
        if self.jobs:
            self._then.append(lambda: self._safe(on_safe))
        else:
            self._safe(on_safe)

    def _safe(self, on_safe: Callable[[bool], None]) -> None:
        store = self.store()
        if store is None:
            on_safe(True)
        else:
            store.append_acked(b"", on_safe)

    # Turns.

    def _step(self) -> None:
        if self.jobs:
            self._take(SLICE)
        if self.jobs:
            _call_soon(self._step)

    def _take(self, count: int) -> None:
        """Give to ``count`` more."""
        jobs = self.jobs
        while jobs and count > 0:
            job = jobs[0]
            start = job.at
            # Before anybody gets it: a program that gets it may publish, and finish this.
            job.at = stop = min(len(job.targets), start + count)
            count -= stop - start
            self._give(job, start, stop)
            if jobs and jobs[0] is job and job.at >= len(job.targets):
                jobs.popleft()
        if not jobs:
            then, self._then = self._then, []
            for callback in then:
                try:
                    callback()
                except Exception:
                    # The others would wait forever.
                    log.exception("wide_callback_failed")

    def _give(self, job: _Job, start: int, stop: int) -> None:
        fanout = self._fanout
        before, fanout.origin = fanout.origin, job.origin
        try:
            for target in job.targets[start:stop]:
                job.give(target)
        finally:
            fanout.origin = before
