"""Two nodes over real gRPC on loopback."""

import asyncio
import random

import pytest

from gossamer.distribution import Distribution, GrpcTransport, NodeDown, NodeUp
from gossamer.supervisor import Runtime, Supervisor


class Node:
    def __init__(self, name, *, creation=1, cookie="secret", address=("127.0.0.1", 0)):
        self.runtime = Runtime(name, creation)
        self.evidence, self.frames, self.events = [], [], []
        self.changed = asyncio.Event()
        self.distribution = Distribution(
            self.runtime,
            GrpcTransport(),
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


@pytest.fixture
async def pair():
    a, b = await Node("a").start(), await Node("b").start()
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
    await a.until(lambda: a.distribution.acked("b", "data") == a.distribution.acked("b", "control") == 2000)
    await a.until(lambda: a.distribution.acked("b", "replication") == 1)
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
    assert a.events == [NodeUp("b", 1), NodeDown("b", 1, "restarted"), NodeUp("b", 2)]
    a.distribution.send("b", "data", b"for the new one")
    await again.until(lambda: again.frames)
    assert [frame.payload for frame in again.frames] == [b"for the new one"]
    await again.runtime.stop()


async def test_a_wrong_cookie_is_kept_out(pair):
    a, b = pair
    stranger = await Node("c", cookie="guess").start()
    stranger.connect(a)
    a.connect(stranger)
    a.distribution.send("b", "data", b"x")
    await b.until(lambda: b.frames)
    await asyncio.sleep(0.2)
    assert stranger.distribution.nodes() == []
    assert a.distribution.nodes() == ["b"]
    await stranger.runtime.stop()
