"""How far this node's wall clock is ahead of the other nodes', measured by asking them.

A node asks each of the others for its time, :data:`ASKS` times, and believes the answer that came back
soonest: that one was delayed least. Ahead by how much is said of the median of all clocks, its own included,
so that one wrong clock makes only its own rows wrong. A node alone is right.

Rule: nothing is set by this; it stands in the rows (``offset_us``), for those who compare times.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from gossamer.clock import Clock
from gossamer.distribution import rpc as remote
from gossamer.supervisor import GenServer, self_pid, send_after

__all__ = ["CLOCK", "ClockOffsets", "ahead"]

CLOCK = "audit.clock"
"""What other nodes call: the wall clock here."""
EVERY = 10.0
FIRST = 0.5
ASKS = 3
WITHIN = 2.0


def ahead(answers: list[tuple[float, float, float]]) -> float:
    """By how much the clock that was read before and after is ahead of the one that answered.

    Of (before, answer, after), the one with the shortest way.
    """
    before, answer, after = min(answers, key=lambda item: item[2] - item[0])
    return (before + after) / 2 - answer


class ClockOffsets(GenServer):
    """Tells ``found`` microseconds, every ten seconds. ``nodes`` names the others."""

    async def init(
        self, *, clock: Clock, nodes: Callable[[], list[str]], found: Callable[[int], None]
    ) -> None:
        self._clock = clock
        self._nodes = nodes
        self._found = found
        send_after(FIRST, self_pid(), "measure")

    async def handle_info(self, message: object) -> None:
        if message == "measure":
            await self._measure()
            send_after(EVERY, self_pid(), "measure")

    async def _measure(self) -> None:
        offsets = [0.0]
        for node in self._nodes():
            answers = []
            for _ in range(ASKS):
                before = self._clock.wall()
                answer = await remote.call(node, CLOCK, timeout=WITHIN)
                if isinstance(answer, remote.Returned) and isinstance(answer.value, float):
                    answers.append((before, answer.value, self._clock.wall()))
            if answers:
                offsets.append(ahead(answers))
        self._found(round(median(offsets) * 1_000_000))
