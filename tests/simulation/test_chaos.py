"""Twenty lives of a cluster, each of crashes, restarts, moves and cuts at random; then it is quiet.

What must be true afterwards: one cluster, equal tables on every node, and every subscriber that still lives
is reached once from every node.
"""

import asyncio
from collections import Counter

import pytest

from gossamer.mnesia_like import LocalTable
from gossamer.testing import LAN, LOSSY, seeds
from gossamer.testing.cluster import SimCluster

from .clusters import until

SIZE = 4
NODES = range(1, SIZE + 1)
EVENTS = 7


def table_differences(cluster):
    """What one node holds of a replicated table and another does not, one line a node and table."""
    nodes = list(cluster.nodes.values())
    names = {name for node in nodes for name in node.store.tables()}
    for name in sorted(names):
        tables = [node.store.table(name) for node in nodes]
        if any(isinstance(table, LocalTable) for table in tables):
            continue
        held = [Counter(map(repr, table.contents())) for table in tables]
        first = held[0]
        for node, here in zip(nodes[1:], held[1:], strict=True):
            if here != first:
                more, less = dict(here - first), dict(first - here)
                yield f"{name}: {node.name} has {more} more and {less} less than {nodes[0].name}"


class Chaos:
    """One life: what happens next is luck, and each thing may happen while the others last."""

    def __init__(self, sim):
        self.sim = sim
        self.rng = sim.rng("chaos")
        # SUBACK would be held for as long as two nodes are cut from each other, and a third reaches both.
        self.cluster = SimCluster(sim, SIZE, mqtt={"unconfirmed_subscriptions": "accept"})
        self.listeners = []
        self.counts = Counter()

    async def subscriber(self):
        number = self.rng.choice(sorted(self.cluster.nodes))
        listener = await self.cluster.client(number, timeout=60)
        await listener.subscribe(f"own/{len(self.listeners)}", "all/+", qos=1)
        self.listeners.append((number, self.cluster.nodes[number].creation, listener))

    def living(self):
        """Subscribers whose node never went away under them."""
        lives = {number: node.creation for number, node in self.cluster.nodes.items()}
        return [listener for number, creation, listener in self.listeners if lives.get(number) == creation]

    async def happen(self):
        cluster, rng = self.cluster, self.rng
        running, away = sorted(cluster.nodes), [number for number in NODES if number not in cluster.nodes]
        possible = ["partition", "cut", "heal", "weather", "subscribe"]
        possible += ["crash", "stop"] if len(running) > 2 else []
        possible += ["restart", "restart"] if away else []
        what = rng.choice(possible)
        self.counts[what] += 1
        match what:
            case "partition":
                side = rng.sample(NODES, rng.randrange(1, SIZE))
                cluster.partition(side, [number for number in NODES if number not in side])
            case "cut":
                cluster.cut(*rng.sample(NODES, 2), one_way=rng.random() < 0.5)
            case "heal":
                cluster.heal()
            case "weather":
                self.sim.weather(rng.choice([LAN, LOSSY]))
            case "subscribe":
                await self.subscriber()
            case "crash":
                cluster.crash(rng.choice(running), rng.choice(["kill", "reset", "silence"]))
            case "stop":
                await cluster.stop(rng.choice(running))
            case "restart":
                number = rng.choice(away)
                address = rng.choice(["", f"10.3.{number}.{rng.randrange(1, 250)}"])
                # A seed that moves away would be looked for where it was.
                await cluster.restart(number, address=address if number > 2 else "")
        await asyncio.sleep(rng.uniform(0, 8))

    async def quiet(self):
        self.cluster.heal()
        self.sim.weather(LAN)
        for number in NODES:
            if number not in self.cluster.nodes:
                await self.cluster.restart(number)
        await self.cluster.settled(timeout=120)
        await until(lambda: not any(table_differences(self.cluster)), pause=0.5, within=120)


@seeds(20)
async def test_whatever_befalls_it_a_cluster_is_whole_again_when_it_is_quiet(sim):
    chaos = Chaos(sim)
    await chaos.cluster.start()
    await chaos.cluster.settled()
    for _ in range(3):
        await chaos.subscriber()
    for _ in range(EVENTS):
        await chaos.happen()
    try:
        await chaos.quiet()
    except TimeoutError:
        pytest.fail("\n".join(table_differences(chaos.cluster)))
    listeners = chaos.living()
    assert all(listener.connected for listener in listeners)
    for number in NODES:
        speaker = await chaos.cluster.client(number)
        await speaker.publish(f"all/{number}", b"from %d" % number, qos=1)
        await speaker.disconnect()
    await asyncio.sleep(3)
    expected = Counter(b"from %d" % number for number in NODES)
    assert [Counter(listener.payloads()) for listener in listeners] == [expected] * len(listeners)
    await chaos.cluster.stop_all()
