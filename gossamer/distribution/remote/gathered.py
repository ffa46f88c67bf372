"""Calls of one function of another node that leave together.

Of each function one call is on its way to a node at a time; what is asked meanwhile makes the next. So a
thousand processes that want the same thing at once cost two nodes a few calls, and one that is alone waits
for nobody.

Rules: 1. Each call is made after it was asked for.  2. Calls that were answered by anything but values are
made again, one by one, unless the node cannot be reached: so a node of a release that does not know
:data:`.rpc.EACH` is served, and one call that fails is not the others'. The function must be one that may run
twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from gossamer.distribution.remote.rpc import EACH, Result, Returned, Unreachable, call

MOST = 128
"""Calls that leave together."""


class _Asked:
    """One call: its arguments, its answer, and until when it is waited for."""

    __slots__ = ("answer", "args", "until")

    def __init__(self, args: tuple[object, ...], answer: asyncio.Future[Result], until: float) -> None:
        self.args, self.answer, self.until = args, answer, until


class _Lane:
    """Calls of one function of one node, and the timer of the one that is waited for the shortest."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.waiting: list[_Asked] = []
        self.sent: list[_Asked] = []
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def add(self, args: tuple[object, ...], timeout: float) -> _Asked:
        until = self.loop.time() + timeout
        asked = _Asked(args, self.loop.create_future(), until)
        self.waiting.append(asked)
        if self._timer is None or until < self._due:
            self._wake(until)
        return asked

    def next(self) -> list[_Asked]:
        """Return the calls that leave now."""
        self.sent = [one for one in self.waiting[:MOST] if not one.answer.done()]
        del self.waiting[:MOST]
        return self.sent

    def close(self) -> None:
        """Cancel the timer, and answer who is left."""
        if self._timer is not None:
            self._timer.cancel()
        for one in self.sent + self.waiting:
            _answer(one, Unreachable("timeout"))

    def _wake(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due, self._timer = at, self.loop.call_at(at, self._expire)

    def _expire(self) -> None:
        self._timer = None
        left: list[float] = []
        for one in self.sent + self.waiting:
            if one.until <= self._due:
                _answer(one, Unreachable("timeout"))
            elif not one.answer.done():
                left.append(one.until)
        if left:
            self._wake(min(left))


class Gathered:
    """Makes calls together; ``spawn`` runs a function as a process."""

    def __init__(self, spawn: Callable[..., object]) -> None:
        self._spawn = spawn
        self._lanes: dict[tuple[str, str], _Lane] = {}

    async def call(self, node: str, function: str, /, *args: object, timeout: float = 5.0) -> Result:
        """Run ``function(*args)`` on ``node``, as :func:`.rpc.call` does."""
        if (node, function) in self._lanes:
            return await self._enter(node, function, args, timeout)
        lane = self._lanes[node, function] = _Lane(asyncio.get_running_loop())
        try:
            return await call(node, function, *args, timeout=timeout)
        finally:
            # What came meanwhile makes the next.
            if lane.waiting:
                self._spawn(self._serve, node, function, lane, label=f"rpc {function}")
            else:
                del self._lanes[node, function]

    async def multicall(
        self, nodes: Iterable[str], function: str, /, *args: object, timeout: float = 5.0
    ) -> dict[str, Result]:
        """Call on many nodes at once; return one result each, in the order of ``nodes``."""
        names = list(nodes)
        if len(names) == 1:
            return {names[0]: await self.call(names[0], function, *args, timeout=timeout)}
        results = await asyncio.gather(*(self.call(name, function, *args, timeout=timeout) for name in names))
        return dict(zip(names, results, strict=True))

    def cast(self, node: str, function: str, /, *args: object, timeout: float = 5.0) -> None:
        """Have ``function(*args)`` run on ``node``, whatever comes of it."""
        self._enter(node, function, args, timeout)

    def _enter(
        self, node: str, function: str, args: tuple[object, ...], timeout: float
    ) -> asyncio.Future[Result]:
        lane = self._lanes.get((node, function))
        if lane is None:
            lane = self._lanes[node, function] = _Lane(asyncio.get_running_loop())
            self._spawn(self._serve, node, function, lane, label=f"rpc {function}")
        return lane.add(args, timeout).answer

    async def _serve(self, node: str, function: str, lane: _Lane) -> None:
        try:
            while lane.waiting:
                if batch := lane.next():
                    await _ask(node, function, batch, max(one.until for one in batch) - lane.loop.time())
        finally:
            del self._lanes[node, function]
            lane.close()


async def _ask(node: str, function: str, batch: list[_Asked], timeout: float) -> None:
    if len(batch) > 1:
        found = await call(node, EACH, function, [one.args for one in batch], timeout=timeout)
        values = found.value if isinstance(found, Returned) else None
        if isinstance(values, list) and len(values) == len(batch):
            for one, value in zip(batch, values, strict=True):
                _answer(one, Returned(value))
            return
        if isinstance(found, Unreachable) and found.reason in ("timeout", "noconnection"):
            for one in batch:
                _answer(one, found)
            return
    answers = await asyncio.gather(*(call(node, function, *one.args, timeout=timeout) for one in batch))
    for one, result in zip(batch, answers, strict=True):
        _answer(one, result)


def _answer(one: _Asked, result: Result) -> None:
    """Answer a call, unless it was."""
    if not one.answer.done():
        one.answer.set_result(result)
