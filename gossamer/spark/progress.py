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

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self.session: Any = None
        """Whose tasks are told of; until there is one, only time passes."""

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
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        columns = (
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description:<12}"),
            BarColumn(30),
            TimeElapsedColumn(),
            TextColumn("{task.fields[doing]}"),
        )
        over = threading.Event()
        with Bars(*columns, console=Console(stderr=True)) as bars:
            task = bars.add_task(name, total=None, doing="")
            seen = set[int]()

            def watch() -> None:
                while not over.wait(_EVERY):
                    if self.session is None:
                        continue
                    done, known = 0, 0
                    tracker = self.session.sparkContext.statusTracker()
                    for number in tracker.getActiveStageIds():
                        stage = tracker.getStageInfo(number)
                        if stage is not None:
                            seen.add(number)
                            done += stage.numCompletedTasks
                            known += stage.numTasks
                    if done < known:
                        told = f"step {len(seen)}: {done} of {known} tasks"
                        bars.update(task, completed=done, total=known, doing=told)
                    else:
                        # Nothing runs, and how many steps there will be is not known before they come.
                        bars.update(task, completed=0, total=None, doing="planning")

            watcher = threading.Thread(target=watch, name=f"progress of {name}", daemon=True)
            watcher.start()
            try:
                yield
            except BaseException:
                # What went wrong is said in a sentence, and not by a bar that stands still.
                bars.update(task, visible=False)
                raise
            finally:
                over.set()
                watcher.join()
            bars.update(task, completed=1, total=1, doing="")
