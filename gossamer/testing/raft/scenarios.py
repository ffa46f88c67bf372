"""Faults of the simulated group, by name; and the campaign that runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from gossamer.raft import NotReadyError
from gossamer.testing.campaign import Campaign
from gossamer.testing.links import LinkQuality
from gossamer.testing.network import SimNetwork
from gossamer.testing.raft.world import RaftWorld

ROUGH = LinkQuality(latency=0.004, jitter=0.02, loss=0.15, duplicate=0.1, reorder=0.2)
Fault = Callable[[RaftWorld], Awaitable[None]]


async def _none(world: RaftWorld) -> None:
    await world.pause(0.1, 0.5)


async def _crash(world: RaftWorld) -> None:
    world.crash(world.rng.choice(world.nodes))
    await world.pause(0.05, 1.0)


async def _crash_leader(world: RaftWorld) -> None:
    leader = world.leader()
    if leader is not None:
        world.crash(leader)
    await world.pause(0.2, 1.5)


async def _crash_all(world: RaftWorld) -> None:
    for node in world.running():
        node.crash("killed, as all")
    await world.pause(1.0, 3.0)


async def _cut(world: RaftWorld) -> None:
    world.cut()
    await world.pause(0.1, 3.0)
    world.heal()
    await world.pause(0.0, 1.0)


async def _one_way(world: RaftWorld) -> None:
    world.cut(one_way=True)
    await world.pause(0.1, 3.0)
    world.heal()
    await world.pause(0.0, 1.0)


async def _rough(world: RaftWorld) -> None:
    world.sim.weather(ROUGH)
    await world.pause(0.5, 2.0)


async def _full(world: RaftWorld) -> None:
    node = world.rng.choice(world.nodes)
    node.disc.room = world.rng.randrange(5000)
    world.note("full", node.number)
    await world.pause(0.2, 2.5)
    node.disc.room = None
    await world.pause(0.0, 0.5)


async def _failed_sync(world: RaftWorld) -> None:
    node = world.rng.choice(world.nodes)
    node.disc.fails_sync = True
    world.note("sync fails", node.number)
    await world.pause(0.0, 0.2)
    if node.replica is not None:
        node.crash("killed")
    await world.pause(0.1, 1.5)


async def _damage(world: RaftWorld) -> None:
    """Flip bits of one disc, or have it read from the wrong place, and let the node start again."""
    node = world.rng.choice(world.nodes)
    if node.replica is not None and world.may_damage():
        node.suspect = True
        node.crash("to be damaged")
        if world.rng.random() < 0.7:
            world.note("flipped", node.number, *(node.disc.flip() for _ in range(world.rng.randrange(1, 4))))
        else:
            node.disc.misreads = True
            world.note("misreads", node.number)
    await world.pause(0.2, 2.0)


async def _members(world: RaftWorld) -> None:
    if not world.at_risk:
        copies = [node.copy for node in world.nodes]
        world.rng.shuffle(copies)
        place = world.rng.randrange(1, len(copies) + 1)
        await world.change(copies[:place], copies[place : world.rng.randrange(place, len(copies) + 1)])
    await world.pause(0.05, 1.0)


async def _handover(world: RaftWorld) -> None:
    leader = world.leader()
    if leader is not None and leader.replica is not None:
        try:
            leader.replica.transfer(world.rng.choice(leader.replica.membership.voters))
        except NotReadyError:
            pass
        leader.kick()
    await world.pause(0.05, 0.6)


async def _storm(world: RaftWorld) -> None:
    """End leaders when some have their entries and others have not."""
    world.down = (0.02, 0.6)
    world.ambush = 0.8
    leader = world.leader()
    if leader is not None:
        others = [node.address for node in world.nodes if node is not leader]
        for other in world.rng.sample(others, world.rng.randrange(len(others) + 1)):
            world.sim.cut(leader.address, other, one_way=world.rng.random() < 0.3)
        await world.pause(0.0, 0.2)
        if leader.replica is not None:
            leader.crash("in a storm")
    await world.pause(0.0, 0.5)
    if world.rng.random() < 0.7:
        world.heal()
    await world.pause(0.0, 0.7)


async def _members_cut(world: RaftWorld) -> None:
    """Change the members while the network is cut, so that each side could decide for itself."""
    world.cut()
    await world.pause(0.0, 0.5)
    await _members(world)
    await world.pause(0.5, 2.0)
    world.heal()
    await world.pause(0.2, 1.0)


def _mixed(*faults: Fault) -> Fault:
    async def script(world: RaftWorld) -> None:
        await world.rng.choice(faults)(world)

    return script


# In an order that stays: a seed has the scenario of its place.
SCENARIOS: dict[str, Fault] = {
    "none": _none,
    "crash": _crash,
    "crash leader": _crash_leader,
    "crash all": _mixed(_crash_all, _none),
    "cut": _cut,
    "one way": _one_way,
    "rough": _rough,
    "rough crash": _mixed(_rough, _crash, _crash_leader, _cut),
    "full disc": _mixed(_full, _full, _crash),
    "failed sync": _mixed(_failed_sync, _failed_sync, _crash),
    "damage": _mixed(_damage, _damage, _crash, _handover),
    "members": _mixed(_members, _members, _members_cut, _cut, _crash),
    "handover": _mixed(_handover, _handover, _crash_leader),
    "storm": _storm,
    "everything": _mixed(
        _crash,
        _crash_leader,
        _crash_all,
        _cut,
        _one_way,
        _rough,
        _full,
        _failed_sync,
        _damage,
        _members,
        _handover,
    ),
}
WEATHER = ("rough", "rough crash", "storm", "everything")
SPARE = ("members", "everything")
SECONDS = (8.0, 16.0)


def scenario_of(seed: int) -> str:
    """Return the scenario of a seed."""
    return list(SCENARIOS)[seed % len(SCENARIOS)]


def _make(sim: SimNetwork, name: str, _directory: Path) -> RaftWorld:
    rng = sim.rng("size")
    if name in SPARE:
        return RaftWorld(sim, voters=3, spare=2)
    if name == "storm":
        world = RaftWorld(sim, voters=5)
        # Entry by entry, so that an old leader's reach a majority before the new one's own.
        world.settings = msgspec.structs.replace(world.settings, max_append_bytes=1, max_inflight=1)
        return world
    return RaftWorld(sim, voters=rng.choice((3, 3, 3, 5)))


async def _act(world: RaftWorld, name: str) -> None:
    """Do the scenario's faults until its time is over."""
    end = world.sim.loop.time() + world.rng.uniform(*SECONDS)
    if name in WEATHER and world.rng.random() < 0.7:
        world.sim.weather(ROUGH)
    await asyncio.sleep(1.5)
    while world.sim.loop.time() < end:
        await SCENARIOS[name](world)


RAFT = Campaign(
    "gossamer.testing.raft",
    "scenario",
    tuple(SCENARIOS),
    scenario_of,
    _make,
    _act,
    RaftWorld.violations,
)
