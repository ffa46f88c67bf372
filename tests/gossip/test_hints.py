"""Signs of a network fault: which are given, with what evidence, and when to keep quiet."""

from __future__ import annotations

import pytest

from gossamer.gossip import PartitionHint, explain
from gossamer.gossip.swim.hints import PartitionHints
from tests.gossip.swarm import Host, Swarm, grow, grown


def hints_of(*hosts: Host) -> list[tuple[str, PartitionHint]]:
    return [(host.name, event) for host in hosts for _, event in host.saw(PartitionHint)]  # type: ignore[misc]


def told(script: str) -> list[PartitionHint]:
    """What is given when so many are alive (``5@1``: five at 1 s), and others leave or are removed."""
    hints: list[PartitionHint] = []
    watch = PartitionHints(hints.append)
    watch.begin(0.0)
    for word in script.split():
        what, _, at = word.partition("@")
        match what:
            case "left" | "removed":
                watch.left(float(at), live=what == "left")
            case "accused":
                watch.accused("b", mutual=True, now=float(at))
            case "withdraw":
                watch.withdraw()
            case "begin":
                watch.begin(float(at))
            case size:
                watch.sized(int(size), float(at))
    return hints


@pytest.mark.parametrize(
    ("script", "evidence"),
    [
        pytest.param("5@1 4@30 3@30.5 2@31 1@32", (2, 5, 3), id="who loses its quorum says so once"),
        pytest.param(
            "5@1 left@30 4@30 left@31 3@31 2@32 1@33", (1, 3, 2), id="measured against those who stayed"
        ),
        pytest.param(
            "4@1 3@30 removed@31 2@32 1@33", (1, 3, 2), id="a down member that is removed makes it smaller"
        ),
        pytest.param(
            "5@1 withdraw 1@30 accused@30 begin@40 5@41 2@42",
            (2, 5, 3),
            id="who leaves says nothing until it joins again",
        ),
    ],
)
def test_a_loss_that_no_leave_explains_is_a_minority_and_told_once(
    script: str, evidence: tuple[int, int, int]
) -> None:
    (hint,) = told(script)
    assert (hint.kind, hint.evidence) == (
        "minority",
        dict(zip(("alive", "of", "quorum"), evidence, strict=True)),
    )


@pytest.mark.parametrize("pause", [0.1, 3.0, 60.0])
def test_members_that_leave_one_after_the_other_are_no_minority(pause: float) -> None:
    leaves = [f"left@{30 + pause * turn} {4 - turn}@{30 + pause * turn}" for turn in range(4)]
    assert told(" ".join(["5@1", *leaves])) == []


def test_fresh_news_is_no_mismatch_and_old_news_is() -> None:
    hints: list[PartitionHint] = []
    watch = PartitionHints(hints.append)
    watch.begin(0.0)
    watch.surprised({"b": 0.4, "c": 4.9}, settled_for=100, now=100)
    watch.surprised({"b": 60.0}, settled_for=3, now=110)
    assert hints == []
    watch.surprised({"b": 0.4, "c": 8.0}, settled_for=100.04, now=120)
    assert hints[0].evidence == {"members": ["c"], "settled_for": 100.0}
    assert "about c for 100.0 s" in explain(hints[0])


@pytest.mark.parametrize("pause", [0.0, 0.4, 2.0, 20.0])
def test_an_orderly_stop_of_all_raises_no_hint(pause: float) -> None:
    swarm, hosts = grown(7, seed=3)
    swarm.run(30)
    for host in hosts:
        swarm.leave(host)
        swarm._later(1.2, lambda host=host: swarm.kill(host))
        swarm.run(pause)
    swarm.run(30)
    assert hints_of(*hosts) == []


def test_members_that_join_a_healthy_cluster_raise_no_hint() -> None:
    swarm, hosts = grown(15, seed=1)
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
