"""Scenarios of splits: shapes that are known to cause trouble, and random ones.

A scenario is a coroutine over a :class:`SplitWorld` that has begun; when it returns the world is calmed and
judged. A seed has one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from gossamer.testing.campaign import Campaign
from gossamer.testing.network import SimNetwork
from gossamer.testing.splits.invariants import violations
from gossamer.testing.splits.world import SplitWorld

Script = Callable[[SplitWorld], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """``options`` are settings of the cluster; ``disc``: the nodes keep what must survive."""

    script: Script
    size: int = 5
    disc: bool = False
    options: dict[str, object] = field(default_factory=dict)


async def _apart(world: SplitWorld, *groups: list[int]) -> None:
    world.split(*groups)
    # Long enough for the smallest side, which is the slowest to believe it, to declare all others dead.
    await world.pause(10, 45)
    world.heal()


def _split(*groups: list[int], survivors: int = 0) -> Scenario:
    """Cut into these groups, the one of that place surviving."""

    async def script(world: SplitWorld) -> None:
        await _apart(world, *groups)
        world.survivors = groups[survivors]

    return Scenario(script, sum(map(len, groups)))


SCENARIOS = {
    "3/2": _split([1, 2, 3], [4, 5]),
    "2/2/1": _split([1, 2], [3, 4], [5]),
    "total": _split([1], [2], [3]),
    "all nodes minority": _split([1], [2], [3], [4], [5]),
    "leader in the minority": _split([1, 2], [3, 4, 5], survivors=1),
    "two nodes": _split([1], [2]),
}


def _scenario(
    name: str, *, size: int = 5, disc: bool = False, **options: object
) -> Callable[[Script], Script]:
    def add(script: Script) -> Script:
        SCENARIOS[name] = Scenario(script, size, disc, options)
        return script

    return add


@_scenario("asymmetric")
async def _asymmetric(world: SplitWorld) -> None:
    one, other = world.rng.sample(world.nodes, 2)
    world.cut(one, other, one_way=True)
    await world.pause(15, 45)


@_scenario("partial")
async def _partial(world: SplitWorld) -> None:
    world.cut(*world.rng.sample(world.nodes, 2))
    await world.pause(15, 45)


@_scenario("overlapping", size=4)
async def _overlapping(world: SplitWorld) -> None:
    """1-2, 2-3 and 3-4 hold."""
    for one, other in ((1, 3), (1, 4), (2, 4)):
        world.cut(one, other)
    await world.pause(15, 45)


@_scenario("flapping")
async def _flapping(world: SplitWorld) -> None:
    for _ in range(world.rng.randrange(3, 8)):
        side = world.rng.sample(world.nodes, world.rng.randrange(1, 3))
        world.split(side, [number for number in world.nodes if number not in side])
        await world.pause(0.3, 9)
        world.heal()
        await world.pause(0.3, 6)


@_scenario("rolling")
async def _rolling(world: SplitWorld) -> None:
    for number in world.nodes:
        world.split([number], [other for other in world.nodes if other != number])
        await world.pause(6, 12)
        world.heal()
        await world.pause(0.5, 8)


@_scenario("dead leader")
async def _dead_leader(world: SplitWorld) -> None:
    await _apart(world, [1, 2, 3], [4, 5])
    await world.pause(0, 12)
    world.crash(1, world.rng.choice(("kill", "reset", "silence")))
    await world.pause(30, 60)


@_scenario("coordinator killed mid-heal", disc=True)
async def _dead_coordinator(world: SplitWorld) -> None:
    await _apart(world, [1, 2], [3, 4, 5])
    for _ in range(400):
        await asyncio.sleep(0.1)
        coordinator = world.cluster.nodes[3]
        plan = coordinator.healing.plan
        if plan is not None and plan.coordinator == coordinator.name:
            break
    await world.pause(0, 0.6)
    world.crash(3)
    await world.pause(3, 40)


@_scenario("second split during a heal")
async def _second_split(world: SplitWorld) -> None:
    await _apart(world, [1, 2, 3], [4, 5])
    await world.pause(5, 12)
    await _apart(world, *world.rng.choice((([1, 2, 3, 4], [5]), ([1, 2], [3, 4, 5]), ([1, 4, 5], [2, 3]))))


@_scenario("autoclean and autoheal at once", autoclean=20.0)
async def _autoclean(world: SplitWorld) -> None:
    world.split([1, 2, 3], [4, 5])
    await world.pause(10, 60)
    if world.rng.random() < 0.5:
        world.crash(world.rng.choice((2, 3, 5)), "silence")
        await world.pause(0, 40)
    world.heal()
    await world.pause(0, 30)


@_scenario("back with an old disc", disc=True)
async def _old_disc(world: SplitWorld) -> None:
    """A node is away while rows are written and deleted, and half of the time comes back into a split."""
    world.crash(world.rng.choice((2, 4)))
    await world.pause(20, 60)
    if world.rng.random() < 0.5:
        world.split([1, 2, 3], [4, 5])
        await world.pause(0, 10)
        for number in (2, 4):
            if number not in world.cluster.nodes:
                await world.restart(number)
        await world.pause(10, 20)


@_scenario("corrupted plan file", disc=True)
async def _corrupted(world: SplitWorld) -> None:
    await _apart(world, [1, 2, 3], [4, 5])
    await world.pause(3, 12)
    number = world.rng.choice((1, 4))
    world.crash(number)
    directory = world.cluster.disc_of(number)
    assert directory is not None  # noqa: S101 - the scenario has discs
    file = directory / "autoheal.json"
    if file.exists():
        content = bytearray(file.read_bytes())
        del content[world.rng.randrange(len(content)) :]
        file.write_bytes(bytes(content))
    await world.pause(1, 10)
    await world.restart(number)


@_scenario("random")
async def _random(world: SplitWorld) -> None:
    for _ in range(10):
        match world.rng.randrange(6):
            case 0 | 1:
                side = world.rng.sample(world.nodes, world.rng.randrange(1, 4))
                world.split(side, [number for number in world.nodes if number not in side])
            case 2:
                world.cut(*world.rng.sample(world.nodes, 2), one_way=world.rng.random() < 0.5)
            case 3:
                world.heal()
            case 4 if len(world.cluster.nodes) > 2:
                victim = world.rng.choice(sorted(world.cluster.nodes))
                world.crash(victim, world.rng.choice(("kill", "reset", "silence")))
            case _ if len(world.cluster.nodes) < world.size:
                gone = [number for number in world.nodes if number not in world.cluster.nodes]
                await world.restart(world.rng.choice(gone))
        await world.pause(0, 12)


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
