"""The first Ctrl-C cancels what runs, so that it cleans up; more of them do not stop the cleaning."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class Interrupt:
    """Counts the signals to end."""

    came: int = 0


@contextmanager
def interruptible(on_signal: Callable[[int], object] = lambda _: None) -> Iterator[Interrupt]:
    """Cancel the current task once on a signal inside the block; the cancellation ends here.

    ``on_signal`` is called for each signal, with their number so far.
    """
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("there is no task that could be cancelled")
    loop = asyncio.get_running_loop()
    interrupt = Interrupt()

    def interrupted() -> None:
        interrupt.came += 1
        if interrupt.came == 1:
            task.cancel()
        on_signal(interrupt.came)

    for number in _SIGNALS:
        loop.add_signal_handler(number, interrupted)
    try:
        yield interrupt
    except asyncio.CancelledError:
        if not interrupt.came:
            raise
        task.uncancel()
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """uvloop's, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop
