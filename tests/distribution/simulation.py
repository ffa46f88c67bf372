"""Virtual time and a network in memory, small enough to read in one go."""

import asyncio
import random
import selectors
from functools import partial

from gossamer.config import DistributionConfig
from gossamer.distribution import Distribution, StreamTransport
from gossamer.supervisor import Runtime, Supervisor


class _Selector(selectors.SelectSelector):
    """Waits by moving the clock."""

    def __init__(self):
        super().__init__()
        self.now = 0.0

    def select(self, timeout=None):
        if timeout is None:
            raise RuntimeError("nothing left to happen and the test is not done")
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self):
        return self._virtual.now


def simulate(main):
    """Run ``main()`` on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(asyncio.wait_for(main(), 3600))


class Pipe(asyncio.Transport):
    """One end of a connection; bytes arrive at the other after the network's delay."""

    def __init__(self, network, protocol, local, remote):
        super().__init__()
        self.network, self.protocol = network, protocol
        self.local, self.remote = local, remote
        self.other = None
        self.open = True
        self.paused = False
        self.waiting = []

    def get_extra_info(self, name, default=None):
        return (self.remote, 0) if name == "peername" else default

    def is_closing(self):
        return not self.open

    def write(self, data):
        if self.open:
            self.network.later(self.local, self.remote, self.other.arrive, bytes(data))

    def arrive(self, data):
        if not self.open:
            return
        self.waiting.append(data)
        self.drain()

    def drain(self):
        while self.waiting and self.open and not self.paused:
            self.protocol.data_received(self.waiting.pop(0))

    def pause_reading(self):
        self.paused = True

    def resume_reading(self):
        self.paused = False
        self.network.loop().call_soon(self.drain)

    def close(self):
        if self.open:
            self.network.later(self.local, self.remote, self.other.lost, None)
            self.network.loop().call_soon(self.lost, None)

    def abort(self):
        if self.open:
            self.network.later(
                self.local, self.remote, self.other.lost, ConnectionResetError("reset by peer")
            )
            self.network.loop().call_soon(self.lost, None)
        self.open = self.open and None

    def lost(self, error):
        if self.open is not False:
            self.open = False
            self.network.pipes.discard(self)
            self.protocol.connection_lost(error)


class _Listening:
    def __init__(self, hosts, address):
        self.hosts, self.address = hosts, address

    def close(self):
        self.hosts.pop(self.address[0], None)


class Wires:
    """The network all hosts share: who listens, which pairs are cut."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.hosts, self.pipes, self.cuts = {}, set(), set()

    def loop(self):
        return asyncio.get_running_loop()

    def later(self, a, b, call, *args):
        if frozenset((a, b)) not in self.cuts:
            self.loop().call_later(0.001, call, *args)

    def reset(self, *names):
        """Break the connections of these hosts, of all without names."""
        for pipe in list(self.pipes):
            if not names or pipe.local in names or pipe.remote in names:
                pipe.lost(ConnectionResetError("cut"))

    def host(self, name):
        return Host(self, name)


class Host:
    """A Network as one host sees it."""

    def __init__(self, wires, name):
        self.wires, self.name = wires, name

    async def open_datagram(self, factory, address):
        raise NotImplementedError

    async def listen(self, factory, address, *, tls=None, backlog=0, reuse_port=False):
        if self.name in self.wires.hosts:
            raise OSError(98, "Address already in use")
        self.wires.hosts[self.name] = factory
        return _Listening(self.wires.hosts, (self.name, address[1]))

    async def connect(self, factory, address, *, tls=None):
        await asyncio.sleep(0.001)
        to = address[0]
        if frozenset((self.name, to)) in self.wires.cuts:
            await asyncio.sleep(60)
            raise TimeoutError("timed out")
        if to not in self.wires.hosts:
            raise ConnectionRefusedError(111, "Connection refused")
        near = Pipe(self.wires, factory(), self.name, to)
        far = Pipe(self.wires, self.wires.hosts[to](), to, self.name)
        near.other, far.other = far, near
        self.wires.pipes |= {near, far}
        far.protocol.connection_made(far)
        near.protocol.connection_made(near)
        return near, near.protocol


class Net:
    """Some nodes on one set of wires."""

    def __init__(self, seed=0):
        self.wires = Wires(seed)
        self.nodes = {}
        self.seed = seed

    async def start(self, name, creation=1, config=None, **options):
        """A node whose host has its name, with what happens to it recorded."""
        runtime = Runtime(name, creation)
        rng = random.Random(f"{self.seed} {name} {creation}")
        options = {"cookie": "secret", "env": "Test", "rng": rng, "nonce": rng.randbytes} | options
        # Links come back sooner than those of a real cluster, which shares its machine.
        config = DistributionConfig(reconnect_min=0.05, **(config or {}))
        transport = StreamTransport(self.wires.host(name))
        node = Distribution(runtime, transport, config=config, address=(name, 4370), **options)
        node.events, node.evidence_seen, node.frames, node.acks = [], [], [], []
        node.evidence = lambda peer, kind: node.evidence_seen.append((peer, kind))
        node.subscribe(node.events.append)
        for purpose in ("control", "replication", "data"):
            node.on_ack(purpose, partial(record, node.acks, purpose))
        await runtime.start(Supervisor, [node.child_spec()])
        self.nodes[name] = node
        return node

    def take_all(self, node):
        """Record and finish every frame of every purpose."""

        def take(frame):
            node.frames.append(frame)
            node.done(frame)

        for purpose in ("control", "replication", "data"):
            node.on_frame(purpose, take)

    async def pair(self, **options):
        """Two nodes that are up for each other, and take everything."""
        a, b = await self.start("a", **options), await self.start("b", **options)
        self.take_all(a)
        self.take_all(b)
        a.connect("b", 1, ("b", 4370))
        b.connect("a", 1, ("a", 4370))
        await asyncio.sleep(1)
        assert a.nodes() == ["b"]
        assert b.nodes() == ["a"]
        return a, b

    async def stop(self):
        for node in self.nodes.values():
            await node.runtime.stop()


def simulated(test):
    """Run an async test with a net on virtual time, and stop the net afterwards."""

    def run():
        async def main():
            net = Net()
            try:
                await test(net)
            finally:
                await net.stop()

        simulate(main)

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def record(into, *what):
    into.append(what)
