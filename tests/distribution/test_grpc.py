"""Two nodes over real gRPC on loopback."""

import asyncio
import random

import pytest

from gossamer.distribution import Distribution, GrpcTransport, NodeDown, NodeUp
from gossamer.distribution.transport.relay import Relay
from gossamer.faults import Fault, FaultTable, FaultyNetwork
from gossamer.network import SystemNetwork
from gossamer.supervisor import Runtime, Supervisor


class Node:
    def __init__(self, name, *, creation=1, cookie="secret", address=("127.0.0.1", 0), network=None):
        self.runtime = Runtime(name, creation)
        self.evidence, self.frames, self.events = [], [], []
        self.changed = asyncio.Event()
        self.distribution = Distribution(
            self.runtime,
            GrpcTransport(network=network),
            cookie=cookie,
            env="Test",
            address=address,
            rng=random.Random(name),
            evidence=lambda *what: self.note(self.evidence, what),
        )
        self.distribution.subscribe(lambda event: self.note(self.events, event))
        for purpose in ("control", "replication", "data"):
            self.distribution.on_frame(purpose, self.take)
            self.distribution.on_ack(purpose, lambda *_: self.changed.set())

    def note(self, into, what):
        into.append(what)
        self.changed.set()

    def take(self, frame):
        self.note(self.frames, frame)
        self.distribution.done(frame)

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


@pytest.fixture(params=["direct", "relayed"])
async def pair(request):
    """Two nodes; relayed, every connection passes a network that is not gRPC's own."""
    a, b = [
        await Node(name, network=SystemNetwork() if request.param == "relayed" else None).start()
        for name in "ab"
    ]
    a.connect(b)
    b.connect(a)
    await a.until(a.distribution.nodes)
    await b.until(b.distribution.nodes)
    yield a, b
    await a.runtime.stop()
    await b.runtime.stop()


async def test_frames_cross_in_order_and_are_acked(pair):
    a, b = pair
    for n in range(2000):
        a.distribution.send("b", "data", b"%d" % n)
        a.distribution.send("b", "control", b"%d" % n)
    a.distribution.send("b", "replication", bytes(5_000_000))
    await a.until(
        lambda: (
            a.distribution.peers["b"].sends["data"].acked
            == a.distribution.peers["b"].sends["control"].acked
            == 2000
        )
    )
    await a.until(lambda: a.distribution.peers["b"].sends["replication"].acked == 1)
    for purpose in ("data", "control"):
        got = [frame.payload for frame in b.frames if frame.purpose == purpose]
        assert got == [b"%d" % n for n in range(2000)]


async def test_a_peer_that_goes_is_evidence_at_once_and_comes_back_as_a_new_session(pair):
    a, b = pair
    started = asyncio.get_running_loop().time()
    address = b.distribution.address
    await b.runtime.stop()
    await a.until(lambda: ("b", "refused") in a.evidence)
    assert asyncio.get_running_loop().time() - started < 2
    a.distribution.send("b", "data", b"for the old instance")
    again = await Node("b", creation=2, address=address).start()
    again.connect(a)
    await a.until(lambda: NodeUp("b", 2) in a.events)
    assert a.events == [NodeUp("b", 1), NodeDown("b", 1, "restarted", renewing=True), NodeUp("b", 2)]
    a.distribution.send("b", "data", b"for the new one")
    await again.until(lambda: again.frames)
    assert [frame.payload for frame in again.frames] == [b"for the new one"]
    await again.runtime.stop()


async def test_a_cut_stalls_a_link_and_neither_side_is_told():
    """Frames wait, connections stay open; after the cut everything arrives once and in order."""
    where = {}
    tables = {name: FaultTable(where.get) for name in "ab"}
    a, b = [
        await Node(
            name, network=FaultyNetwork(SystemNetwork(), tables[name], rng=random.Random(name))
        ).start()
        for name in "ab"
    ]
    where.update({a.distribution.address: "a", b.distribution.address: "b"})
    a.connect(b)
    b.connect(a)
    await a.until(a.distribution.nodes)
    await b.until(b.distribution.nodes)
    a.distribution.send("b", "data", b"before")
    await a.until(lambda: a.distribution.peers["b"].sends["data"].acked == 1)
    tables["a"].set([Fault(peer="b", cut=True)])
    tables["b"].set([Fault(peer="a", cut=True)])
    told = len(a.evidence), len(b.evidence)
    for n in range(100):
        a.distribution.send("b", "data", b"%d" % n)
        b.distribution.send("a", "data", b"%d" % n)
        await asyncio.sleep(0.005)
    assert [frame.payload for frame in b.frames] == [b"before"]
    assert a.frames == []
    for table in tables.values():
        assert table.counts.streams_stalled == 3
        table.clear()
    await a.until(lambda: a.distribution.peers["b"].sends["data"].acked == 101)
    await b.until(lambda: b.distribution.peers["a"].sends["data"].acked == 100)
    assert [frame.payload for frame in b.frames[1:]] == [b"%d" % n for n in range(100)]
    assert (len(a.evidence), len(b.evidence)) == told
    await a.runtime.stop()
    await b.runtime.stop()


async def test_who_never_claims_its_relayed_connection_loses_it(monkeypatch):
    monkeypatch.setattr("gossamer.distribution.transport.relay.CLAIM", 0.01)
    accepted = asyncio.get_running_loop().create_future()
    ended = asyncio.Event()

    class Far(asyncio.Protocol):
        def connection_made(self, transport):
            accepted.set_result(transport)

        def connection_lost(self, exc):
            ended.set()

    network = SystemNetwork()
    listener = await network.listen(Far, ("127.0.0.1", 0))
    target = await Relay(network).open(listener.address)
    async with asyncio.timeout(10):
        await accepted
        await ended.wait()
    with pytest.raises(OSError, match="No such file"):
        await asyncio.open_unix_connection(target.removeprefix("unix:"))
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        await Relay(network).open(listener.address)
