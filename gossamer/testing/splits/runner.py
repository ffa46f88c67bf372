"""One seed is one life of one cluster; many of them run side by side, each in a process of a pool."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import structlog

from gossamer.testing.network import SimNetwork
from gossamer.testing.seeds import run_simulation
from gossamer.testing.splits.invariants import violations
from gossamer.testing.splits.scenarios import SCENARIOS
from gossamer.testing.splits.world import World

__all__ = ["Outcome", "run_seed", "run_seeds"]

_SHOWN = 12
_SILENT = 50


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a seed: what did not hold, seconds of a processor, virtual seconds."""

    seed: int
    scenario: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    digest: str
    seconds: float
    virtual: float

    @property
    def ok(self) -> bool:
        """All held."""
        return not self.problems

    def __str__(self) -> str:
        head = f"seed {self.seed} ({self.scenario}): {'ok' if self.ok else 'FAILED'}"
        head += f", {self.virtual:.0f} s in {self.seconds:.1f} s, digest {self.digest}"
        if self.ok:
            return head
        more = len(self.problems) - _SHOWN
        lines = [f"  {problem}" for problem in self.problems[:_SHOWN]]
        lines += [f"  and {more} more"] if more > 0 else []
        lines += ["  what happened:", *(f"  {note}" for note in self.notes)]
        lines.append(
            f"  replay: python -m gossamer.testing.splits --seed {self.seed} --scenario '{self.scenario}'"
        )
        return "\n".join([head, *lines])


def scenario_of(seed: int) -> str:
    """Seeds take turns, so that a hundred have every scenario several times; every third one is random."""
    names = [name for name in SCENARIOS if name != "random"]
    return "random" if seed % 3 == 2 else names[(seed // 3 * 2 + seed % 3) % len(names)]


def run_seed(seed: int, scenario: str = "") -> Outcome:
    """Live through one seed, and judge it. ``scenario`` blank: the seed's own."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_SILENT))
    name = scenario or scenario_of(seed)
    about = SCENARIOS[name]
    notes: list[str] = []
    problems: list[str] = []
    virtual = 0.0
    begun = time.process_time()

    async def life(sim: SimNetwork) -> None:
        nonlocal virtual
        with tempfile.TemporaryDirectory(prefix="gossamer-splits-") as directory:
            world = World(sim, about.size, discs=Path(directory) if about.disc else None, **about.options)
            world.notes = notes
            try:
                await world.begin()
                await about.script(world)
                await world.calm()
                problems.extend(violations(world))
                if about.check is not None and (problem := about.check(world)):
                    problems.append(problem)
            finally:
                virtual = sim.loop.time()
                await world.end()

    digest = ""
    try:
        _, digest = run_simulation(life, seed=seed)
    except Exception as error:  # noqa: BLE001  whatever it is, it is this seed's outcome
        problems.append(f"{type(error).__name__}: {error}")
    return Outcome(seed, name, tuple(problems), tuple(notes), digest, time.process_time() - begun, virtual)


def run_seeds(seeds: Iterable[int], scenario: str = "", jobs: int = 1) -> Iterator[Outcome]:
    """Live through many, ``jobs`` at a time; outcomes in the order of the seeds."""
    if jobs == 1:
        yield from (run_seed(seed, scenario) for seed in seeds)
        return
    numbers = list(seeds)
    # A fresh interpreter for each: what a fork of a running loop would carry along is nobody's guess.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        yield from pool.map(run_seed, numbers, [scenario] * len(numbers), chunksize=4)
