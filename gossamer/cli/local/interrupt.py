"""The first Ctrl-C cancels what runs, so that it cleans up; more of them do not stop the cleaning."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["Interrupt", "interruptible"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class Interrupt:
    """Whether somebody wanted it to end."""

    came: bool = False


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Inside, a signal cancels the current task, once; that cancellation ends here."""
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("there is no task that could be cancelled")
    loop = asyncio.get_running_loop()
    interrupt = Interrupt()

    def on_signal() -> None:
        if not interrupt.came:
            interrupt.came = True
            task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield interrupt
    except asyncio.CancelledError:
        if not interrupt.came:
            raise
        task.uncancel()
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
