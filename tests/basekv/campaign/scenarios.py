"""Faults of ranges that change, by name; and the campaign that runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from gossamer.raft import BadMembershipError, NotReadyError
from gossamer.testing.campaign import Campaign
from gossamer.testing.links import LinkQuality
from gossamer.testing.network import SimNetwork
from tests.basekv.campaign.world import RangesWorld

ROUGH = LinkQuality(latency=0.004, jitter=0.02, loss=0.1, duplicate=0.1, reorder=0.2)
Fault = Callable[[RangesWorld], Awaitable[None]]


async def _change(world: RangesWorld) -> None:
    await (world.split if world.rng.random() < 0.55 else world.merge)()
    await world.pause(0.0, 0.8)


async def _crash(world: RangesWorld) -> None:
    world.crash(world.nodes[world.rng.choice(world.names)])
    await world.pause(0.0, 0.6)


async def _crash_all(world: RangesWorld) -> None:
    for node in world.nodes.values():
        world.kill(node)
    await world.pause(0.5, 2.0)


async def _cut(world: RangesWorld) -> None:
    names = list(world.names)
    world.rng.shuffle(names)
    place = world.rng.randrange(1, len(names))
    world.note("cut", *names[:place], "|", *names[place:])
    if world.rng.random() < 0.3:
        for one in names[:place]:
            for other in names[place:]:
                world.sim.cut(one, other, one_way=True)
    else:
        world.sim.partition(names[:place], names[place:])
    await _change(world)
    await world.pause(0.1, 2.5)
    world.note("heal")
    world.sim.heal()


async def _handover(world: RangesWorld) -> None:
    leading = [group for _, group, _ in world.machines() if group.leads]
    if leading:
        group = world.rng.choice(leading)
        try:
            group.replica.transfer(world.rng.choice(group.replica.membership.voters))
        except (NotReadyError, BadMembershipError):
            pass
    await world.pause(0.0, 0.4)


async def _full(world: RangesWorld) -> None:
    node = world.nodes[world.rng.choice(world.names)]
    node.disc.room = world.rng.randrange(5000)
    world.note("full", node.name)
    await _change(world)
    await world.pause(0.2, 2.0)
    node.disc.room = None


async def _leave(world: RangesWorld) -> None:
    """Have a node leave the cluster, whose replicas move, and come back."""
    if len(world.members) == len(world.names) > 3:
        gone = world.rng.choice(world.names)
        world.members.discard(gone)
        world.note("leaves", gone)
        await world.pause(0.5, 2.0)
        await _change(world)
        await world.pause(0.5, 3.0)
        world.members.add(gone)
    await world.pause(0.0, 0.5)


def _mixed(*faults: Fault) -> Fault:
    async def script(world: RangesWorld) -> None:
        await world.rng.choice(faults)(world)

    return script


# In an order that stays: a seed has the scenario of its place.
SCENARIOS: dict[str, Fault] = {
    "changes": _change,
    "crash": _mixed(_change, _crash),
    "crash all": _mixed(_change, _change, _crash_all),
    "cut": _mixed(_change, _cut),
    "rough": _mixed(_change, _change, _crash, _handover),
    "handover": _mixed(_change, _handover, _crash),
    "full disc": _mixed(_change, _full, _crash),
    "members": _mixed(_change, _leave, _crash),
    "everything": _mixed(_change, _change, _crash, _crash, _cut, _handover, _full, _leave, _crash_all),
}
WEATHER = ("rough", "everything")
SECONDS = (8.0, 16.0)


def scenario_of(seed: int) -> str:
    """Return the scenario of a seed."""
    return list(SCENARIOS)[seed % len(SCENARIOS)]


def _make(sim: SimNetwork, name: str, _directory: Path) -> RangesWorld:
    return RangesWorld(sim, count=4 if name == "members" else sim.rng("size").choice((3, 4, 5)))


async def _act(world: RangesWorld, name: str) -> None:
    """Do the scenario's faults until its time is over."""
    end = world.sim.loop.time() + world.rng.uniform(*SECONDS)
    if name in WEATHER and world.rng.random() < 0.7:
        world.sim.weather(ROUGH)
    await asyncio.sleep(1.0)
    while world.sim.loop.time() < end:
        await SCENARIOS[name](world)


RANGES = Campaign(
    "tests.basekv.campaign",
    "scenario",
    tuple(SCENARIOS),
    scenario_of,
    _make,
    _act,
    RangesWorld.violations,
)
