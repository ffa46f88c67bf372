"""Clusters that are split: which scenario a seed has, how one is lived through and judged."""

from __future__ import annotations

from gossamer.testing.campaign import Campaign, Life
from gossamer.testing.splits.invariants import violations
from gossamer.testing.splits.scenarios import SCENARIOS
from gossamer.testing.splits.world import SplitWorld


def scenario_of(seed: int) -> str:
    """Seeds take turns, so that a hundred have every scenario several times; every third one is random."""
    names = [name for name in SCENARIOS if name != "random"]
    return "random" if seed % 3 == 2 else names[(seed // 3 * 2 + seed % 3) % len(names)]


async def _live(life: Life) -> None:
    about = SCENARIOS[life.scenario]
    discs = life.directory if about.disc else None
    world = SplitWorld(life.sim, about.size, discs=discs, **about.options)
    world.notes = life.notes
    try:
        await world.begin()
        await about.script(world)
        await world.calm()
        life.problems.extend(violations(world))
        if about.check is not None and (problem := about.check(world)):
            life.problems.append(problem)
    finally:
        await world.end()


SPLITS = Campaign("gossamer.testing.splits", "scenario", tuple(sorted(SCENARIOS)), scenario_of, _live)
