"""Wait for a number to grow: writes that peers have applied, batches that are on disc."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain


class Watermark:
    """A growing number, returned by ``read``, and the futures that wait for it to reach others."""

    def __init__(self, read: Callable[[], int]) -> None:
        self.read = read
        self._waiters: dict[int, list[asyncio.Future[bool]]] = {}

    def reached(self, number: int, timeout: float | None) -> asyncio.Future[bool]:
        """Return a future: True once ``number`` is reached, False after ``timeout`` seconds."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        if number <= self.read():
            future.set_result(True)
            return future
        self._waiters.setdefault(number, []).append(future)
        if timeout is not None:
            timer = loop.call_later(timeout, self._late, number, future)
            future.add_done_callback(lambda _: timer.cancel())
        return future

    def moved(self) -> None:
        """Wake waiters whose number is reached."""
        if self._waiters:
            there = self.read()
            for number in [n for n in self._waiters if n <= there]:
                for future in self._waiters.pop(number):
                    if not future.done():
                        future.set_result(True)

    def fail(self, error: Exception) -> None:
        """Fail all waiters with an error: the number cannot grow now."""
        waiters, self._waiters = self._waiters, {}
        for future in chain(*waiters.values()):
            if not future.done():
                future.set_exception(error)
                # Mark it retrieved: the waiter may have given up.
                future.exception()

    def _late(self, number: int, future: asyncio.Future[bool]) -> None:
        if not future.done():
            self._waiters[number].remove(future)
            future.set_result(number <= self.read())
