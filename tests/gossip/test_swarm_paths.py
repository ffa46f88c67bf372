"""Bad networks under a cluster of state machines: loss, one way, no datagrams, doubles."""

from __future__ import annotations

import pytest

from gossamer.gossip.member import (
    LinkEvidence,
    MemberDown,
    MemberSuspect,
    MemberUp,
    PartitionHint,
)
from gossamer.gossip.swim.hints import explain
from tests.gossip.swarm import SEEDS, Swarm, grow


def test_five_percent_loss_suspects_nobody() -> None:
    """Five members, twenty minutes; the hour of thirty stands in the bench."""
    swarm = Swarm(seed=5, loss=0.05)
    grow(swarm, 5)
    swarm.run(1200)
    assert [event for host in swarm.live() for event in host.saw(MemberSuspect)] == []


def test_a_node_reached_by_streams_only_stays_and_is_hinted_at() -> None:
    swarm = Swarm(seed=4)
    hosts = grow(swarm, 4)
    swarm.udp_open = lambda a, b: hosts[3] not in (a, b)
    swarm.run(60)
    assert swarm.complete()
    kinds = {event.kind for host in hosts for _, event in host.saw(PartitionHint)}
    assert "udp-blocked" in kinds


def test_one_cut_link_is_bridged_by_helpers_and_hinted_at() -> None:
    swarm = Swarm(seed=4)
    hosts = grow(swarm, 4)
    pair = {id(hosts[0]), id(hosts[1])}
    swarm.udp_open = swarm.tcp_open = lambda a, b: {id(a), id(b)} != pair
    swarm.run(60)
    assert [event for host in hosts for event in host.saw(MemberDown)] == []
    kinds = {event.kind for host in hosts[:2] for _, event in host.saw(PartitionHint)}
    assert "partial" in kinds


def test_one_way_loss_ends_in_agreement() -> None:
    """A hears B, B does not hear A; everybody else hears both."""
    swarm = Swarm(seed=7)
    hosts = grow(swarm, 5)
    swarm.udp_open = lambda a, b: not (a is hosts[0] and b is hosts[1])
    swarm.run(60)
    assert [event for host in hosts for event in host.saw(MemberDown)] == []
    assert swarm.complete()


def test_duplicates_and_reordering_change_nothing() -> None:
    swarm = Swarm(seed=8, duplicate=0.3, latency=(0.0, 0.08))
    hosts = grow(swarm, 8)
    swarm.run(120)
    assert swarm.complete()
    assert [event for host in hosts for event in host.saw(MemberDown)] == []
    assert all(len(host.saw(MemberUp)) == 7 for host in hosts)


def test_a_link_that_breaks_convicts_nobody_who_answers() -> None:
    swarm = Swarm(seed=12, loss=0.05)
    hosts = grow(swarm, 8)
    for turn in range(200):
        victim = hosts[turn % 8]
        for host in hosts:
            if host is not victim:
                swarm.give(host, LinkEvidence(victim.name, "reset"))
        swarm.run(1)
    assert [event for host in hosts for event in host.saw(MemberSuspect)] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_path_that_drops_large_datagrams_still_carries_a_cluster(seed: int) -> None:
    """600 bytes where 1,400 were assumed: exchanges of tables bring what packets did not."""
    swarm = Swarm(seed=seed)
    swarm.path_mtu = 600
    hosts = grow(swarm, 20)
    swarm.run(30)
    assert [event for host in hosts for event in host.saw(MemberDown)] == []
    swarm.kill(hosts[4])
    assert swarm.run(6, until=swarm.complete), f"seed {seed}"
    assert len({event.member.name for host in hosts for _, event in host.saw(MemberDown)}) == 1


def test_udp_blocked_everywhere_still_makes_a_cluster() -> None:
    swarm = Swarm(seed=4)
    swarm.udp_open = lambda _a, _b: False
    hosts = grow(swarm, 4)
    swarm.run(60)
    assert swarm.complete()
    assert [event for host in hosts for event in host.saw(MemberDown)] == []


@pytest.mark.parametrize("seed", range(3))
def test_a_link_that_loses_a_third_of_all_makes_a_node_bury_nobody(seed: int) -> None:
    """Nobody left to confirm is no licence to convict: whoever answers once is cleared."""
    swarm = Swarm(seed=seed)
    hosts = grow(swarm, 5)
    swarm.loss = 0.33
    swarm.run(120)
    assert [event for host in hosts for event in host.saw(MemberDown)] == [], f"seed {seed}"


def test_every_hint_has_words() -> None:
    swarm = Swarm(seed=3)
    hosts = grow(swarm, 12)
    swarm.split(hosts[:3], hosts[3:])
    swarm.run(40)
    swarm.heal()
    swarm.run(20)
    hints = {event.kind: event for host in hosts for _, event in host.saw(PartitionHint)}
    assert {"minority", "burst", "healed-split"} <= set(hints)
    assert explain(hints["minority"]).startswith("only ")
    assert "held each other for dead" in explain(hints["healed-split"])
    assert all("{" not in explain(hint) for hint in hints.values())
