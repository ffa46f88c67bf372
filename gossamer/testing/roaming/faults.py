"""Faults that travellers meet, one kind repeatedly per run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

from gossamer.testing.campaign import Campaign
from gossamer.testing.network import SimNetwork
from gossamer.testing.roaming.world import SIZE, RoamingWorld, Seconds


def _again(
    times: int,
    fault: Callable[[RoamingWorld, int], AbstractAsyncContextManager[None]],
    *,
    before: Seconds = (2, 6),
    lasts: Seconds = (1, 15),
) -> Callable[[RoamingWorld], Awaitable[None]]:
    """Return a script that applies a fault to one random node after another."""

    async def script(world: RoamingWorld) -> None:
        for _ in range(times):
            await world.pause(*before)
            async with fault(world, world.any_node()):
                await world.pause(*lasts)
        await world.pause(2, 8)

    return script


async def _none(world: RoamingWorld) -> None:
    await world.pause(20, 30)


async def _kill_two(world: RoamingWorld) -> None:
    await world.pause(2, 8)
    down = [world.any_node()]
    world.crash(down[0])
    await world.pause(0, 4)
    down.append(world.any_node())
    world.crash(down[1])
    for number in world.rng.sample(down, 2):
        await world.pause(0.5, 6)
        await world.restart(number)
    await world.pause(2, 8)


async def _kill_all(world: RoamingWorld) -> None:
    await world.pause(4, 10)
    for number in sorted(world.cluster.nodes):
        world.crash(number)
    await world.pause(0.5, 3)
    await asyncio.gather(*(world.restart(number) for number in range(1, SIZE + 1)))
    await world.pause(2, 8)


async def _cut_and_kill(world: RoamingWorld) -> None:
    await world.pause(2, 6)
    world.cut(world.any_node())
    await world.pause(1, 10)
    async with world.down(world.any_node()):
        await world.pause(1, 6)
        if world.rng.random() < 0.5:
            world.heal()
    await world.pause(1, 6)
    world.heal()
    await world.pause(2, 8)


async def _rolling(world: RoamingWorld) -> None:
    for number in range(1, SIZE + 1):
        await world.pause(2, 5)
        await world.stop(number)
        await world.pause(0.5, 3)
        await world.restart(number)
    await world.pause(2, 8)


async def _join(world: RoamingWorld) -> None:
    await world.pause(2, 8)
    await world.join()
    await world.pause(5, 15)


# In an order that stays: a seed has the fault of its place.
FAULTS: dict[str, Callable[[RoamingWorld], Awaitable[None]]] = {
    "none": _none,
    "kill": _again(3, RoamingWorld.down, before=(2, 8), lasts=(0.2, 10)),
    "kill two": _kill_two,
    "kill all": _kill_all,
    "pause": _again(3, RoamingWorld.frozen),
    "cut": _again(2, RoamingWorld.cut_off),
    "cut and kill": _cut_and_kill,
    "rolling restart": _rolling,
    "one way": _again(2, partial(RoamingWorld.cut_off, one_way=True)),
    "flap": _again(6, RoamingWorld.cut_off, before=(0.5, 4), lasts=(0.2, 4)),
    "full disc": _again(2, RoamingWorld.full, lasts=(1, 12)),
    "join": _join,
    "kill fast": _again(6, RoamingWorld.down, before=(0.2, 3), lasts=(0.2, 0.9)),
}


def _fault_of(seed: int) -> str:
    return list(FAULTS)[seed % len(FAULTS)]


def _make(sim: SimNetwork, _name: str, directory: Path) -> RoamingWorld:
    return RoamingWorld(sim, directory)


async def _act(world: RoamingWorld, name: str) -> None:
    await FAULTS[name](world)


ROAMING = Campaign(
    "gossamer.testing.roaming",
    "fault",
    tuple(sorted(FAULTS)),
    _fault_of,
    _make,
    _act,
    RoamingWorld.violations,
)
