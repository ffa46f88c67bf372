"""Clusters that are split: which scenario a seed has, and how its world is made."""

from __future__ import annotations

from pathlib import Path

from gossamer.testing.campaign import Campaign
from gossamer.testing.network import SimNetwork
from gossamer.testing.splits.invariants import violations
from gossamer.testing.splits.scenarios import SCENARIOS
from gossamer.testing.splits.world import SplitWorld


def scenario_of(seed: int) -> str:
    """Seeds take turns, so that a hundred have every scenario several times; every third one is random."""
    names = [name for name in SCENARIOS if name != "random"]
    return "random" if seed % 3 == 2 else names[(seed // 3 * 2 + seed % 3) % len(names)]


def _make(sim: SimNetwork, name: str, directory: Path) -> SplitWorld:
    about = SCENARIOS[name]
    return SplitWorld(sim, about.size, discs=directory if about.disc else None, **about.options)


async def _act(world: SplitWorld, name: str) -> None:
    await SCENARIOS[name].script(world)


SPLITS = Campaign(
    "gossamer.testing.splits", "scenario", tuple(sorted(SCENARIOS)), scenario_of, _make, _act, violations
)
