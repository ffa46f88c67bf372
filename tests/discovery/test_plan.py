"""The plan of the autocluster loop, strategies and commands."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gossamer.config import ClusterConfig
from gossamer.discovery import (
    ClusterCommands,
    Discovered,
    K8s,
    Manual,
    Static,
    strategy_of,
)
from gossamer.discovery.plan import Notice, Plan
from gossamer.errors import UnavailableError, UsageError
from gossamer.gossip import ForceLeave, Join, JoinResult, Leave, Member, MemberMetadata, Status

ME, A, B = ("10.0.0.1", 7946), ("10.0.0.2", 7946), ("10.0.0.3", 7946)


def plan(longest: float = 5.0) -> Plan:
    return Plan(rng=random.Random(1), longest=longest)


def test_a_node_whose_only_seed_is_itself_has_settled() -> None:
    p = plan()
    assert p.targets(Discovered((ME,)), local=ME, live=()) == ()
    assert p.settled


def test_dead_seeds_are_tried_for_ever_even_once_in_a_cluster() -> None:
    p = plan()
    found = Discovered((ME, A, B))
    assert p.targets(found, local=ME, live=()) == (A, B)
    p.tried(found, JoinResult((A,), {B: "refused"}))
    assert p.settled
    assert p.targets(found, local=ME, live={A}) == (B,)


def test_a_failed_look_up_is_not_an_empty_list() -> None:
    p = plan()
    found = Discovered((), {"seeds.example": "no such name"})
    assert p.targets(found, local=ME, live=()) == ()
    assert not p.settled
    assert p.tried(found, JoinResult()) == [Notice("seeds.example", "no such name")]


def test_news_is_told_once_a_change() -> None:
    p = plan()
    found = Discovered((A,))
    refused, joined = JoinResult((), {A: "refused"}), JoinResult((A,))
    told = [p.tried(found, result) for result in (refused, refused, joined, refused, refused)]
    where = "10.0.0.2:7946"
    assert told == [[Notice(where, "refused")], [], [Notice(where, "joined")], [Notice(where, "refused")], []]


def test_what_is_not_looked_for_any_more_is_forgotten() -> None:
    """Pods come and go for months, each with an address of its own."""
    p = plan()
    for number in range(1000):
        found = Discovered(((f"10.1.{number // 250}.{number % 250}", 7946),))
        p.targets(found, local=ME, live=())
        p.tried(found, JoinResult((), dict.fromkeys(found.addresses, "refused")))
    assert len(p.problems) == 1


def test_who_came_in_by_itself_is_no_problem_and_its_next_fall_is_news() -> None:
    p = plan()
    found = Discovered((A,))
    refused = JoinResult((), {A: "refused"})
    p.targets(found, local=ME, live=())
    p.tried(found, refused)
    assert p.problems
    p.targets(found, local=ME, live={A})
    assert p.problems == {}
    p.targets(found, local=ME, live=())
    assert p.tried(found, refused) == [Notice("10.0.0.2:7946", "refused")]


def test_waits_double_to_the_longest_and_start_over_on_news() -> None:
    p = plan(longest=2.0)
    found = Discovered((A,))
    waits = []
    for reason in ("refused",) * 6 + ("timeout",):
        p.tried(found, JoinResult((), {A: reason}))
        waits.append(p.pause())
    for wait, nominal in zip(waits, (0.25, 0.5, 1.0, 2.0, 2.0, 2.0, 0.25), strict=True):
        assert 0.8 * nominal <= wait <= 1.2 * nominal


@pytest.mark.parametrize(
    ("tree", "made"), [({"discovery": "manual"}, Manual), ({}, Static), ({"discovery": "k8s"}, K8s)]
)
def test_the_configuration_names_the_strategy(tree: dict[str, str], made: type) -> None:
    assert isinstance(strategy_of(ClusterConfig.model_validate(tree), node="a@b"), made)


class FakeView:
    standalone = False

    def __init__(self, *members: Member) -> None:
        self._members = list(members)
        self.local = members[0]

    def members(self) -> list[Member]:
        return self._members

    def get(self, name: str) -> Member | None:
        return next((m for m in self._members if m.name == name), None)


def member(name: str, number: int, status: Status = Status.ONLINE) -> Member:
    return Member("0" * 16, name, f"10.0.0.{number}", 7946, status, 1, MemberMetadata(name))


class FakeGossip:
    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[object] = []

    async def __call__(self, request: object) -> Any:
        self.asked.append(request)
        return self.answer


async def test_join_errors_are_exact() -> None:
    gossip = FakeGossip(JoinResult((), {B: "closed"}))
    commands = ClusterCommands(gossip, FakeView(member("a", 1), member("b", 2)))  # type: ignore[arg-type]
    assert await commands.join([ME]) == JoinResult()
    with pytest.raises(UsageError, match=r"10\.0\.0\.2:7946"):
        await commands.join([A])
    with pytest.raises(UnavailableError, match=r"cluster\.env and node\.cookie"):
        await commands.join([A, B])
    assert gossip.asked == [Join((B,))]
    gossip.answer = JoinResult((B,))
    assert (await commands.join([B])).joined == (B,)


async def test_leave_and_force_leave_errors_are_exact() -> None:
    gossip = FakeGossip(None)
    alone = ClusterCommands(gossip, FakeView(member("a", 1)))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="alone"):
        await alone.leave()
    view = FakeView(member("a", 1), member("b", 2), member("c", 3, Status.OFFLINE))
    commands = ClusterCommands(gossip, view)  # type: ignore[arg-type]
    await commands.leave()
    with pytest.raises(UsageError, match="this node"):
        await commands.force_leave("a")
    with pytest.raises(UsageError, match="alive"):
        await commands.force_leave("b")
    with pytest.raises(UsageError, match="no member"):
        await commands.force_leave("nobody")
    gossip.answer = True
    await commands.force_leave("c")
    assert gossip.asked == [Leave(), ForceLeave("c")]
