"""The gate between a node and its network: cut, late, lossy, by peer and direction, changed at any time."""

import asyncio
import random

import pytest
from testing.peers import Box, Recorder

from gossamer.errors import UsageError
from gossamer.faults import Fault, FaultTable, FaultyNetwork

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
NAMES = {A: "a@x", B: "b@x", C: "c@x"}
PORT = 7946


class Gate:
    """Host a behind the gate, b and c as they are."""

    def __init__(self, sim):
        self.sim = sim
        self.table = FaultTable(lambda address: NAMES.get(address[0]))
        self.network = FaultyNetwork(sim.host(A), self.table, rng=random.Random(1))
        self.accepted = []

    def order(self, *faults, **options):
        self.table.set([Fault(**fault) for fault in faults], **options)

    async def datagrams(self):
        near, box = await self.network.open_datagram(Box, (A, PORT))
        far = [(await self.sim.host(host).open_datagram(Box, (host, PORT))) for host in (B, C)]
        return (near, box), *far

    async def stream(self, host=B):
        def accept():
            self.accepted.append(Recorder())
            return self.accepted[-1]

        await self.sim.host(host).listen(accept, (host, PORT))
        near, recorder = await self.network.connect(Recorder, (host, PORT))
        assert recorder.transport is near
        await asyncio.sleep(1)
        return near, recorder, self.accepted[-1]


@pytest.fixture
def gate(sim):
    return Gate(sim)


async def talk(near, far):
    """What arrives at a and at b of a datagram each way."""
    (a, box_a), (b, box_b) = near, far
    before = len(box_a.got), len(box_b.got)
    a.sendto(b"x", (B, PORT))
    b.sendto(b"y", (A, PORT))
    await asyncio.sleep(1)
    return len(box_a.got) - before[0], len(box_b.got) - before[1]


@pytest.mark.parametrize(
    ("fault", "arrives"),
    [
        ({"peer": "b@x", "cut": True}, (0, 0)),
        ({"peer": "b@x", "cut": True, "direction": "out"}, (1, 0)),
        ({"peer": "b@x", "cut": True, "direction": "in"}, (0, 1)),
        ({"peer": f"{B}:{PORT}", "cut": True}, (0, 0)),
        ({"peer": "*", "loss": 1.0}, (0, 0)),
        ({"peer": "c@x", "cut": True}, (1, 1)),
        ({"peer": "b@x"}, (1, 1)),
    ],
)
async def test_datagrams_go_by_peer_and_direction(gate, fault, arrives):
    near, far, _ = await gate.datagrams()
    assert await talk(near, far) == (1, 1)
    gate.order(fault)
    assert await talk(near, far) == arrives
    gate.table.clear()
    assert await talk(near, far) == (1, 1)
    assert gate.table.counts.datagrams_dropped == 2 - sum(arrives)


async def test_datagrams_are_late_and_some_are_lost(gate, sim):
    (near, _), (_, box), _ = await gate.datagrams()
    gate.order({"peer": "*", "direction": "out", "delay": 2.0, "jitter": 1.0, "loss": 0.3})
    for number in range(1000):
        near.sendto(b"%d" % number, (B, PORT))
    await asyncio.sleep(1.9)
    assert box.got == []
    await asyncio.sleep(2)
    numbers = [int(data) for data, _ in box.got]
    assert 600 < len(numbers) < 800
    assert numbers != sorted(numbers)
    assert gate.table.counts.datagrams_delayed == len(numbers)


async def test_what_is_late_when_the_socket_closes_is_nobodys(gate):
    (near, box), (far, _), _ = await gate.datagrams()
    gate.order({"peer": "*", "delay": 1.0})
    near.sendto(b"x", (B, PORT))
    far.sendto(b"y", (A, PORT))
    await asyncio.sleep(0.5)
    near.close()
    await asyncio.sleep(2)
    assert box.got == []


@pytest.mark.parametrize("direction", ["both", "out", "in"])
async def test_a_stream_stands_still_both_ways_and_goes_on(gate, direction):
    near, recorder, far = await gate.stream()
    gate.order({"peer": "b@x", "cut": True, "direction": direction})
    near.write(b"hello")
    far.transport.write(b"world")
    await asyncio.sleep(60)
    assert (recorder.data, far.data) == (b"", b"")
    gate.table.clear()
    await asyncio.sleep(5)
    assert (recorder.data, far.data) == (b"world", b"hello")
    assert gate.table.counts.streams_stalled == 1


async def test_a_stream_under_a_cut_makes_its_writer_wait(gate):
    near, recorder, far = await gate.stream()
    gate.order({"peer": "b@x", "cut": True})
    written = 0
    while not recorder.paused:
        near.write(bytes(10_000))
        written += 10_000
        assert written < 1_000_000
    assert near.get_write_buffer_size() == written
    gate.table.clear()
    await asyncio.sleep(10)
    assert (len(far.data), recorder.paused) == (written, False)


async def test_neither_side_hears_of_an_end_through_a_cut(gate):
    near, recorder, far = await gate.stream()
    other, kept, peer = await gate.stream(C)
    gate.order({"peer": "*", "cut": True})
    # This side gives up: it knows at once, the other hears when the cut ends.
    near.abort()
    # The other side gives up: this one hears when the cut ends.
    peer.transport.abort()
    await asyncio.sleep(5)
    assert (recorder.events[-1], far.events[-1]) == ("lost", "made")
    assert kept.events[-1] == "made"
    gate.table.clear()
    await asyncio.sleep(5)
    assert (far.events[-1], kept.events[-1]) == ("lost", "lost")
    assert other.is_closing()
    assert gate.table._watchers == {}


async def test_what_was_written_before_a_close_arrives_after_the_cut(gate):
    near, recorder, far = await gate.stream()
    gate.order({"peer": "b@x", "cut": True})
    near.write(b"last words")
    near.close()
    await asyncio.sleep(5)
    assert (far.events, recorder.events) == (["made"], ["made"])
    gate.table.clear()
    await asyncio.sleep(5)
    assert far.data == b"last words"
    assert (far.events[-1], recorder.events[-1]) == ("lost", "lost")


async def test_an_end_of_file_keeps_its_place(gate):
    near, recorder, far = await gate.stream()
    gate.order({"peer": "b@x", "delay": 1.0, "jitter": 1.0})
    near.write(b"all")
    near.write(b" of it")
    near.write_eof()
    await asyncio.sleep(10)
    assert far.data == b"all of it"
    assert far.events == ["made", "eof", "lost"]
    assert recorder.events[-1] == "lost"


async def test_a_late_and_lossy_stream_keeps_its_order(gate):
    near, recorder, far = await gate.stream()
    gate.order({"peer": "b@x", "delay": 0.2, "jitter": 0.5, "loss": 0.2})
    for number in range(200):
        near.write(b"%d " % number)
        far.transport.write(b"%d " % -number)
        await asyncio.sleep(0.01)
    assert len(far.data.split()) < 200
    await asyncio.sleep(30)
    assert [int(n) for n in far.data.split()] == list(range(200))
    assert [-int(n) for n in recorder.data.split()] == list(range(200))


async def test_a_connection_to_a_peer_that_is_cut_off_is_not_answered(gate):
    await gate.sim.host(B).listen(Recorder, (B, PORT))
    gate.order({"peer": "b@x", "cut": True})
    connecting = asyncio.ensure_future(gate.network.connect(Recorder, (B, PORT)))
    await asyncio.sleep(60)
    assert not connecting.done()
    gate.order({"peer": "c@x", "cut": True})
    transport, _ = await asyncio.wait_for(connecting, 10)
    transport.close()
    with pytest.raises(ConnectionRefusedError):
        await gate.network.connect(Recorder, (B, PORT + 1))
    assert gate.table.counts.connects_held == 1


async def test_who_gives_up_connecting_leaves_nothing_behind(gate):
    gate.order({"peer": "b@x", "cut": True})
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(gate.network.connect(Recorder, (B, PORT)), 5)
    assert gate.table._watchers == {}


async def test_faults_end_by_themselves_when_they_are_told_to(gate):
    near, far, _ = await gate.datagrams()
    gate.order({"peer": "b@x", "cut": True}, seconds=10)
    assert await talk(near, far) == (0, 0)
    gate.order({"peer": "b@x", "cut": True}, seconds=20)
    await asyncio.sleep(12)
    assert await talk(near, far) == (0, 0)
    await asyncio.sleep(10)
    assert gate.table.faults == ()
    assert await talk(near, far) == (1, 1)


async def test_faults_begin_when_they_are_told_to_and_what_held_before_ends_at_once(gate):
    near, far, _ = await gate.datagrams()
    gate.order({"peer": "b@x", "cut": True})
    gate.order({"peer": "b@x", "cut": True}, seconds=10, begin_in=5)
    assert await talk(near, far) == (1, 1)
    await asyncio.sleep(7)
    assert await talk(near, far) == (0, 0)
    await asyncio.sleep(10)
    assert await talk(near, far) == (1, 1)
    gate.order({"peer": "b@x", "cut": True}, seconds=10, begin_in=5)
    gate.order()
    await asyncio.sleep(7)
    assert gate.table.faults == ()


@pytest.mark.parametrize("wrong", [{"direction": "up"}, {"loss": 1.1}, {"delay": -1}, {"jitter": 10_000}])
def test_a_fault_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(UsageError, match="expected"):
        Fault(peer="b@x", **wrong)
