"""Names that a quorum gives: one holder at any moment, whatever is cut, paused or dies."""

import asyncio
import errno

import pytest

from gossamer.distribution import holder_of, register_name, unregister_name
from gossamer.errors import GossamerError, UnavailableError
from gossamer.raft import DiscThread
from gossamer.supervisor import GenServer

from .clusters import nodes


class Holder(GenServer):
    """Does nothing but live."""


async def roles(cluster, number):
    """What node ``number`` says of its replica of the group that gives names, if it has one."""
    groups = await cluster.nodes[number].runtime.call("raft", "status")
    return [group for group in groups if group["kind"] == "names"]


def voters_of(group):
    return sorted(member["node"] for member in group["members"] if member["voter"])


async def voters(cluster, number):
    [group] = await roles(cluster, number)
    return voters_of(group)


async def formed(cluster, count=3, within=60):
    async with asyncio.timeout(within):
        while True:
            for number in cluster.nodes:
                for group in await roles(cluster, number):
                    settled = not group["joint"] and len(voters_of(group)) == count
                    if group["role"] == "leader" and settled:
                        return next(n for n in cluster.nodes if cluster.nodes[n].name == group["leader"])
            await asyncio.sleep(0.5)


async def claim(cluster, number, name):
    """A process of a node that asks for a name: its pid and its fence."""
    node = cluster.nodes[number]
    pid = await node.runtime.start(Holder)
    return pid, await node.runtime.run(register_name, name, pid, cp=True)


def ask(cluster, number, name):
    return cluster.nodes[number].runtime.run(holder_of, name)


@nodes(3, discs=True)
async def test_a_name_has_one_holder_and_every_node_finds_it(sim, cluster):
    await formed(cluster)
    pid, fence = await claim(cluster, 1, "ledger")
    assert fence > 0
    _, refused = await claim(cluster, 2, "ledger")
    assert refused == 0
    assert {await ask(cluster, number, "ledger") for number in (1, 2, 3)} == {(pid, fence)}
    await asyncio.sleep(60)
    assert cluster.nodes[1].runtime.alive(pid)
    assert await cluster.nodes[1].runtime.run(unregister_name, "ledger", cp=True)
    _, later = await claim(cluster, 2, "ledger")
    assert later > fence


@nodes(3, discs=True, seeds=3)
async def test_a_holder_that_is_cut_off_ends_before_another_gets_its_name(sim, cluster):
    await formed(cluster)
    pid, fence = await claim(cluster, 3, "ledger")
    cluster.partition([1, 2], [3])
    begun = sim.loop.time()
    ended = False
    while True:
        ended = ended or not cluster.nodes[3].runtime.alive(pid)
        try:
            heir, later = await claim(cluster, 1, "ledger")
        except UnavailableError:
            continue
        if later:
            break
        await asyncio.sleep(0.1)
    assert ended
    assert later > fence
    assert 5 < sim.loop.time() - begun < 25
    with pytest.raises(UnavailableError):
        await claim(cluster, 3, "other")
    cluster.heal()
    await asyncio.sleep(20)
    assert {await ask(cluster, number, "ledger") for number in (1, 2, 3)} == {(heir, later)}


@nodes(3, discs=True, seeds=2)
async def test_names_outlive_the_leader_and_every_node_at_once(sim, cluster):
    leader = await formed(cluster)
    other = leader % 3 + 1
    pid, fence = await claim(cluster, other, "ledger")
    cluster.crash(leader)
    begun = sim.loop.time()
    assert await ask(cluster, other, "ledger") == (pid, fence)
    assert sim.loop.time() - begun < 5
    await cluster.restart(leader)
    await formed(cluster)
    for number in (1, 2, 3):
        cluster.crash(number)
    await cluster.start()
    await formed(cluster)
    # Its process is gone, and its node has begun anew: the name goes to whoever asks, with a later fence.
    _, later = await claim(cluster, other, "ledger")
    assert later > fence


@nodes(3, discs=True)
@pytest.mark.parametrize("lost", [True, False], ids=["their discs are lost", "they come back"])
async def test_a_group_that_lost_its_quorum_goes_on_with_what_one_node_has(sim, cluster, lost):
    await formed(cluster)
    _, fence = await claim(cluster, 1, "ledger")
    node = cluster.nodes[1]
    with pytest.raises(UnavailableError, match="there is nothing to recover"):
        await node.view.consensus.recover()
    for number in (2, 3):
        cluster.crash(number)
        if lost:
            for path in (cluster.discs / f"node{number}" / "raft").iterdir():
                path.unlink()
    await asyncio.sleep(20)
    with pytest.raises(UnavailableError):
        await claim(cluster, 1, "other")
    await node.view.consensus.recover()
    await asyncio.sleep(20)
    # Its holder was killed meanwhile.
    pid, later = await claim(cluster, 1, "ledger")
    assert later > fence
    for number in (2, 3):
        await cluster.restart(number)
    await formed(cluster)
    assert {await ask(cluster, number, "ledger") for number in (1, 2, 3)} == {(pid, later)}
    cluster.crash(1)
    await asyncio.sleep(15)
    _, last = await claim(cluster, 2, "ledger")
    assert last > later


@nodes(4, discs=True)
async def test_a_group_with_a_leader_is_not_recovered_by_a_node_without_a_replica(sim, cluster):
    leader = await formed(cluster)
    [outside] = [n for n in cluster.nodes if not await roles(cluster, n)]
    await claim(cluster, outside, "ledger")
    with pytest.raises(UnavailableError, match="there is nothing to recover"):
        await cluster.nodes[outside].view.consensus.recover()
    assert await voters(cluster, await formed(cluster)) == await voters(cluster, leader)


@nodes(3, discs=True)
async def test_a_disc_that_refuses_writes_ends_no_node(sim, cluster, monkeypatch):
    """Its replica is lost to the group until it takes them again; clients are served meanwhile."""
    leader = await formed(cluster)
    write, bad = DiscThread.write, cluster.discs / f"node{leader}" / "raft"

    async def refused(self, *args, **options):
        if self._path == bad:
            raise OSError(errno.EIO, "broken")
        await write(self, *args, **options)

    monkeypatch.setattr(DiscThread, "write", refused)
    other = leader % 3 + 1
    _, fence = await claim(cluster, other, "ledger")
    await asyncio.sleep(60)
    assert fence > 0
    assert cluster.nodes[leader].state == "running"
    client = await cluster.client(leader)
    await client.publish("t", b"x", qos=1)
    monkeypatch.undo()
    await asyncio.sleep(60)
    assert await formed(cluster)
    assert await roles(cluster, leader)


@nodes(3, discs=True)
async def test_a_replica_without_a_quorum_raises_an_alarm_until_it_has_one(sim, cluster):
    await formed(cluster)
    cluster.partition([1, 2], [3])
    await asyncio.sleep(30)
    alarms = {n: [alarm.name for alarm in node.view.healing.alarms()] for n, node in cluster.nodes.items()}
    assert {n for n, names in alarms.items() if "no_quorum" in names} == {3}
    cluster.heal()
    await asyncio.sleep(20)
    assert not any(
        a.name == "no_quorum" for node in cluster.nodes.values() for a in node.view.healing.alarms()
    )


@nodes(3, discs=True)
async def test_a_process_that_ends_gives_its_name_back(sim, cluster):
    await formed(cluster)
    pid, _ = await claim(cluster, 1, "ledger")
    cluster.nodes[1].runtime.exit(pid, "shutdown")
    await asyncio.sleep(1)
    assert await ask(cluster, 2, "ledger") is None


@nodes(3, discs=True)
async def test_a_node_whose_disc_is_lost_gets_a_new_replica(sim, cluster):
    await formed(cluster)
    await claim(cluster, 1, "ledger")
    cluster.crash(3)
    for path in sorted((cluster.discs / "node3" / "raft").iterdir()):
        path.unlink()
    await cluster.restart(3)
    await asyncio.sleep(20)
    await formed(cluster)
    cluster.crash(2)
    await asyncio.sleep(5)
    assert await ask(cluster, 3, "ledger") is not None


@nodes(3, discs=True)
async def test_a_log_that_is_damaged_is_put_aside_and_its_replica_replaced(sim, cluster):
    await formed(cluster)
    await claim(cluster, 1, "ledger")
    cluster.crash(3)
    directory = cluster.discs / "node3" / "raft"
    [segment] = directory.glob("*.wal")
    data = bytearray(segment.read_bytes())
    data[512 + 20] ^= 1
    segment.write_bytes(data)
    await cluster.restart(3)
    await asyncio.sleep(20)
    await formed(cluster)
    assert (cluster.discs / "node3" / "raft.damaged-1").is_dir()
    cluster.crash(2)
    await asyncio.sleep(5)
    assert await ask(cluster, 3, "ledger") is not None


@nodes(5, discs=True)
async def test_a_node_that_left_is_replaced_and_one_that_is_down_is_not(sim, cluster):
    await formed(cluster)
    before = await voters(cluster, await formed(cluster))
    gone = next(n for n in cluster.nodes if cluster.nodes[n].name in before[1:])
    cluster.crash(gone)
    await asyncio.sleep(45)
    leader = await formed(cluster)
    assert await voters(cluster, leader) == before


@nodes(2, discs=True)
async def test_of_two_nodes_one_decides_and_the_other_learns(sim, cluster):
    leader = await formed(cluster, count=1)
    await asyncio.sleep(5)
    [group] = await roles(cluster, leader)
    assert (len(voters_of(group)), len(group["members"])) == (1, 2)
    assert (await claim(cluster, 3 - leader, "ledger"))[1] > 0


@nodes(3, discs=[False])
async def test_nodes_without_a_disc_say_that_there_are_no_replicas(sim, cluster):
    with pytest.raises(UnavailableError, match="no group of replicas is known"):
        await claim(cluster, 1, "ledger")


class Claimant:
    """Asks for a name at its node again and again, and gives it back at times."""

    def __init__(self, cluster, number, rng):
        self.cluster, self.number, self.rng = cluster, number, rng
        self.held = None

    def holds(self):
        node, pid = self.held or (None, None)
        return node is not None and self.cluster.nodes.get(self.number) is node and node.runtime.alive(pid)

    async def run(self, on_held):
        while True:
            await asyncio.sleep(self.rng.uniform(0.1, 2))
            node = self.cluster.nodes.get(self.number)
            if node is None or node.state != "running":
                continue
            try:
                async with asyncio.timeout(15):
                    pid = await node.runtime.start(Holder)
                    fence = await node.runtime.run(register_name, "ledger", pid, cp=True)
            except (GossamerError, TimeoutError):
                continue
            if not fence:
                continue
            self.held = node, pid
            on_held(self, fence)
            until = self.cluster.sim.loop.time() + self.rng.uniform(1, 90)
            while self.holds() and self.cluster.sim.loop.time() < until:  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(0.1)
            self.held = None
            if node.state == "running":
                node.runtime.exit(pid, "shutdown")


async def weather(cluster, rng):
    """Some minutes of cuts, also one way, and of deaths, of one node at a time or of all."""
    for _ in range(10):
        numbers = [1, 2, 3]
        rng.shuffle(numbers)
        match rng.choice(["cut", "cut", "one way", "kill", "kill", "all", "cut and kill"]):
            case "cut":
                cluster.partition(numbers[:2], numbers[2:])
            case "one way":
                cluster.cut(numbers[0], numbers[1], one_way=True)
                cluster.cut(numbers[0], numbers[2], one_way=True)
            case "kill":
                cluster.crash(numbers[0])
            case "all":
                for number in numbers:
                    cluster.crash(number)
            case "cut and kill":
                cluster.partition(numbers[:2], numbers[2:])
                cluster.crash(numbers[0])
        await asyncio.sleep(rng.uniform(0.5, 40))
        cluster.heal()
        dead = [number for number in numbers if number not in cluster.nodes]
        if dead:
            await cluster.start(*dead)
        await asyncio.sleep(rng.uniform(0, 5))


@nodes(3, discs=True, seeds=6)
async def test_there_are_never_two_holders(sim, cluster):
    await formed(cluster)
    claimants = [Claimant(cluster, number, sim.rng(f"claimant{number}")) for number in (1, 2, 3)]
    fences = [0]

    def held(claimant, fence):
        others = [one.number for one in claimants if one is not claimant and one.holds()]
        assert not others, f"node {claimant.number} holds it, and so does {others}"
        assert fence > fences[-1]
        fences.append(fence)

    tasks = [asyncio.create_task(one.run(held)) for one in claimants]
    await weather(cluster, sim.rng("weather"))
    await asyncio.sleep(40)
    count = len(fences)
    # Longer than anybody holds it.
    await asyncio.sleep(120)
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(outcome, asyncio.CancelledError), outcome
    assert len(fences) > count > 3
