"""Bad networks under a cluster of state machines: loss, one way, no datagrams, doubles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gossamer.gossip.member import (
    LinkEvidence,
    MemberDown,
    MemberSuspect,
    MemberUp,
    PartitionHint,
)
from gossamer.gossip.swim.hints import explain
from tests.gossip.swarm import SEEDS, Host, Swarm, grow, grown


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("udp", "tcp", "options"),
    [
        pytest.param("* *", "", {}, id="no datagrams at all"),
        pytest.param("1 2", "", {}, id="one way: the second does not hear the first"),
        pytest.param(
            "1 6, 1 7, 2 6, 2 7, 6 1, 7 1, 6 2, 7 2",
            "1 6, 1 7, 2 6, 2 7, 6 1, 7 1, 6 2, 7 2",
            {},
            id="two do not reach two others; three reach everybody",
        ),
        pytest.param("", "", {"duplicate": 0.3, "latency": (0.0, 0.08)}, id="doubled and out of order"),
    ],
)
def test_a_bad_path_ends_in_agreement(seed: int, udp: str, tcp: str, options: dict[str, Any]) -> None:
    """Everybody stays a member for all, and is seen to come once."""
    swarm = Swarm(seed=seed, **options)
    if udp == "* *":
        swarm.udp_open = lambda _a, _b: False
    hosts = grow(swarm, 7)
    if udp != "* *":
        swarm.udp_open, swarm.tcp_open = all_but(udp), all_but(tcp)
    swarm.run(120)
    assert swarm.complete(), f"seed {seed}"
    assert swarm.saw(MemberDown) == [], f"seed {seed}"
    assert all(len(host.saw(MemberUp)) == 6 for host in hosts)


def all_but(pairs: str) -> Callable[[Host, Host], bool]:
    """Open but for these: from and to, by number."""
    closed = {tuple(f"node{number}" for number in pair.split()) for pair in pairs.split(",")}
    return lambda a, b: (a.name, b.name) not in closed


def test_a_link_that_breaks_convicts_nobody_who_answers() -> None:
    swarm, hosts = grown(8, seed=12, loss=0.05)
    for turn in range(200):
        victim = hosts[turn % 8]
        for host in hosts:
            if host is not victim:
                swarm.give(host, LinkEvidence(victim.name, "reset"))
        swarm.run(1)
    assert swarm.saw(MemberSuspect) == []


def test_every_hint_has_words() -> None:
    swarm, hosts = grown(12, seed=3)
    swarm.split(hosts[:3], hosts[3:])
    swarm.run(40)
    swarm.heal()
    swarm.run(20)
    hints = {event.kind: event for host in hosts for _, event in host.saw(PartitionHint)}
    assert {"minority", "burst", "healed-split"} <= set(hints)
    assert explain(hints["minority"]).startswith("only ")
    assert "held each other for dead" in explain(hints["healed-split"])
    assert all("{" not in explain(hint) for hint in hints.values())
