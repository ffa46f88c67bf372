"""Many runs, some of them side by side, each cluster in namespaces of its own.

A run moves its thread to where its clients are and counts on its share of the processor, so runs side by side
are processes; they live for many runs, as does what their nodes are forked from.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import shutil
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from .nodes import die_with_parent
from .report import Line, broken, error_line, line_of
from .run import Plan, run

LAST_RUN = 45.0
"""Seconds before time is up in which no run is begun."""


@dataclass(frozen=True, slots=True)
class Manner:
    """``keep``: below it a directory a run, removed where all promises were kept unless ``keep_all``."""

    keep: Path
    keep_all: bool = False
    jobs: int = 1
    minutes: float = 0
    busy: int = 0


def matrix(plans: Iterable[Plan], manner: Manner) -> Iterator[Line]:
    """The line of each run as it ends."""
    began = time.monotonic()
    placed = _placed(plans, manner.keep)

    def next_plan() -> tuple[Plan, Path] | None:
        left = manner.minutes * 60 - (time.monotonic() - began) if manner.minutes else LAST_RUN
        return next(placed, None) if left >= LAST_RUN else None

    if manner.jobs == 1:
        while (job := next_plan()) is not None:
            yield _one(*job, manner)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(manner.jobs, context, initializer=die_with_parent) as pool:
        going: set[Future[Line]] = set()
        job = next_plan()
        while going or job is not None:
            while job is not None and len(going) < manner.jobs:
                going.add(pool.submit(_one, *job, manner))
                job = next_plan()
            done, going = wait(going, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def _placed(plans: Iterable[Plan], keep: Path) -> Iterator[tuple[Plan, Path]]:
    """Each with a directory that no other run has, had one the same plan."""
    taken: set[Path] = set()
    for number, plan in enumerate(plans, 1):
        directory = keep / f"{plan.fault}-{plan.seed}"
        if directory in taken or directory.exists():
            directory = directory.with_name(f"{directory.name}-{number}")
        taken.add(directory)
        yield plan, directory


def _one(plan: Plan, directory: Path, manner: Manner) -> Line:
    try:
        line = line_of(asyncio.run(run(plan, directory)), busy=manner.busy)
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001
        # The run has no verdict, which its line says; those after it are none the worse for it.
        return error_line(plan, directory, error, busy=manner.busy)
    if not (broken(line) or manner.keep_all):
        shutil.rmtree(directory, ignore_errors=True)
    return line
