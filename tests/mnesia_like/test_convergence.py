"""Replicas equal their owners, whatever the network did."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from .fakes import Net, play, scripts

NAMES = ["a", "b", "c"]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32),
    renewals=st.sampled_from([0.0, 0.02, 0.2]),
    log_bytes=st.sampled_from([64, 8 * 1024 * 1024]),
    script=scripts("put", "flush", "partition", "heal", "renew", "restart", "leave", "advance"),
)
def test_replicas_converge_whatever_the_network_does(
    seed: int, renewals: float, log_bytes: int, script: list[tuple[Any, ...]]
) -> None:
    """After any history of writes, cuts, crashes and renewals, a good network makes all replicas equal."""
    note(f"seed={seed}")
    net = Net(seed, NAMES, renewals=renewals, log_bytes=log_bytes)
    play(net, script)
    net.settle()
    net.check()


@pytest.mark.parametrize("seed", range(4))
def test_large_tables_converge_through_snapshots_though_sessions_end(seed: int) -> None:
    """Many parts in flight, a small log, writes all along."""
    net = Net(seed, NAMES, renewals=0.02, log_bytes=2000, window=100_000)
    rng = random.Random(seed)
    for i in range(4000):
        net.write("a", f"site/{i}", "x" * 100)
    net.flush("a")
    for _ in range(20):
        for _ in range(50):
            key = f"site/{rng.randrange(5000)}"
            if rng.random() < 0.3:
                net.delete("a", key)
            else:
                net.write("a", key, rng.randrange(100))
        net.flush("a")
        net.advance(0.3)
        if rng.random() < 0.1:
            net.partition("a", "b")
            net.advance(1.0)
            net.heal("a", "b")
    net.settle()
    net.check()
    assert net.machines["a"].core.counts["snapshots"] > 0


def test_the_same_seed_gives_the_same_frames() -> None:
    """Two runs of one seed send the same number of frames and end alike."""

    def run() -> tuple[int, dict[str, int]]:
        net = Net(7, NAMES, renewals=0.05)
        for i in range(100):
            net.write("b", f"k{i}", i)
            if i % 7 == 0:
                net.flush("b")
                net.advance(0.1)
        net.settle()
        return net.frames, net.machines["c"].core.counts

    assert run() == run()
