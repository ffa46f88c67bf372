"""Clusters of state machines under a seeded network."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from swimprotocol.status import Status

from gossamer.config import GossipConfig
from gossamer.gossip.member import (
    ForcedOut,
    LoopLag,
    MemberAlive,
    MemberDown,
    MemberLeft,
    MemberMetadata,
    MemberSuspect,
    MemberUp,
    PartitionHint,
)
from gossamer.gossip.steps import JoinResult, Requested, Tick, UpdateMetadata
from tests.gossip.swarm import SEEDS, Swarm, grown


@pytest.mark.parametrize("seed", SEEDS)
def test_thirty_that_start_together_know_each_other_within_three_seconds(seed: int) -> None:
    swarm = Swarm(seed=seed)
    hosts = [swarm.start(f"node{i}") for i in range(30)]
    for host in hosts[1:]:
        swarm.join(host, hosts[0])
    assert swarm.run(3, until=swarm.complete), f"seed {seed}"
    assert hosts[5].answers["join"] == JoinResult(joined=(hosts[0].address,))
    assert swarm.max_packet <= 1400


@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_process_is_seen_by_all_within_four_seconds(seed: int) -> None:
    swarm, hosts = grown(30, seed=seed)
    swarm.run(5)
    swarm.kill(hosts[7])
    assert swarm.run(4, until=swarm.complete), f"seed {seed}"
    reasons = {event.reason for host in swarm.live() for _, event in host.saw(MemberDown)}
    assert reasons <= {"refused", "reported"}


@pytest.mark.parametrize("seed", SEEDS)
def test_reset_links_speed_the_verdict(seed: int) -> None:
    swarm, hosts = grown(30, seed=seed)
    swarm.run(5)
    swarm.kill(hosts[7], links=hosts)
    assert swarm.run(2.2, until=swarm.complete), f"seed {seed}"


@pytest.mark.parametrize("seed", range(8))
def test_a_machine_that_loses_power_is_seen_by_all_within_four_seconds(seed: int) -> None:
    """Silence, not even a refused connection; four deaths a seed, and the slowest survivor counts."""
    swarm, hosts = grown(30, seed=seed)
    swarm.run(5)
    for victim in hosts[3:15:3]:
        swarm.kill(victim, power=True)
        assert swarm.run(4, until=swarm.complete), f"{victim.name}, seed {seed}"
        swarm.run(2)


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_a_member_that_stalls_three_tenths_of_each_second_is_not_suspected(loss: float) -> None:
    swarm, hosts = grown(10, seed=6, loss=loss)
    for _ in range(120):
        swarm.freeze(hosts[3], 0.3)
        swarm.run(1)
    assert swarm.saw(MemberDown) == []
    assert swarm.saw(MemberSuspect) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_member_frozen_for_a_second_refutes(seed: int) -> None:
    swarm, hosts = grown(8, seed=seed)
    swarm.freeze(hosts[3], 1.2)
    swarm.run(6)
    assert swarm.complete()
    assert swarm.saw(MemberDown) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restart_replaces_the_life_before(seed: int) -> None:
    swarm, hosts = grown(5, seed=seed)
    swarm.kill(hosts[2])
    swarm.run(0.05)
    again = swarm.start("node3")
    swarm.join(again, hosts[0])
    fresh = again.swim.table.me.id
    assert swarm.run(
        2,
        until=lambda: all(h is again or h.swim.table.by_id(fresh) for h in swarm.live()) and swarm.complete(),
    ), f"seed {seed}"
    downs = [event for _, event in hosts[4].saw(MemberDown)]
    assert [event.reason for event in downs] == ["replaced"]
    assert downs[0].member.status is Status.OFFLINE


def test_a_restart_whose_clock_went_back_outbids_its_former_life() -> None:
    swarm, hosts = grown(5, seed=1)
    swarm.kill(hosts[2])
    swarm.run(10)
    again = swarm.start("node3", incarnation=1)
    swarm.join(again, hosts[0])
    assert swarm.run(6, until=swarm.complete)


def test_a_seedless_node_that_restarts_is_found_by_the_others() -> None:
    """The first node has no seeds; the others keep trying its address."""
    swarm, hosts = grown(4, seed=2)
    swarm.kill(hosts[0])
    swarm.run(10)
    swarm.start("node1")
    assert swarm.run(15, until=swarm.complete)


def test_another_name_at_the_same_address_ends_the_zombie() -> None:
    swarm, hosts = grown(4, seed=4)
    swarm.kill(hosts[3])
    del swarm.hosts["node4"]
    fresh = swarm.start("other", address=hosts[3].address)
    swarm.join(fresh, hosts[0])
    assert swarm.run(2, until=swarm.complete)
    # Found out, or told by who found out first.
    assert [event.reason in ("replaced", "reported") for _, event in hosts[1].saw(MemberDown)] == [True]


def test_a_leave_is_no_failure_and_is_final() -> None:
    swarm, hosts = grown(6, seed=4)
    swarm.leave(hosts[2])
    swarm.run(5)
    assert hosts[2].answers["leave"] is None
    others = [host for host in hosts if host is not hosts[2]]
    assert all(len(host.saw(MemberLeft)) == 1 and not host.saw(MemberDown) for host in others)
    assert hosts[2].swim.table.live == []
    swarm.join(hosts[0], hosts[2])
    swarm.run(60)
    assert all("node3" not in host.swim.table.live for host in others)
    joined = hosts[0].answers["join"]
    assert isinstance(joined, JoinResult)
    assert joined.failed == {hosts[2].address: "left"}
    swarm.join(hosts[2], hosts[0])
    assert swarm.run(5, until=swarm.complete)


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_who_stops_refutes_none_of_the_repetitions_of_its_own_goodbye(loss: float) -> None:
    swarm, hosts = grown(6, seed=4, loss=loss)
    # What it says of itself last is on its way still when it says goodbye.
    metadata = MemberMetadata("node3", creation=1, ports={"mqtt": 1884})
    swarm.give(hosts[2], Requested("metadata", UpdateMetadata(metadata)))
    swarm.leave(hosts[2], returning=True)
    swarm.leave(hosts[4], returning=True)
    swarm.run(1.1)
    swarm.kill(hosts[2])
    swarm.kill(hosts[4])
    swarm.run(60)
    for host in (hosts[0], hosts[1], hosts[3], hosts[5]):
        assert [event.reason for _, event in host.saw(MemberDown)] == ["stopped", "stopped"]
        assert {m.name for m in host.swim.members() if m.stopped} == {"node3", "node5"}
        assert not host.saw(MemberSuspect)
        assert not host.saw(PartitionHint)
        assert len(host.saw(MemberUp)) == 5


def test_force_leave_removes_the_dead_and_throws_out_the_living() -> None:
    swarm, hosts = grown(5, seed=4)
    swarm.kill(hosts[4])
    swarm.run(10)
    swarm.force_leave(hosts[0], "node5")
    swarm.force_leave(hosts[0], "node4")
    swarm.run(5)
    assert hosts[0].answers["force"] is True
    assert [event.by for _, event in hosts[3].saw(ForcedOut)] == ["node1"]
    assert hosts[3].swim.aloof
    assert all(set(host.swim.table.live) | {host.name} == {"node1", "node2", "node3"} for host in hosts[:3])
    assert swarm.force_leave(hosts[0], "nobody") is False


def test_the_younger_of_two_nodes_with_one_name_has_to_go() -> None:
    swarm, hosts = grown(4, seed=4)
    holder = hosts[2]
    twin = swarm.start("node3", address=("10.9.9.9", 7946))
    swarm.hosts["node3"] = holder
    swarm.join(twin, hosts[0])
    swarm.run(5)
    assert twin.answers["join"] == JoinResult(failed={hosts[0].address: "name-taken"})
    assert swarm.complete()
    assert swarm.saw(MemberDown) == []


HISTORY = """
from tests.gossip.swarm import grown
swarm, hosts = grown(6, seed=11, loss=0.1)
swarm.split(hosts[:2], hosts[2:])
swarm.run(20)
swarm.heal()
swarm.run(20)
print([(host.packets, host.bytes, host.events) for host in hosts])
"""


def test_the_same_seed_is_the_same_history_however_strings_hash() -> None:
    histories = [
        subprocess.run(
            [sys.executable, "-c", HISTORY],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert histories[0] == histories[1]
    assert len(histories[0]) > 1000


def test_tombstones_are_reaped() -> None:
    swarm, hosts = grown(4, seed=1, settings=GossipConfig(down_retention=60))
    swarm.kill(hosts[3])
    swarm.run(30)
    assert hosts[0].swim.table.get("node4") is not None
    swarm.run(60)
    assert all(host.swim.table.get("node4") is None for host in hosts[:3])


def test_a_refuted_suspicion_is_told() -> None:
    swarm, hosts = grown(6, seed=2)
    swarm.freeze(hosts[2], 1.4)
    swarm.run(8)
    assert any(host.saw(MemberAlive) for host in hosts)


def test_a_node_that_moved_to_another_address_gets_its_name_back() -> None:
    """As a pod that is killed and started elsewhere: the first join is refused, a later one is not."""
    swarm, hosts = grown(4, seed=6)
    swarm.kill(hosts[3], power=True)
    moved = swarm.start("node4", address=("10.7.7.7", 7946))
    swarm.join(moved, hosts[0])
    swarm.run(0.1)
    assert moved.answers["join"] == JoinResult(failed={hosts[0].address: "name-taken"})
    swarm.run(5)
    swarm.join(moved, hosts[0])
    assert swarm.run(2, until=swarm.complete)


def test_tables_that_are_alike_cost_an_exchange_next_to_nothing() -> None:
    swarm, hosts = grown(60, seed=5)
    swarm.run(60)
    before = sum(host.stream_bytes for host in hosts)
    swarm.run(300)
    # Ten exchanges a member at the most, each under half a kilobyte: no rows travel.
    assert sum(host.stream_bytes for host in hosts) - before < 60 * 10 * 500


def test_an_exchange_sends_only_the_rows_that_one_side_lacks() -> None:
    swarm, hosts = grown(40, seed=5)
    swarm.run(30)
    late = swarm.start("late")
    before = {host.name: host.stream_bytes for host in hosts}
    swarm.join(late, hosts[0])
    assert swarm.run(3, until=swarm.complete)
    whole = hosts[0].stream_bytes - before["node1"]
    rest = [host.stream_bytes - before[host.name] for host in hosts[1:]]
    assert max(rest) < whole / 4


@pytest.mark.parametrize("seed", SEEDS)
def test_a_clock_that_jumps_forward_is_taken_for_a_stall_and_convicts_nobody(seed: int) -> None:
    swarm, hosts = grown(6, seed=seed)
    swarm.freeze(hosts[2], 20.0)
    swarm.run(0.6)
    # Woken after what its own clock calls an hour: its answers are late, not those of the others.
    victim = hosts[2]
    victim.frozen_until = 0.0
    victim.swim.step(Tick(), swarm.now + 3600)
    assert set(victim.swim.table.live) == {host.name for host in hosts if host is not victim}


def test_a_loop_that_ran_late_makes_this_node_wait_longer_before_it_accuses() -> None:
    """A stall between two timers of gossip: only whoever watches the loop has seen it."""
    swarm, hosts = grown(5, seed=3)
    swarm.run(5)
    node = hosts[2]
    assert node.swim.awareness.score == 0
    swarm.give(node, LoopLag(0.05))
    assert node.swim.awareness.score == 0
    for expected in (1, 2):
        swarm.run(0.3, until=lambda: False)
        score = node.swim.awareness.score
        swarm.give(node, LoopLag(0.2))
        assert node.swim.awareness.score == score + 1 <= expected
    swarm.run(10)
    assert node.swim.awareness.score == 0
    assert swarm.saw(MemberSuspect) == []


def test_one_stall_counts_once_whoever_notices_it() -> None:
    swarm, hosts = grown(5, seed=3)
    swarm.run(5)
    node = hosts[2]
    swarm.freeze(node, 0.6)
    swarm.run(0.601)
    score = node.swim.awareness.score
    assert score >= 1
    swarm.give(node, LoopLag(0.6))
    assert node.swim.awareness.score == score


def test_a_join_storm_keeps_the_seed_and_everybody_cheap() -> None:
    """Two hundred through one seed: rows taken in grow with the rows that are news."""
    swarm = Swarm(seed=9)
    hosts = [swarm.start(f"node{i}") for i in range(200)]
    for host in hosts[1:]:
        swarm.join(host, hosts[0])
    assert swarm.run(10, until=swarm.complete, step=0.5)
    assert swarm.saw(MemberSuspect) == []
    # A row is about 150 bytes; everybody learns 199 of them at least once.
    assert sum(host.stream_bytes for host in hosts) / 200 < 2 * 199 * 150
