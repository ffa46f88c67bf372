"""Members that were away for longer than they are remembered: whoever looks for seeds finds them again."""

import asyncio

import pytest

from gossamer.config import GossipConfig
from gossamer.testing.cluster import BEFORE_CREATIONS, GOSSIP_PORT, SimCluster, SimZone

from .clusters import heal, nodes

NAME = "gossamer.example"
FORGETFUL = {"gossip": GossipConfig(down_retention=60)}


async def assert_found_again(cluster, sim, side):
    """A split that outlasts the memory of both sides ends in one cluster, and nobody was started anew."""
    rest = [number for number in range(1, 6) if number not in side]
    await cluster.start()
    await cluster.settled()
    lives = {number: node.members.local.id for number, node in cluster.nodes.items()}
    cluster.partition(side, rest)
    await asyncio.sleep(300)
    for number, others in ((side[0], rest), (rest[0], side)):
        known = {member.name for member in cluster.nodes[number].members.members(include_left=True)}
        assert not known & {cluster.nodes[other].name for other in others}
    await heal(cluster)
    assert {number: node.members.local.id for number, node in cluster.nodes.items()} == lives
    await cluster.stop_all()


@nodes(start=False)
@pytest.mark.parametrize("side", [[1, 2], [1, 3], [4, 5]], ids=["both seeds", "one seed", "no seed"])
async def test_seeds_are_tried_for_ever(cluster, sim, side):
    await assert_found_again(SimCluster(sim, 5, cluster=FORGETFUL), sim, side)


@nodes(start=False)
async def test_names_are_resolved_for_ever(cluster, sim):
    zone = SimZone()
    made = SimCluster(sim, 5, cluster=FORGETFUL, strategy=lambda _number: zone.strategy(NAME))
    for number in range(1, 6):
        zone.add(NAME, (made.address(number), GOSSIP_PORT))
    await assert_found_again(made, sim, [2, 5])


@nodes(seeds=2)
async def test_a_new_life_at_the_same_address_takes_the_place_of_the_zombie(cluster):
    """Before anybody has noticed that the old one died: no moment with both, and none with neither."""
    name = cluster.nodes[3].name
    cluster.crash(3, "silence")
    await cluster.restart(3)

    def lives(node):
        return [m.metadata.creation for m in node.members.members(include_left=True) if m.name == name]

    async with asyncio.timeout(20):
        while any(lives(node) != [BEFORE_CREATIONS + 2] for node in cluster.nodes.values()):
            assert all(len(lives(node)) == 1 for node in cluster.nodes.values())
            await asyncio.sleep(0.01)
    await cluster.settled(timeout=20)
    others = [node for number, node in cluster.nodes.items() if number != 3]
    assert [node.distribution.creation_of(name) for node in others] == [BEFORE_CREATIONS + 2] * 4
    assert [lives(node) for node in cluster.nodes.values()] == [[BEFORE_CREATIONS + 2]] * 5
