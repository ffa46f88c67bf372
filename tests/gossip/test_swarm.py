"""Clusters of state machines under a seeded network."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gossamer.gossip.member import (
    LoopLag,
    MemberDown,
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


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_a_member_that_stalls_three_tenths_of_each_second_is_not_suspected(loss: float) -> None:
    swarm, hosts = grown(10, seed=6, loss=loss)
    for _ in range(120):
        swarm.freeze(hosts[3], 0.3)
        swarm.run(1)
    assert swarm.saw(MemberDown) == []
    assert swarm.saw(MemberSuspect) == []


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
