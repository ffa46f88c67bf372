"""The process that asks the queues that this node leads what is wrong with them, for its alarms.

Rules: 1. Who leads a replication group tells, and nobody else; a new leader begins anew with what the queue
itself does not know the beginning of.  2. A queue is full from :data:`~.shown.FULL` on, and until it is
below :data:`~.shown.ROOM`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog

from gossamer.errors import GossamerError
from gossamer.queues.port import KIND, Queues
from gossamer.queues.questions import troubles_in
from gossamer.queues.replicated.shown import QUEUE_FULL
from gossamer.queues.stats import Trouble
from gossamer.raft import RaftStatus
from gossamer.supervisor import GenServer, self_pid, send_after

log = structlog.get_logger(__name__)

EVERY = 5.0

Standing = Mapping[tuple[str, str, str], tuple[float, Trouble]]
"""Troubles by alarm, queue and subject, with the time since when they last."""


def standing(before: Standing, found: Iterable[Trouble], now: float) -> Standing:
    """Return the troubles that stand at ``now``, seconds; ``before``: those at the last look."""
    after: dict[tuple[str, str, str], tuple[float, Trouble]] = {}
    for one in found:
        subject = one.subject
        if one.alarm == QUEUE_FULL:
            # Nearly full is none, unless it was full.
            if not subject and (QUEUE_FULL, one.queue, "") not in before:
                continue
            subject = ""
        key = one.alarm, one.queue, subject
        since = before[key][0] if key in before else now
        after[key] = (since if one.lasts is None else now - one.lasts / 1000), one
    return after


class QueueWatch(GenServer):
    """Start it on every node; ``queues.troubles`` is what it finds."""

    async def init(self, queues: Queues, status: RaftStatus) -> None:
        self._queues = queues
        self._status = status
        send_after(EVERY, self_pid(), "look")

    async def handle_info(self, message: object) -> None:
        if message == "look":
            send_after(EVERY, self_pid(), "look")
            await self._look()

    async def _look(self) -> None:
        found: list[Trouble] = []
        for kind in sorted(self._status.leading):
            if kind.startswith(KIND):
                try:
                    found += await troubles_in(kind.removeprefix(KIND))
                except GossamerError as error:
                    log.debug("queues_not_watched", group=kind, error=str(error))
                    return
        before = self._queues.troubles
        self._queues.troubles = standing(before, found, self.process.loop.time())
