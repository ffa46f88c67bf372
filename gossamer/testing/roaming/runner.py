"""One seed is one life of one cluster; many of them run side by side, each in a process of a pool."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from gossamer.testing.network import SimNetwork
from gossamer.testing.roaming.world import FAULTS, RoamingWorld
from gossamer.testing.seeds import run_simulation

__all__ = ["Outcome", "run_seed", "run_seeds"]

_SHOWN = 12
_SILENT, _INFO = 50, 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a seed: what did not hold, what happened, seconds of a processor."""

    seed: int
    fault: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        head = f"seed {self.seed} ({self.fault}): {'FAILED' if self.problems else 'ok'}, {self.seconds:.1f} s"
        if not self.problems:
            return head
        lines = [*self.problems[:_SHOWN], *self.notes]
        replay = f"  replay: python -m gossamer.testing.roaming --seed {self.seed} --fault '{self.fault}'"
        return "\n".join([head, *(f"  {line}" for line in lines), replay])


def run_seed(seed: int, fault: str = "", *, verbose: bool = False) -> Outcome:
    """Live through one seed, and judge it. ``fault`` blank: the seed's own."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_INFO if verbose else _SILENT))
    name = fault or list(FAULTS)[seed % len(FAULTS)]
    problems: list[str] = []
    notes: list[str] = []
    begun = time.process_time()

    async def life(sim: SimNetwork) -> None:
        with tempfile.TemporaryDirectory(prefix="gossamer-roaming-") as directory:
            world = RoamingWorld(sim, Path(directory))
            try:
                await world.begin()
                await FAULTS[name](world)
                await world.calm()
                problems.extend(world.violations())
            finally:
                notes.extend(world.notes)
                if verbose:
                    notes.extend(line for one in world.travellers for line in one.log)
                await world.end()

    try:
        run_simulation(life, seed=seed)
    except Exception as error:  # noqa: BLE001  whatever it is, it is this seed's outcome
        problems.append(f"{type(error).__name__}: {error}")
    return Outcome(seed, name, tuple(problems), tuple(sorted(notes)), time.process_time() - begun)


def run_seeds(seeds: Iterable[int], fault: str = "", jobs: int = 1) -> Iterator[Outcome]:
    """Live through many, ``jobs`` at a time; outcomes in the order of the seeds."""
    run = partial(run_seed, fault=fault)
    if jobs == 1:
        yield from map(run, seeds)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(run, list(seeds))
