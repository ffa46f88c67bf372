"""A rolling restart behind DNS: nodes go and come back, one or two at a time, and end in one cluster."""

import asyncio

import pytest
import pytest_asyncio
import structlog

from gossamer.testing import seeds
from gossamer.testing.cluster import GOSSIP_PORT, SimCluster, SimZone, address_of

from .flows import reaches, subscriber

NAME = "gossamer.example"
ORDERS = {"one by one": [(1,), (2,), (3,), (4,), (5,)], "two at a time": [(1, 2), (3, 4), (5, 1)]}


class Rollout:
    """What an orchestrator does: nodes, and the records of one name that follow them."""

    def __init__(self, sim):
        self.zone = SimZone()
        self.cluster = SimCluster(sim, 5, strategy=lambda _number: self.zone.strategy(NAME))
        self.rng = sim.rng("rollout")

    async def begin(self):
        """All five at once, and nothing is listed yet: a name without records is no cluster of one."""
        for number in range(1, 6):
            self.zone.add(NAME, self.endpoint(number))
        await self.cluster.start()
        await self.cluster.settled()

    def endpoint(self, number):
        return (self.cluster.address(number), GOSSIP_PORT)

    async def replace(self, number, how="", *, move=None):
        """End a node and start it again; how, and whether it comes back elsewhere, is luck unless given."""
        how = how or self.rng.choice(["stop", "kill", "silence"])
        move = self.rng.random() < 0.5 if move is None else move
        self.zone.remove(NAME, self.endpoint(number))
        if how == "stop":
            await self.cluster.stop(number)
        else:
            self.cluster.crash(number, how)
        await asyncio.sleep(self.rng.uniform(0, 4))
        address = f"10.2.{number}.{self.rng.randrange(1, 250)}" if move else address_of(number)
        self.zone.add(NAME, (address, GOSSIP_PORT))
        await self.cluster.restart(number, address=address)


@pytest_asyncio.fixture
async def rollout(sim):
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    made = Rollout(sim)
    await made.begin()
    yield made
    await made.cluster.stop_all()


@seeds(4)
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
async def test_a_rolling_restart_ends_in_one_cluster_of_five_each_time(rollout, order):
    cluster = rollout.cluster
    for batch in order:
        staying = min(set(cluster.nodes) - set(batch))
        listener = await subscriber(cluster, staying, "steady/#", qos=1)
        before = {number: node.creation for number, node in cluster.nodes.items()}
        await asyncio.gather(*(rollout.replace(number) for number in batch))
        await cluster.settled(timeout=60)
        assert len(cluster.nodes) == 5
        assert {n for n, node in cluster.nodes.items() if node.creation != before[n]} == set(batch)
        assert listener.connected
        assert await reaches(cluster, batch[-1], staying, within=2)
        await listener.disconnect()


@seeds(2)
async def test_a_rolling_restart_that_waits_for_nobody_ends_in_one_cluster(rollout):
    """An impatient operator: the next one is killed as soon as the last one runs, settled or not."""
    for number in (1, 2, 3, 4, 5, 1, 3):
        await rollout.replace(number, "kill", move=True)
    await rollout.cluster.settled(timeout=60)
    assert len(rollout.cluster.nodes) == 5


@seeds(1)
async def test_a_rolling_restart_while_dns_is_down_ends_once_it_is_back(rollout):
    """Whoever starts meanwhile finds nobody and serves alone; it is found when names are answered again."""
    cluster = rollout.cluster
    rollout.zone.down = True
    for number in (2, 4):
        await rollout.replace(number, "stop", move=True)
        assert {m.name for m in cluster.nodes[number].members.members()} == {cluster.nodes[number].name}
    await asyncio.sleep(300)
    asked = rollout.zone.asked
    rollout.zone.down = False
    await cluster.settled(timeout=60)
    assert rollout.zone.asked > asked > 5 * 300 / 60
