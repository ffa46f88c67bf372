"""The same links on the simulator's network: chopped segments, small windows, cuts, crashes."""

import asyncio
import random

import pytest

from gossamer.distribution import Distribution, StreamTransport
from gossamer.supervisor import Runtime, Supervisor

pytestmark = pytest.mark.usefixtures("virtual_time")


class Node:
    def __init__(self, sim, number):
        self.name, self.host = f"n{number}", f"10.0.0.{number}"
        self.runtime = Runtime(self.name, 1)
        self.distribution = Distribution(
            self.runtime,
            StreamTransport(sim.host(self.host)),
            cookie="secret",
            address=(self.host, 4370),
            rng=random.Random(number),
        )
        self.got = []
        self.evidence = []
        self.distribution.evidence = lambda *what: self.evidence.append(what)
        self.distribution.on_frame("data", self.take)

    def take(self, frame):
        self.got.append((frame.peer, frame.payload))
        self.distribution.done(frame)


async def cluster(sim, number):
    nodes = [Node(sim, n + 1) for n in range(number)]
    for node in nodes:
        await node.runtime.start(Supervisor, [node.distribution.child_spec()])
        for other in nodes:
            if other is not node:
                node.distribution.connect(other.name, 1, (other.host, 4370))
    await asyncio.sleep(30)
    for node in nodes:
        assert len(node.distribution.nodes()) == number - 1
    return nodes


async def test_frames_survive_a_network_that_chops_and_cuts(sim):
    nodes = await cluster(sim, 3)
    rng = sim.rng("test")
    sent = {node.name: [] for node in nodes}
    for number in range(200):
        node, other = rng.sample(nodes, 2)
        payload = b"%d " % number + rng.randbytes(rng.randrange(20_000))
        node.distribution.send(other.name, "data", payload)
        sent[other.name].append((node.name, payload))
        if number % 40 == 20:
            sim.isolate(rng.choice(nodes).host)
        if number % 40 == 39:
            sim.heal()
        await asyncio.sleep(rng.uniform(0, 0.5))
    await asyncio.sleep(300)
    for node in nodes:
        for other in nodes:
            got = [payload for name, payload in node.got if name == other.name]
            assert got == [payload for name, payload in sent[node.name] if name == other.name]
    for node in nodes:
        await node.runtime.stop()


async def test_a_crashed_process_is_refused_at_once(sim):
    a, b = await cluster(sim, 2)
    a.evidence.clear()
    b.runtime.halt()
    sim.crash(b.host)
    await asyncio.sleep(0.01)
    assert a.evidence == [("n2", "reset"), ("n2", "refused")]
    await a.runtime.stop()
