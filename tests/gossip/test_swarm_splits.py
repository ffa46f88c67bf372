"""Splits of a cluster of state machines: how they are seen, how they heal, and what stays of them."""

from __future__ import annotations

import pytest
from swimprotocol.status import Status

from gossamer.gossip.member import MemberDown
from tests.gossip.swarm import Swarm, grown


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sizes", [(4, 1), (3, 2)])
def test_a_split_that_heals_at_once_makes_nobody_bury_its_own_side(seed: int, sizes: tuple[int, int]) -> None:
    """What the other side has just declared dead still waits to spread when the paths come back."""
    swarm, hosts = grown(sum(sizes), seed=seed)
    swarm.run(15)
    left, right = hosts[: sizes[0]], hosts[sizes[0] :]
    swarm.split(left, right)
    assert swarm.run(40, until=lambda: all(len(h.swim.table.live) == sizes[1] - 1 for h in right), step=0.01)
    swarm.heal()
    assert swarm.run(20, until=swarm.complete), f"seed {seed}"
    for side in (left, right):
        names = {host.name for host in side}
        buried = {event.member.name for host in side for _, event in host.saw(MemberDown)}  # type: ignore[union-attr]
        assert not buried & names, f"seed {seed}"


def test_two_clusters_that_one_join_connects_become_one() -> None:
    swarm = Swarm(seed=5)
    left = [swarm.start(f"left{i}") for i in range(12)]
    right = [swarm.start(f"right{i}") for i in range(12)]
    for side in (left, right):
        for host in side[1:]:
            swarm.join(host, side[0])
    swarm.run(10)
    swarm.join(left[3], right[5])
    assert swarm.run(5, until=swarm.complete)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sizes", [(3, 2), (4, 1), (2, 2, 1), (1, 1, 1, 1, 1), (2, 2)])
def test_every_node_of_every_side_knows_of_a_split_within_five_seconds(
    seed: int, sizes: tuple[int, ...]
) -> None:
    """Also where nobody is left to confirm what is seen; and nobody declares a member of its own side."""
    swarm, hosts = grown(sum(sizes), seed=seed)
    swarm.run(5 + 0.1 * seed)
    side = {host.name: number for host, number in zip(hosts, sides(sizes), strict=True)}
    swarm.udp_open = swarm.tcp_open = lambda a, b: side[a.name] == side[b.name]
    swarm.run(5)
    for host in hosts:
        others = {name for name in side if side[name] != side[host.name]}
        assert host.sees(Status.OFFLINE) == others, f"{host.name}, seed {seed}"


def sides(sizes: tuple[int, ...]) -> list[int]:
    return [number for number, size in enumerate(sizes) for _ in range(size)]
