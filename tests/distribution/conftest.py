"""Some nodes with nothing but links, on the simulated network."""

import asyncio
from functools import partial
from itertools import combinations
from random import Random

import pytest
from certs import Authority

from gossamer.config import DistributionConfig, LinkTlsConfig
from gossamer.distribution import PURPOSES, Distribution, GrpcTransport, LinkCertificates, StreamTransport
from gossamer.supervisor import CallFailed, Runtime, Supervisor, receive
from gossamer.testing import LinkQuality


class Net:
    """Nodes whose hosts have their names."""

    def __init__(self, sim):
        self.sim = sim
        self.rng = sim.rng("net")
        self.nodes = {}
        sim.weather(LinkQuality(latency=0.001, jitter=0.0))

    async def start(self, name, creation=1, config=None, **options):
        """A node, with what happens to it recorded."""
        host = self.sim.host(name)
        if not host.alive:
            host = self.sim.restart(name)
        runtime = Runtime(name, creation)
        rng = Random(f"{self.sim.seed} {name} {creation}")
        options = {"cookie": "secret", "env": "Test", "rng": rng, "random_bytes": rng.randbytes} | options
        # Links come back sooner than those of a real cluster, which shares its machine.
        config = DistributionConfig(reconnect_min=0.05, **(config or {}))
        node = Distribution(runtime, StreamTransport(host), config=config, address=(name, 4370), **options)
        node.events, node.evidence_seen, node.frames, node.acks = [], [], [], []
        node.evidence = lambda peer, kind: node.evidence_seen.append((peer, kind))
        node.subscribe(node.events.append)
        for purpose in PURPOSES:
            node.on_ack(purpose, partial(record, node.acks, purpose))
        await runtime.start(Supervisor, [node.child_spec()])
        self.nodes[name] = node
        return node

    def take_all(self, node):
        """Record and finish every frame of every purpose."""

        for purpose in PURPOSES:
            node.on_frame(purpose, lambda frame: node.frames.append(frame) or True)

    def connect(self, *nodes):
        """Each of them is a member for the others."""
        for one in nodes:
            for other in nodes:
                if one is not other:
                    name = other.runtime.node
                    one.connect(name, other.runtime.creation, (name, 4370))

    async def pair(self, **options):
        """Two nodes that are up for each other, and take everything."""
        a, b = await self.start("a", **options), await self.start("b", **options)
        self.take_all(a)
        self.take_all(b)
        self.connect(a, b)
        await asyncio.sleep(1)
        assert a.nodes() == ["b"]
        assert b.nodes() == ["a"]
        return a, b

    # -- trouble

    def connections(self, *names):
        """Both ends of those that these hosts have, of all without names."""
        found = [die.__self__ for host in self.sim.boots.values() for die in host.connections]
        return [end for end in found if not names or {end.local[0], end.remote[0]} & set(names)]

    def reset(self, *names):
        """Break the connections of these hosts, of all without names."""
        for end in self.connections(*names):
            end.abort()

    def cut(self, *names):
        """Nothing passes between these hosts, and their connections break."""
        for pair in combinations(names, 2):
            self.sim.cut(*pair)
        self.reset(*names)

    def heal(self):
        """Everything passes."""
        self.sim.heal()

    def crash(self, name):
        """End a node as ``kill -9`` does."""
        self.nodes.pop(name).runtime.halt()
        self.sim.crash(name)

    async def stop(self):
        for node in self.nodes.values():
            await node.runtime.stop()


class Node:
    """A node with links over real connections, by gRPC where nothing else is said."""

    def __init__(self, name, transport=None, *, creation=1, address=("127.0.0.1", 0), cookie="secret"):
        self.runtime = Runtime(name, creation)
        self.evidence, self.frames, self.events = [], [], []
        self.changed = asyncio.Event()
        self.distribution = Distribution(
            self.runtime,
            transport or GrpcTransport(),
            cookie=cookie,
            env="Test",
            address=address,
            rng=Random(name),
            evidence=lambda *what: self.note(self.evidence, what),
        )
        self.distribution.subscribe(lambda event: self.note(self.events, event))
        for purpose in PURPOSES:
            self.distribution.on_frame(purpose, self.take)
            self.distribution.on_ack(purpose, lambda *_: self.changed.set())

    def note(self, into, what):
        into.append(what)
        self.changed.set()

    def take(self, frame):
        self.note(self.frames, frame)
        return True

    async def start(self):
        await self.runtime.start(Supervisor, [self.distribution.child_spec()])
        return self

    def connect(self, other):
        self.distribution.connect(other.runtime.node, other.runtime.creation, other.distribution.address)

    async def until(self, condition):
        async with asyncio.timeout(10):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


async def linked(a, b):
    """Wait until every channel between them is open."""
    a.connect(b)
    b.connect(a)
    await a.until(lambda: (b.runtime.node, "ok") in a.evidence)
    await b.until(lambda: (a.runtime.node, "ok") in b.evidence)
    return a, b


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


def certificates(authority, node="", *names, ca=None):
    """Those of ``node``, issued for ``names``, who believes what ``ca`` issued."""
    file = (node or "client").partition("@")[0]
    cert, key = authority.issue(file, *(names or ("127.0.0.1",)))
    return LinkCertificates(LinkTlsConfig(cert_file=cert, key_file=key, ca_file=(ca or authority).file), node)


@pytest.fixture
async def net(sim):
    made = Net(sim)
    yield made
    await made.stop()


def record(into, *what):
    into.append(what)


async def idle():
    await receive(match=lambda _: False)


async def failure(calling):
    """The reason with which a call fails."""
    with pytest.raises(CallFailed) as failed:
        await calling
    return failed.value.reason
