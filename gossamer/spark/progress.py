"""What a run says while it lasts: bars on a terminal, a line a job anywhere else.

Rule: it goes to standard error, so that standard output is the answer alone.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Progress"]

_EVERY = 0.5


class Progress:
    """``with progress.of("completeness"): …``; one at a time."""

    def __init__(self, session: Any, *, quiet: bool = False) -> None:
        self._session = session
        self._quiet = quiet

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Tell of what Spark does while the block runs."""
        if self._quiet:
            yield
        elif sys.stderr.isatty():
            with self._bar(name):
                yield
        else:
            began = time.monotonic()
            self._say(f"{name}: started")
            yield
            self._say(f"{name}: done in {time.monotonic() - began:.1f} s")

    def _say(self, line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    @contextmanager
    def _bar(self, name: str) -> Iterator[None]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        columns = (
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description:<14}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("tasks"),
            TimeElapsedColumn(),
        )
        over = threading.Event()
        with Bars(*columns, console=Console(stderr=True)) as bars:
            task = bars.add_task(name, total=None)
            # What was done in stages that are over is asked of nobody: it is kept here.
            done: dict[int, tuple[int, int]] = {}

            def watch() -> None:
                tracker = self._session.sparkContext.statusTracker()
                while not over.wait(_EVERY):
                    for stage in tracker.getActiveStageIds():
                        info = tracker.getStageInfo(stage)
                        if info is not None:
                            done[stage] = (info.numCompletedTasks, info.numTasks)
                    finished = sum(tasks for tasks, _ in done.values())
                    bars.update(task, completed=finished, total=sum(known for _, known in done.values()))

            watcher = threading.Thread(target=watch, name=f"progress of {name}", daemon=True)
            watcher.start()
            try:
                yield
            finally:
                over.set()
                watcher.join()
            whole = max(1, sum(known for _, known in done.values()))
            bars.update(task, completed=whole, total=whole)
