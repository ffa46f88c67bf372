"""Signs of a network fault: which are given, with what evidence, and when to keep quiet."""

from __future__ import annotations

import pytest

from gossamer.gossip import PartitionHint, explain
from gossamer.gossip.swim.hints import PartitionHints
from tests.gossip.swarm import Host, Swarm, grow


class Given:
    """What was given, by kind."""

    def __init__(self) -> None:
        self.hints: list[PartitionHint] = []
        self.watch = PartitionHints(self.hints.append)
        self.watch.begin(0.0)

    def kinds(self) -> list[str]:
        return [hint.kind for hint in self.hints]


def hints_of(*hosts: Host) -> list[tuple[str, PartitionHint]]:
    return [(host.name, event) for host in hosts for _, event in host.saw(PartitionHint)]  # type: ignore[misc]


def test_who_loses_its_quorum_says_so_once() -> None:
    given = Given()
    given.watch.sized(5, 1)
    for at, size in ((30, 4), (30.5, 3), (31, 2), (32, 1)):
        given.watch.sized(size, at)
    assert given.kinds() == ["minority"]
    assert given.hints[0].evidence == {"alive": 2, "of": 5, "quorum": 3}


def test_members_that_leave_one_after_the_other_are_no_minority() -> None:
    for pause in (0.1, 3.0, 60.0):
        given = Given()
        given.watch.sized(5, 1)
        for turn, size in enumerate((4, 3, 2, 1)):
            at = 30 + pause * turn
            given.watch.left(at, live=True)
            given.watch.sized(size, at)
        assert given.kinds() == []


def test_a_loss_after_leaves_is_measured_against_those_who_stayed() -> None:
    given = Given()
    given.watch.sized(5, 1)
    for at, size in ((30, 4), (31, 3)):
        given.watch.left(at, live=True)
        given.watch.sized(size, at)
    given.watch.sized(2, 32)
    assert given.kinds() == []
    given.watch.sized(1, 33)
    assert given.hints[0].evidence == {"alive": 1, "of": 3, "quorum": 2}


def test_a_down_member_that_is_removed_makes_the_view_smaller() -> None:
    given = Given()
    given.watch.sized(4, 1)
    given.watch.sized(3, 30)
    given.watch.left(31, live=False)
    given.watch.sized(2, 32)
    assert given.kinds() == []
    given.watch.sized(1, 33)
    assert given.hints[0].evidence == {"alive": 1, "of": 3, "quorum": 2}


def test_a_node_that_leaves_says_nothing_until_it_joins_again() -> None:
    given = Given()
    given.watch.sized(5, 1)
    given.watch.withdraw()
    given.watch.sized(1, 30)
    given.watch.accused("b", mutual=True, now=30)
    assert given.kinds() == []
    given.watch.begin(40)
    given.watch.sized(5, 41)
    given.watch.sized(2, 42)
    assert given.kinds() == ["minority"]


def test_fresh_news_is_no_mismatch_and_old_news_is() -> None:
    given = Given()
    given.watch.surprised({"b": 0.4, "c": 4.9}, settled_for=100, now=100)
    given.watch.surprised({"b": 60.0}, settled_for=3, now=110)
    assert given.kinds() == []
    given.watch.surprised({"b": 0.4, "c": 8.0}, settled_for=100.04, now=120)
    assert given.hints[0].evidence == {"members": ["c"], "settled_for": 100.0}
    assert "about c for 100.0 s" in explain(given.hints[0])


@pytest.mark.parametrize("pause", [0.0, 0.4, 2.0, 20.0])
def test_an_orderly_stop_of_all_raises_no_hint(pause: float) -> None:
    swarm = Swarm(seed=3)
    hosts = grow(swarm, 7)
    swarm.run(30)
    for host in hosts:
        swarm.leave(host)
        swarm._later(1.2, lambda host=host: swarm.kill(host))
        swarm.run(pause)
    swarm.run(30)
    assert hints_of(*hosts) == []


def test_members_that_join_a_healthy_cluster_raise_no_hint() -> None:
    swarm = Swarm(seed=1)
    hosts = grow(swarm, 15)
    swarm.run(40)
    for turn in range(12):
        late = swarm.start(f"late{turn}")
        swarm.join(late, hosts[turn])
        swarm.run(swarm.rng.uniform(12, 20))
    assert hints_of(*swarm.live()) == []


def test_news_that_only_exchanges_bring_are_a_mismatch() -> None:
    """Datagrams reach nobody: tables are compared every half minute, and gossip is late each time."""
    swarm = Swarm(seed=4)
    swarm.udp_open = lambda _a, _b: False
    hosts = grow(swarm, 6)
    swarm.run(120)
    late = swarm.start("late")
    swarm.join(late, hosts[0])
    swarm.run(120)
    told = [hint for _, hint in hints_of(*hosts) if hint.kind == "view-mismatch"]
    assert any("late" in hint.evidence["members"] for hint in told)  # type: ignore[operator]
