"""Whole nodes under faults of every shape: what they hint at, why, and how a person reads it."""

import asyncio
from dataclasses import replace

import pytest

from gossamer.cli.commands.nodes import status_parts
from gossamer.cli.render.show import show_part
from gossamer.testing import LAN

from .clusters import heal, nodes

EVERYBODY = range(1, 6)


def print_status(status):
    for part in status_parts(status):
        show_part(part)


def name(number):
    return f"node{number}@10.0.0.{number}"


def hints(node, since=0.0):
    return [hint for at, hint in node.members.hints if at >= since]


def kinds(node, since=0.0):
    return {hint.kind for hint in hints(node, since)}


def named(node, kind, key):
    return {hint.evidence[key] for hint in hints(node) if hint.kind == kind}


async def settled(cluster):
    # So long that the view counts as settled.
    await asyncio.sleep(15)
    assert [kinds(node) for node in cluster.nodes.values()] == [set()] * 5


@nodes(seeds=2)
@pytest.mark.parametrize("small", [[4, 5], [5]], ids=["3/2", "4/1"])
async def test_a_split_is_told_by_the_smaller_side_and_its_end_by_both(cluster, capsys, small):
    await settled(cluster)
    large = [number for number in EVERYBODY if number not in small]
    cluster.partition(large, small)
    await cluster.settled(*small)
    await cluster.settled(*large)
    for number in small:
        assert "minority" in kinds(cluster.nodes[number])
        (hint,) = (hint for hint in hints(cluster.nodes[number]) if hint.kind == "minority")
        assert hint.evidence["of"] == 5
        assert hint.evidence["quorum"] == 3
    if small == [5]:
        assert "own-link" in kinds(cluster.nodes[5])
    assert all("minority" not in kinds(cluster.nodes[number]) for number in large)
    print_status(cluster.nodes[5].view.status().model_dump(mode="json"))
    shown = capsys.readouterr().out
    assert "Signs of a network fault" in shown
    assert "of 5 members are reachable, fewer than the quorum of 3" in shown
    assert "this side of a split is probably the smaller one" in shown
    healed = cluster.nodes[1].clock.wall()
    await heal(cluster)
    for side, others in ((large, small), (small, large)):
        accusers = {by for n in side for by in named(cluster.nodes[n], "healed-split", "by")}
        assert accusers <= {name(number) for number in others}
        assert accusers
    assert all("accused" not in kinds(node, healed) for node in cluster.nodes.values())
    print_status(cluster.nodes[1].view.status().model_dump(mode="json"))
    assert "held each other for dead: the network was split and has healed" in capsys.readouterr().out


@nodes(seeds=2)
@pytest.mark.parametrize("one_way", [False, True])
async def test_a_cut_path_between_two_is_told_by_both_and_costs_nobody(cluster, capsys, one_way):
    """Both ways, and A hears B while B does not hear A."""
    await settled(cluster)
    cluster.cut(2, 1, one_way=one_way)
    await asyncio.sleep(70)
    for number, other in ((1, 2), (2, 1)):
        assert kinds(cluster.nodes[number]) == {"partial"}
        assert named(cluster.nodes[number], "partial", "member") == {name(other)}
    assert [kinds(cluster.nodes[number]) for number in (3, 4, 5)] == [set()] * 3
    assert [node.members.counters["member_down"] for node in cluster.nodes.values()] == [0] * 5
    print_status(cluster.nodes[1].view.status().model_dump(mode="json"))
    shown = [line for line in capsys.readouterr().out.splitlines() if "partial" in line]
    # Told more than once by now, and shown once.
    assert len(shown) == 1
    assert f"{name(2)} answers others but not this node: the path between the two is cut" in shown[0]


@nodes(seeds=2)
async def test_blocked_udp_is_told_and_costs_nobody(cluster, sim, capsys):
    await settled(cluster)
    for number in range(1, 5):
        sim.shape(cluster.address(number), cluster.address(5), replace(LAN, max_datagram=0))
    await asyncio.sleep(30)
    assert not list(cluster.differences())
    assert [node.members.counters["member_down"] for node in cluster.nodes.values()] == [0] * 5
    for number in range(1, 5):
        assert named(cluster.nodes[number], "udp-blocked", "member") == {name(5)}
    assert "udp-blocked" in kinds(cluster.nodes[5])
    print_status(cluster.nodes[1].view.status().model_dump(mode="json"))
    assert f"{name(5)} answers on TCP only: UDP is blocked on the way" in capsys.readouterr().out


@nodes(seeds=2, start=False)
async def test_a_path_that_drops_large_datagrams_costs_nobody(cluster, sim):
    """600 bytes where 1,400 are assumed; the third joins through it."""
    for number in (1, 2):
        sim.shape(cluster.address(number), cluster.address(3), replace(LAN, max_datagram=600))
    await cluster.start(1, 2, 3)
    await cluster.settled(timeout=60)
    await asyncio.sleep(60)
    assert not list(cluster.differences())
    assert [node.members.counters["member_down"] for node in cluster.nodes.values()] == [0] * 3


@nodes(seeds=3)
async def test_a_cluster_that_is_stopped_in_order_hints_at_nothing(cluster, sim):
    await settled(cluster)
    nodes = list(cluster.nodes.values())
    if sim.seed == 0:
        await asyncio.gather(*(cluster.stop(number) for number in EVERYBODY))
    else:
        for number in EVERYBODY:
            await cluster.stop(number)
            await asyncio.sleep(sim.rng(f"pause/{number}").choice([0, 1, 20]))
    assert [kinds(node) for node in nodes] == [set()] * 5


@nodes(seeds=2)
async def test_a_crash_or_two_hint_at_nothing(cluster, sim):
    """A majority that lost members cannot tell a crash from a split, and does not cry wolf."""
    await settled(cluster)
    for victim in sim.rng("victims").sample(EVERYBODY, 2):
        cluster.crash(victim, sim.rng(f"how/{victim}").choice(["kill", "reset", "silence"]))
    await cluster.settled()
    assert [kinds(node) for node in cluster.nodes.values()] == [set()] * 3
