"""Founding and recovery of groups on a real disc, with a process that ends in between."""

from random import Random

import pytest

from gossamer.basekv import Put, RangeMachine, machine_of
from gossamer.basekv.values import Batch, Get, Value, Write, decode_answer, encode
from gossamer.raft import DiscThread, NamesMachine, NotReadyError
from gossamer.raft.host.replicas import Replicas
from gossamer.raft.host.upkeep import RELEASED, Upkeep, current

KIND = "basekv/0"


class Register:
    """The groups of a cluster, in memory."""

    def __init__(self):
        self.rows = {}

    def groups(self):
        return dict(self.rows)

    def enter(self, group, row):
        self.rows[group] = row


class Life:
    """One life of the only node of a cluster."""

    def __init__(self, path, register):
        self.now = 10.0
        self.replicas = Replicas(
            "a",
            DiscThread(path),
            lambda kind: machine_of(kind) or NamesMachine(lambda: 0.0),
            rng=Random(1),
            clock=lambda: self.now,
            send=lambda _work: None,
        )
        self.upkeep = Upkeep(
            "a",
            self.replicas,
            register=register,
            members=lambda: {"a": ""},
            kinds=lambda: {KIND: 3},
            wall=lambda: 1e6,
            rng=Random(id(self)),
        )

    async def pass_time(self, *, looks=0):
        """Elections and turns, then upkeep so many times."""
        for look in range(looks + 1):
            for tick in range(30):
                for group in list(self.replicas.groups.values()):
                    group.replica.tick(tick)
                while await self.replicas.take_turn():
                    pass
            for group in self.replicas.groups.values():
                if group.leads:
                    self.upkeep.leading.setdefault(group.number, self.now)
            if look < looks:
                self.now += 1
                await self.upkeep.look(self.now, 0.0)

    @property
    def group(self):
        [group] = [group for group in self.replicas.groups.values() if group.state.kind == KIND]
        return group

    async def put(self, key, value):
        answers = []
        self.group.request(encode(Batch(1, b"w", 1, [Write([Put(key, value)])])), answers.append)
        await self.pass_time()
        assert len(answers) == 1

    def get(self, key):
        return decode_answer(self.group.state.machine.read(encode(Get(1, key))))


@pytest.fixture
async def life(tmp_path):
    """Begin a life of the node, and end the one before."""
    register, lives = Register(), []

    async def begin():
        if lives:
            await lives[-1].replicas.close()
        lives.append(Life(tmp_path / "raft", register))
        await lives[-1].replicas.open()
        return lives[-1]

    begin.register = register
    yield begin
    await lives[-1].replicas.close()


async def test_a_group_takes_requests_once_its_log_has_its_kind(life):
    node = await life()
    await node.upkeep.look(10.0, 0.0)
    await node.pass_time()
    assert node.group.leads
    with pytest.raises(NotReadyError, match="just being founded"):
        node.group.request(b"", lambda _: None)
    assert life.register.rows == {}
    await node.pass_time(looks=2)
    await node.put(b"a", b"1")
    again = await life()
    await again.pass_time(looks=2)
    assert isinstance(again.group.state.machine, RangeMachine)
    assert again.get(b"a") == Value(b"1")


async def test_a_founding_that_was_broken_off_is_done_anew(life):
    node = await life()
    await node.upkeep.look(10.0, 0.0)
    await node.pass_time()
    again = await life()
    await again.pass_time(looks=5)
    assert current(life.register, KIND) == again.group.number
    await again.put(b"a", b"1")


async def test_a_recovered_group_keeps_its_rows_though_the_process_ends_at_once(life):
    node = await life()
    await node.pass_time(looks=3)
    await node.put(b"a", b"1")
    assert await node.upkeep.recover(KIND) == ""
    again = await life()
    await again.pass_time(looks=5)
    assert again.get(b"a") == Value(b"1")
    assert current(life.register, KIND) == again.group.number
    assert len(again.replicas.groups) == 1


async def test_a_group_that_is_released_goes_from_the_disc_and_may_be_founded_again(life):
    node = await life()
    await node.pass_time(looks=3)
    first = node.group.number
    node.group.state.machine.released = True
    await node.upkeep.look(node.now, 0.0)
    assert life.register.rows[first].voters == RELEASED
    assert current(life.register, KIND) == 0
    again = await life()
    assert first not in again.replicas.groups
    # It is one of those that there should be, and one that was asked for would be, too.
    await again.pass_time(looks=3)
    assert current(life.register, KIND) == again.group.number != first


async def test_a_group_that_somebody_asked_for_is_founded_once(life):
    node = await life()
    await node.pass_time(looks=3)
    for _ in range(3):
        node.upkeep.want("names/more", node.now)
        await node.pass_time(looks=1)
    assert [one.state.kind for one in node.replicas.groups.values()].count("names/more") == 1
    node.upkeep.want("names/late", node.now)
    await node.upkeep.look(node.now + 60, 0.0)
    assert "names/late" not in {one.state.kind for one in node.replicas.groups.values()}
