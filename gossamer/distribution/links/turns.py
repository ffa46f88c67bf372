"""Turns in which links call: a few at once, and first calls before the further channels of other links.

A call with TLS costs both ends milliseconds of processor. Nodes that start together would make all calls of
the mesh at once, run out of the time of a handshake together, and begin again together.

Rules: 1. Of each kind of call :data:`AT_ONCE` links make one at a time; a link that has had no answer for
:data:`TURN` seconds goes on calling without its turn.  2. Those that have failed before wait for each other
alone, so that silent peers do not hold up those that answer.  3. Links that only need their further channels
come after first calls, since their peer is up; after :data:`PATIENCE` seconds they no longer wait for these,
of which there may always be some.
"""

from __future__ import annotations

import enum
from asyncio import TimerHandle

from gossamer.supervisor import Pid, Runtime

AT_ONCE = 4
TURN = 2.0
PATIENCE = 3.0
YOUR_TURN = "your_turn"
"""Message to a link: call now."""


class Call(enum.Enum):
    """Kind of a call."""

    FIRST = "first"
    AGAIN = "again"
    """Call of a link whose last one failed."""
    FURTHER = "further"
    """First call of a link for its further channels: control is open."""


class Turns:
    """Turns of the links of one node."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting: dict[Call, dict[Pid, float]] = {kind: {} for kind in Call}
        """Links that wait, and since when; in order."""
        self._calling: dict[Call, dict[Pid, TimerHandle]] = {kind: {} for kind in Call}

    def ask(self, link: Pid, kind: Call) -> None:
        """Send :data:`YOUR_TURN` to ``link`` when it may make a call of that kind."""
        self._waiting[kind][link] = self._runtime.loop.time()
        self._next()

    def waits_to_call_again(self, link: Pid) -> bool:
        """Return whether a link waits behind others that have failed."""
        return link in self._waiting[Call.AGAIN]

    def free(self, link: Pid) -> None:
        """End the turn of ``link``, or its wait for one."""
        for kind in Call:
            self._waiting[kind].pop(link, None)
            timer = self._calling[kind].pop(link, None)
            if timer is not None:
                timer.cancel()
        self._next()

    def _next(self) -> None:
        for kind in (Call.FIRST, Call.AGAIN):
            while self._waiting[kind] and len(self._calling[kind]) < AT_ONCE:
                self._begin(kind)
        further, now = self._waiting[Call.FURTHER], self._runtime.loop.time()
        busy = self._waiting[Call.FIRST] or self._calling[Call.FIRST]
        while further and len(self._calling[Call.FURTHER]) < AT_ONCE:
            if busy and now < next(iter(further.values())) + PATIENCE:
                return
            self._begin(Call.FURTHER)

    def _begin(self, kind: Call) -> None:
        link = next(iter(self._waiting[kind]))
        del self._waiting[kind][link]
        # One that was killed has left its place.
        if self._runtime.send(link, YOUR_TURN):
            self._calling[kind][link] = self._runtime.loop.call_later(TURN, self.free, link)
