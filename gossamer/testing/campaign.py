"""Campaigns: run simulated clusters seed by seed, judge each run, and print how to replay failures.

A :class:`Campaign` has scenarios by name. Many seeds run side by side, each in a process of a pool.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Generic, TypeVar

import structlog

from gossamer.testing.cluster import SimCluster
from gossamer.testing.medium import Crash
from gossamer.testing.network import SimNetwork
from gossamer.testing.seeds import fix_hashes, run_simulation

_SHOWN = 12
_SILENT, _INFO = 50, 20
_EACH = 100
"""Number of seeds up to which each success is printed; above it, every hundredth."""


class World:
    """World of one run: its network, a random generator, and notes of events."""

    def __init__(self, sim: SimNetwork, rng: Random) -> None:
        self.sim = sim
        self.rng = rng
        self.notes: list[str] = []
        """For the report of a seed that fails."""

    async def begin(self) -> None:
        """Start nodes and clients."""
        raise NotImplementedError

    async def calm(self) -> None:
        """End the faults and the load, and let everything come to rest."""
        raise NotImplementedError

    async def end(self) -> None:
        """Stop everything."""
        raise NotImplementedError

    def details(self) -> list[str]:
        """Return further notes, for the analysis of one seed."""
        return []

    async def pause(self, least: float, most: float) -> None:
        """Let a random time pass."""
        await asyncio.sleep(self.rng.uniform(least, most))

    def note(self, *what: object) -> None:
        """Take a note, with its time."""
        self.notes.append(f"{self.sim.loop.time():9.3f} {' '.join(map(str, what))}")


class ClusterWorld(World):
    """World of a cluster of whole nodes, and actions on it."""

    def __init__(self, sim: SimNetwork, cluster: SimCluster, rng: Random) -> None:
        super().__init__(sim, rng)
        self.cluster = cluster

    # -- weather

    def heal(self) -> None:
        """Mend every cut."""
        self.note("heal")
        self.cluster.heal()

    def crash(self, number: int, how: Crash = "kill") -> None:
        """End a node at once."""
        self.note("crash", number, how)
        self.cluster.crash(number, how)

    async def restart(self, number: int) -> None:
        """Restart a node that was stopped or has crashed, with its old disc."""
        self.note("restart", number)
        await self.cluster.restart(number)


W = TypeVar("W", bound=World)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a seed: violations, events, processor seconds, virtual seconds."""

    seed: int
    scenario: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    digest: str
    seconds: float
    virtual: float
    replay: str
    """Command that replays it."""

    @property
    def ok(self) -> bool:
        """True if nothing was violated."""
        return not self.problems

    def __str__(self) -> str:
        head = f"seed {self.seed} ({self.scenario}): {'ok' if self.ok else 'FAILED'}"
        head += f", {self.virtual:.0f} s in {self.seconds:.1f} s, digest {self.digest}"
        if self.ok:
            return head
        more = len(self.problems) - _SHOWN
        lines = [*self.problems[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        lines += ["what happened:", *self.notes, f"replay: {self.replay}"]
        return "\n  ".join([head, *lines])


@dataclass(frozen=True)
class Campaign(Generic[W]):
    """Run as ``python -m module``, with ``--option`` for one scenario.

    ``make`` builds the world of a scenario, with a directory for discs; ``act`` runs it, and ``judge``
    returns the violations afterwards. They are functions of modules: each process imports them.
    """

    module: str
    option: str
    scenarios: tuple[str, ...]
    scenario_of: Callable[[int], str]
    make: Callable[[SimNetwork, str, Path], W]
    act: Callable[[W, str], Awaitable[None]]
    judge: Callable[[W], Iterable[str]]

    def run_seed(self, seed: int, scenario: str = "", *, verbose: bool = False) -> Outcome:
        """Live through one seed, and judge it. ``scenario`` blank: the seed's own."""
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(_INFO if verbose else _SILENT)
        )
        name = scenario or self.scenario_of(seed)
        notes: list[str] = []
        problems: list[str] = []
        begun = time.process_time()
        virtual, digest = 0.0, ""

        async def life(sim: SimNetwork) -> None:
            nonlocal virtual
            with tempfile.TemporaryDirectory(prefix="gossamer-life-") as directory:
                world = self.make(sim, name, Path(directory))
                try:
                    await world.begin()
                    await self.act(world, name)
                    await world.calm()
                    problems.extend(self.judge(world))
                finally:
                    notes.extend([*world.notes, *(world.details() if verbose else ())])
                    await world.end()
                    virtual = sim.loop.time()

        try:
            _, digest = run_simulation(life, seed=seed)
        except Exception as error:  # noqa: BLE001  whatever it is, it is this seed's outcome
            problems.append(f"{type(error).__name__}: {error}")
        seconds = time.process_time() - begun
        replay = f"python -m {self.module} --seed {seed} --{self.option} '{name}'"
        return Outcome(seed, name, tuple(problems), tuple(sorted(notes)), digest, seconds, virtual, replay)

    def run_seeds(self, seeds: Iterable[int], scenario: str = "", jobs: int = 1) -> Iterator[Outcome]:
        """Live through many, ``jobs`` at a time; outcomes in the order of the seeds."""
        run = partial(self.run_seed, scenario=scenario)
        if jobs == 1:
            yield from map(run, seeds)
            return
        # A fresh interpreter for each: forking a running loop is undefined.
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield from pool.map(run, list(seeds))

    def main(self, *, seeds: int) -> None:
        """Run the command, by default with ``seeds`` seeds; exit code 0 if nothing was violated."""
        fix_hashes()
        parser = argparse.ArgumentParser(
            prog=f"python -m {self.module}",
            description="Seed after seed is lived through; a failing one says how to replay it.",
        )
        parser.add_argument("--seeds", type=int, default=seeds, help="how many (10000 for a night)")
        parser.add_argument("--first", type=int, default=0, help="the first of them")
        parser.add_argument("--seed", type=int, help="only this one, with all that it says")
        parser.add_argument(
            f"--{self.option}", dest="scenario", choices=self.scenarios, default="", help="always this one"
        )
        parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
        given = parser.parse_args()
        if given.seed is not None:
            outcome = self.run_seed(given.seed, given.scenario, verbose=True)
            _say(outcome)
            sys.exit(not outcome.ok)
        bad = 0
        begun = time.monotonic()
        numbers = range(given.first, given.first + given.seeds)
        for count, outcome in enumerate(self.run_seeds(numbers, given.scenario, given.jobs), 1):
            bad += not outcome.ok
            if not outcome.ok or given.seeds <= _EACH:
                _say(outcome)
            if count % _EACH == 0 or count == given.seeds:
                _say(f"{count} seeds, {bad} failed, {time.monotonic() - begun:.0f} s")
        sys.exit(bool(bad))


def _say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()
