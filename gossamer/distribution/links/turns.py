"""Turns of links to call: a few at once, whoever has no connection yet first.

A call with TLS costs both ends milliseconds of processor. Nodes that start together would make all calls of
the mesh at once, run out of the time of a handshake together, and begin again together.

Rules: 1. :data:`AT_ONCE` links of a node make their first call at once; one that has had no answer for
:data:`TURN` seconds goes on calling without its turn, so that silent peers do not hold up those that answer.
2. Links that only need their further channels come after these, one by one, since their peer is up; after
:data:`PATIENCE` seconds they no longer wait for first calls, of which there may always be some.
"""

from __future__ import annotations

from asyncio import TimerHandle

from gossamer.supervisor import Pid, Runtime

AT_ONCE = 4
TURN = 2.0
PATIENCE = 3.0
YOUR_TURN = "your_turn"
"""Message to a link: call now."""


class Turns:
    """Turns of the links of one node."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting: tuple[dict[Pid, float], dict[Pid, float]] = {}, {}
        """Links that wait for their first call, and for further channels, and since when; in order."""
        self._calling: tuple[dict[Pid, TimerHandle], dict[Pid, TimerHandle]] = {}, {}

    def ask(self, link: Pid, *, first: bool) -> None:
        """Send :data:`YOUR_TURN` to ``link`` when it may call; ``first``: it has no connection yet."""
        self._waiting[not first][link] = self._runtime.loop.time()
        self._next()

    def free(self, link: Pid) -> None:
        """End the turn of ``link``, or its wait for one."""
        for waiting, calling in zip(self._waiting, self._calling, strict=True):
            waiting.pop(link, None)
            timer = calling.pop(link, None)
            if timer is not None:
                timer.cancel()
        self._next()

    def _next(self) -> None:
        first, further = self._waiting
        while first and len(self._calling[0]) < AT_ONCE:
            self._begin(0)
        now = self._runtime.loop.time()
        while further and not self._calling[1]:
            if (first or self._calling[0]) and now < next(iter(further.values())) + PATIENCE:
                return
            self._begin(1)

    def _begin(self, kind: int) -> None:
        link = next(iter(self._waiting[kind]))
        del self._waiting[kind][link]
        # One that was killed has left its place.
        if self._runtime.send(link, YOUR_TURN):
            self._calling[kind][link] = self._runtime.loop.call_later(TURN, self.free, link)
