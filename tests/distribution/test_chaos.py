"""Three nodes under seeded trouble; what every user of frames and events may rely on holds throughout."""

import asyncio

from gossamer.distribution import NodeDown, NodeUp
from gossamer.testing import seeds

NAMES = "abc"
ACTIONS = {
    "send": 60,
    "reset": 6,
    "cut": 3,
    "heal": 4,
    "down": 3,
    "up": 8,
    "crash": 2,
    "start": 6,
    "kill": 4,
}
"""What happens, and how often."""


class Witness:
    """Everything one node is handed, in order."""

    def __init__(self, node):
        self.node = node
        self.log = []
        node.subscribe(self.log.append)
        node.on_frame("data", self.take)

    def take(self, frame):
        """Every other frame has taken effect at once."""
        self.log.append(frame)
        if frame.number % 2:
            return True
        self.node.done(frame)
        return False

    def check(self):
        """Frames only between up and down; per session in order, once, and whole."""
        up, expected, renewing = {}, {}, set()
        for entry in self.log:
            if isinstance(entry, NodeUp):
                assert entry.name not in up, entry
                up[entry.name], expected[entry.name] = entry.creation, 1
                renewing.discard(entry.name)
            elif isinstance(entry, NodeDown) and entry.name in renewing:
                assert entry.name not in up, entry
                assert not entry.renewing, entry
                renewing.remove(entry.name)
            elif isinstance(entry, NodeDown):
                assert up.pop(entry.name) == entry.creation, entry
                if entry.renewing:
                    renewing.add(entry.name)
            else:
                sender, creation, number, _ = entry.payload.decode().split(" ")
                assert sender == entry.peer
                assert up[sender] == int(creation), entry
                assert entry.number == int(number) == expected[sender], entry
                expected[sender] += 1


class Chaos:
    def __init__(self, net):
        self.rng = net.sim.rng("chaos")
        self.net = net
        self.witnesses = []
        self.creations = dict.fromkeys(NAMES, 0)

    async def start(self, name):
        self.creations[name] += 1
        node = await self.net.start(name, self.creations[name], config={"max_frame": 2000, "retention": 8000})
        self.witnesses.append(Witness(node))
        self.members(name)

    def members(self, name):
        """What membership would say: everybody who runs, by the newest creation."""
        for other in NAMES:
            if other != name and other in self.net.nodes:
                self.net.nodes[name].connect(other, self.creations[other], (other, 4370))

    def send(self, name, other):
        node = self.net.nodes[name]
        if other in node.nodes():
            last = node.peers[other].sends["data"].last
            frame = f"{name} {self.creations[name]} {last + 1} ".encode() + bytes(self.rng.randrange(1000))
            assert node.send(other, "data", frame) == last + 1

    async def step(self):
        rng, nodes = self.rng, self.net.nodes
        name, other = rng.sample(NAMES, 2)
        (action,) = rng.choices(list(ACTIONS), list(ACTIONS.values()))
        if action == "start" and name not in nodes:
            await self.start(name)
        elif name not in nodes:
            return
        elif action == "send":
            for _ in range(rng.randrange(8)):
                self.send(name, other)
        elif action == "reset":
            self.net.reset(name)
        elif action == "cut":
            self.net.cut(name, other)
        elif action == "heal":
            self.net.heal()
        elif action == "down":
            nodes[name].disconnect(other, "failed")
        elif action == "up":
            self.members(name)
        elif action == "crash":
            self.net.crash(name)
        elif action == "kill":
            pids = nodes[name].runtime.processes()
            labels = {pid: nodes[name].runtime.table[pid].label for pid in pids}
            victims = [pid for pid in pids if labels[pid].startswith("link to")]
            if victims:
                nodes[name].runtime.exit(rng.choice(victims), "kill")

    async def run(self):
        for name in NAMES:
            await self.start(name)
        for _ in range(400):
            await self.step()
            await asyncio.sleep(self.rng.choice([0, 0, 0.0005, 0.002, 0.05, 0.5]))
            for witness in self.witnesses:
                witness.check()
        self.net.heal()
        for name in NAMES:
            if name not in self.net.nodes:
                await self.start(name)
        for name in NAMES:
            self.members(name)
        await asyncio.sleep(120)
        for name in NAMES:
            assert sorted(self.net.nodes[name].nodes()) == [other for other in NAMES if other != name]
            for other in NAMES:
                if other != name:
                    self.send(name, other)
        await asyncio.sleep(5)
        for name in NAMES:
            for peer in self.net.nodes[name].peers.values():
                assert peer.sends["data"].unacked == 0
                # Each knows the session of the other.
                assert peer.theirs == self.net.nodes[peer.name].peers[name].session
        for witness in self.witnesses:
            witness.check()


@seeds(8)
async def test_streams_keep_their_promises_whatever_breaks(net):
    await Chaos(net).run()
