import asyncio
import errno
import itertools

import pytest

from gossamer.errors import UsageError
from gossamer.testing import SIMULATED_EPOCH, LinkQuality, seeds
from gossamer.testing.links import Links

from .peers import Box

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"


async def boxes(sim, *hosts, port=7946):
    return [(await sim.host(host).open_datagram(Box, (host, port)))[1] for host in hosts]


async def test_a_datagram_arrives_whole_with_its_sender(sim):
    one, two = await boxes(sim, A, B)
    one.transport.sendto(b"ping", (B, 7946))
    await asyncio.sleep(1)
    assert two.got == [(b"ping", (A, 7946))]
    assert one.got == []


async def test_nobody_there_is_silence(sim):
    (one,) = await boxes(sim, A)
    one.transport.sendto(b"ping", (B, 7946))
    one.transport.sendto(b"ping", (A, 1))
    await asyncio.sleep(1)
    assert one.errors == []


async def test_too_large_a_datagram_is_refused_to_its_sender(sim):
    one, two = await boxes(sim, A, B)
    one.transport.sendto(bytes(65_508), (B, 7946))
    one.transport.sendto(bytes(65_507), (B, 7946))
    await asyncio.sleep(1)
    assert [error.errno for error in one.errors] == [errno.EMSGSIZE]
    assert [len(data) for data, _ in two.got] == [65_507]


@seeds(3)
async def test_loss_duplication_and_reordering_come_as_often_as_asked(sim):
    sim.weather(LinkQuality(loss=0.2, duplicate=0.1, reorder=0.2))
    one, two = await boxes(sim, A, B)
    for number in range(2000):
        one.transport.sendto(number.to_bytes(4, "big"), (B, 7946))
        await asyncio.sleep(0.0002)
    await asyncio.sleep(10)
    got = [int.from_bytes(data, "big") for data, _ in two.got]
    distinct = set(got)
    assert 1500 < len(distinct) < 1700
    assert 100 < len(got) - len(distinct) < 220
    assert any(earlier > later for earlier, later in itertools.pairwise(got))


async def test_a_partition_cuts_between_groups_only(sim):
    one, two, three = await boxes(sim, A, B, C)
    sim.partition([A], [B])
    for sender in (one, two, three):
        for target in (A, B, C):
            sender.transport.sendto(b"x", (target, 7946))
    await asyncio.sleep(1)
    assert sorted(addr[0] for _, addr in one.got) == [A, C]
    assert sorted(addr[0] for _, addr in two.got) == [B, C]
    assert sorted(addr[0] for _, addr in three.got) == [A, B, C]


async def test_a_cut_swallows_what_is_on_its_way(sim):
    sim.weather(LinkQuality(latency=1, jitter=0))
    one, two = await boxes(sim, A, B)
    one.transport.sendto(b"x", (B, 7946))
    await asyncio.sleep(0.5)
    sim.cut(A, B)
    await asyncio.sleep(1)
    sim.heal()
    await asyncio.sleep(1)
    assert two.got == []


async def test_asymmetric_and_partial_cuts(sim):
    one, two, three = await boxes(sim, A, B, C)
    sim.cut(A, B, one_way=True)
    sim.cut(B, C)
    for sender, to in ((one, B), (two, A), (two, C), (three, B), (one, C)):
        sender.transport.sendto(b"x", (to, 7946))
    await asyncio.sleep(1)
    assert [len(box.got) for box in (one, two, three)] == [1, 0, 1]
    sim.heal(B, C)
    two.transport.sendto(b"x", (C, 7946))
    one.transport.sendto(b"x", (B, 7946))
    await asyncio.sleep(1)
    assert [len(box.got) for box in (one, two, three)] == [1, 0, 2]


async def test_a_flooded_link_drops_what_exceeds_its_queue(sim):
    sim.weather(LinkQuality(latency=0.001, jitter=0, bandwidth=100_000, queue=0.5))
    one, two = await boxes(sim, A, B)
    for _ in range(200):
        one.transport.sendto(bytes(1000), (B, 7946))
    await asyncio.sleep(10)
    assert 40 < len(two.got) < 60


async def test_a_crashed_host_neither_hears_nor_speaks(sim):
    one, two = await boxes(sim, A, B)
    sim.crash(B, "silence")
    two.transport.sendto(b"x", (A, 7946))
    one.transport.sendto(b"x", (B, 7946))
    await asyncio.sleep(1)
    assert (one.got, two.got) == ([], [])
    (again,) = [(await sim.restart(B).open_datagram(Box, (B, 7946)))[1]]
    one.transport.sendto(b"x", (B, 7946))
    await asyncio.sleep(1)
    assert (len(again.got), len(two.got)) == (1, 0)


async def test_clocks_of_hosts_differ_and_jump(sim):
    right, wrong = sim.host(A), sim.host(B, skew=5, drift=0.01)
    await asyncio.sleep(100)
    assert right.clock.wall() == SIMULATED_EPOCH + 100
    assert wrong.clock.wall() == pytest.approx(SIMULATED_EPOCH + 106)
    assert right.clock.monotonic() == wrong.clock.monotonic() == 100
    wrong.clock.jump(-3600)
    assert wrong.clock.wall() == pytest.approx(SIMULATED_EPOCH + 106 - 3600)
    wrong.crash()
    assert sim.restart(B).clock.skew == 5 - 3600


def test_one_links_traffic_does_not_shift_anothers_luck():
    lossy = LinkQuality(loss=0.5)
    quiet, busy = Links(7, lossy), Links(7, lossy)
    for _ in range(50):
        busy.datagram(A, C, 100, 0.0)
    first = [quiet.datagram(A, B, 100, 0.0) for _ in range(50)]
    assert first == [busy.datagram(A, B, 100, 0.0) for _ in range(50)]
    assert first != [quiet.datagram(B, A, 100, 0.0) for _ in range(50)]


def test_overlapping_groups_are_refused():
    with pytest.raises(UsageError, match=A):
        Links(1, LinkQuality()).partition([[A, B], [A, C]])
