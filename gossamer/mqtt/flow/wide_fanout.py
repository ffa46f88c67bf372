"""Wide fan-out: a message for very many sessions is delivered to some in each turn of the loop.

Delivery of a QoS 1 message to a session costs about 3 µs: ten thousand sessions are a turn of 30 ms in which
no other client is read from, no timer runs and no probe is answered.

Rules: 1. Order is kept for each session: before another message goes to one that has not had its turn yet,
jobs are finished (:meth:`Wide.mind`).  2. A message is acknowledged once all sessions have it: this is one of
its *peers* (see ``ForwarderLike``), and then waits for the disc, where there is one.  3. A publisher is read
from again when its message is out (:meth:`Wide.after`), so one with only such messages shares the loop too.
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
    """Fan-out, whose ``origin`` is set for each delivery."""

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

    ``store()`` returns the store of durable sessions, or None.
    """

    peer = "here"

    def __init__(self, fanout: FanoutLike) -> None:
        self.jobs: deque[_Job] = deque()
        self.store: Callable[[], Any] = lambda: None
        self._fanout = fanout
        self._then: list[Callable[[], object]] = []

    def spread(self, targets: Sequence[object], give: Callable[[object], None]) -> None:
        """Call ``give`` with the first of ``targets`` (sessions or deliveries) now, with the others later."""
        self.jobs.append(_Job(targets, give, self._fanout.origin))
        if len(self.jobs) == 1:
            _call_soon(self._step)
            self._take(SLICE)

    def mind(self, sessions: Iterable[object]) -> None:
        """Finish all jobs if one of ``sessions`` still waits, before another message is delivered to it."""
        if any(job.awaits(sessions) for job in self.jobs):
            self.finish()

    def finish(self) -> None:
        """Finish all jobs now."""
        self._take(1 << 60)

    def after(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` in a later turn, once all jobs are finished."""
        if self.jobs:
            self._then.append(lambda: _call_soon(callback))
        else:
            _call_soon(callback)

    # One of the peers of a message.

    def append(self, record: bytes) -> None:
        """Do nothing: QoS 0 waits for nothing."""

    def append_acked(self, record: bytes, on_safe: Callable[[bool], None]) -> None:
        """Call ``on_safe`` once all jobs are finished, and on disc."""
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
        """Deliver to ``count`` more targets."""
        jobs = self.jobs
        while jobs and count > 0:
            job = jobs[0]
            start = job.at
            # Before the delivery: a program that gets the message may publish, and finish this job.
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
