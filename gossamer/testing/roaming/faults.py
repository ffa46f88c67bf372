"""The faults that travellers meet, one kind again and again in a life."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gossamer.testing.campaign import Campaign, Life
from gossamer.testing.roaming.world import SIZE, RoamingWorld

Fault = Callable[[RoamingWorld], Awaitable[None]]

FAULTS: dict[str, Fault] = {}


def _fault(name: str) -> Callable[[Fault], Fault]:
    def add(script: Fault) -> Fault:
        FAULTS[name] = script
        return script

    return add


@_fault("none")
async def _none(world: RoamingWorld) -> None:
    await world.pause(20, 30)


@_fault("kill")
async def _kill(world: RoamingWorld) -> None:
    for _ in range(3):
        await world.pause(2, 8)
        number = world.any_node()
        world.kill(number)
        await world.pause(0.2, 10)
        await world.restart(number)
    await world.pause(2, 8)


@_fault("kill two")
async def _kill_two(world: RoamingWorld) -> None:
    await world.pause(2, 8)
    down = [world.any_node()]
    world.kill(down[0])
    await world.pause(0, 4)
    down.append(world.any_node())
    world.kill(down[1])
    for number in world.rng.sample(down, 2):
        await world.pause(0.5, 6)
        await world.restart(number)
    await world.pause(2, 8)


@_fault("kill all")
async def _kill_all(world: RoamingWorld) -> None:
    await world.pause(4, 10)
    for number in sorted(world.cluster.nodes):
        world.kill(number)
    await world.pause(0.5, 3)
    await asyncio.gather(*(world.restart(number) for number in range(1, SIZE + 1)))
    await world.pause(2, 8)


@_fault("pause")
async def _pause(world: RoamingWorld) -> None:
    for _ in range(3):
        await world.pause(2, 6)
        number = world.any_node()
        world.freeze(number)
        await world.pause(1, 15)
        world.thaw(number)
    await world.pause(2, 8)


@_fault("cut")
async def _cut(world: RoamingWorld) -> None:
    for _ in range(2):
        await world.pause(2, 6)
        world.cut(world.any_node())
        await world.pause(1, 15)
        world.heal()
    await world.pause(2, 8)


@_fault("cut and kill")
async def _cut_and_kill(world: RoamingWorld) -> None:
    await world.pause(2, 6)
    world.cut(world.any_node())
    await world.pause(1, 10)
    number = world.any_node()
    world.kill(number)
    await world.pause(1, 6)
    if world.rng.random() < 0.5:
        world.heal()
    await world.restart(number)
    await world.pause(1, 6)
    world.heal()
    await world.pause(2, 8)


@_fault("rolling restart")
async def _rolling(world: RoamingWorld) -> None:
    for number in range(1, SIZE + 1):
        await world.pause(2, 5)
        await world.stop(number)
        await world.pause(0.5, 3)
        await world.restart(number)
    await world.pause(2, 8)


@_fault("one way")
async def _one_way(world: RoamingWorld) -> None:
    for _ in range(2):
        await world.pause(2, 6)
        world.mute(world.any_node())
        await world.pause(1, 15)
        world.heal()
    await world.pause(2, 8)


@_fault("flap")
async def _flap(world: RoamingWorld) -> None:
    for _ in range(6):
        await world.pause(0.5, 4)
        world.cut(world.any_node())
        await world.pause(0.2, 4)
        world.heal()
    await world.pause(2, 8)


@_fault("full disc")
async def _full_disc(world: RoamingWorld) -> None:
    for _ in range(2):
        await world.pause(2, 6)
        room = world.fill(world.any_node())
        await world.pause(1, 12)
        room()
    await world.pause(2, 8)


@_fault("join")
async def _join(world: RoamingWorld) -> None:
    await world.pause(2, 8)
    await world.join()
    await world.pause(5, 15)


def _fault_of(seed: int) -> str:
    return list(FAULTS)[seed % len(FAULTS)]


async def _live(life: Life) -> None:
    world = RoamingWorld(life.sim, life.directory)
    world.notes = life.notes
    try:
        await world.begin()
        await FAULTS[life.scenario](world)
        await world.calm()
        life.problems.extend(world.violations())
    finally:
        if life.verbose:
            life.notes.extend(line for one in world.travellers for line in one.log)
        await world.end()


ROAMING = Campaign("gossamer.testing.roaming", "fault", tuple(sorted(FAULTS)), _fault_of, _live)
