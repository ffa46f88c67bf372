"""Clusters of state machines, cut in every shape: a split is seen once, and only the minority reloads."""

import random
from collections import Counter

import pytest

from gossamer.autoheal.values import Healed, HealOrder, ViewTold

from .town import Town


def healed_after(town, groups, *, length=20):
    town.split(*groups)
    town.run(length)
    town.join()
    town.until(lambda: town.pairs())
    return town.until(lambda: town.healed)


def names(numbers):
    return [f"n{number}" for number in numbers]


@pytest.mark.parametrize(
    ("groups", "victims"),
    [
        (([1, 2, 3], [4, 5]), [4, 5]),
        (([1, 2], [3, 4, 5]), [1, 2]),
        (([1, 2], [3, 4], [5]), [3, 4, 5]),
        (([3, 4], [1], [2, 5]), [1, 3, 4]),
        (([1], [2], [3], [4], [5]), [2, 3, 4, 5]),
        (([1, 2, 3, 4], [5]), [5]),
    ],
    ids=["3/2", "leader in the minority", "2/2/1", "2/2/1, leader alone", "total", "4/1"],
)
def test_a_split_is_raised_once_by_each_of_a_pair_and_only_the_minority_reloads(groups, victims):
    town = Town(5)
    took = healed_after(town, groups)
    assert 15 <= took < 40
    across = {
        (f"n{a}", f"n{b}") for g in groups for a in g for other in groups if other is not g for b in other
    }
    assert Counter(town.pairs()) == Counter(dict.fromkeys(across, 1))
    assert town.contexts() == {"running_partitioned_network"}
    assert sorted(town.reloads) == names(victims)
    for name in town.names:
        (episode,) = town.episodes(name)
        assert sorted(episode.reloaded) == sorted(set(town.names) - set(episode.survivors))
        assert episode.split_at < episode.healed_at


def test_two_nodes_heal():
    town = Town(2)
    healed_after(town, ([1], [2]))
    assert town.reloads == ["n2"]


def test_an_overlapping_split_heals():
    """1-2 and 2-3 hold, 1-3 is cut: the two that saw each other and have the leader survive."""
    town = Town(3)
    town.cut(1, 3)
    town.cut(3, 1)
    town.run(20)
    town.join()
    town.until(lambda: town.pairs())
    town.until(lambda: town.healed)
    assert sorted(town.pairs()) == [("n1", "n3"), ("n3", "n1")]
    assert sorted(town.reloads) == ["n3"]


def test_a_death_that_only_one_side_saw_is_no_inconsistency():
    town = Town(3)
    town.cut(1, 3)
    town.run(20)
    town.join()
    town.run(90)
    assert town.pairs() == []
    assert town.healed
    assert town.reloads == []


def test_a_node_that_crashed_and_came_back_is_no_split():
    town = Town(3)
    town.kill("n2")
    town.run(20)
    town.discs["n2"] = None
    town.restart("n2")
    town.run(90)
    assert town.pairs() == []
    assert town.reloads == []


def test_a_node_that_restarts_during_the_split_ends_healed_and_accuses_nobody_else():
    town = Town(3)
    town.split([1, 2], [3])
    town.run(10)
    town.kill("n3")
    town.run(2)
    town.restart("n3")
    town.run(10)
    # The new life declares the others dead as well, as its own.
    town.discs["n3"] = None
    town.join()
    town.run(10)
    assert set(town.pairs()) <= {("n1", "n3"), ("n2", "n3"), ("n3", "n1"), ("n3", "n2")}
    town.until(lambda: town.healed)


def test_a_second_split_is_a_second_event():
    town = Town(3)
    healed_after(town, ([1, 2], [3]))
    healed_after(town, ([1, 2], [3]))
    assert Counter(town.pairs())["n1", "n3"] == 2
    assert town.reloads == ["n3", "n3"]


def test_a_dead_leader_is_succeeded():
    town = Town(5)
    town.split([1, 2, 3], [4, 5])
    town.run(20)
    town.join()
    town.until(lambda: town.healers["n1"].leader.phase == "waiting")
    town.kill("n1")
    town.run(60)
    assert sorted(town.reloads) == ["n4", "n5"]
    town.restart("n1")
    town.until(lambda: town.healed)


def test_a_second_split_during_a_heal_is_healed_after_it():
    town = Town(5, delay=2.0)
    town.split([1, 2, 3], [4, 5])
    town.run(20)
    town.join()
    town.until(lambda: town.healers["n1"].leader.phase == "healing")
    town.split([1, 2, 3, 4], [5])
    town.run(12)
    town.join()
    town.until(lambda: town.healed)
    assert len(town.episodes("n1")) >= 1
    assert set(town.reloads) == {"n4", "n5"}


@pytest.mark.parametrize("returns", [True, False])
def test_a_plan_outlives_its_coordinator(returns):
    town = Town(5, delay=2.0)
    town.split([1, 2], [3, 4, 5])
    town.run(20)
    town.join()
    town.lose = lambda to, message: type(message).__name__ == "Reload"
    town.until(lambda: town.healers["n3"].coordinator.busy)
    plan = town.healers["n3"].coordinator.busy
    town.kill("n3")
    town.run(5)
    town.lose = lambda to, message: False
    if returns:
        town.restart("n3")
        assert town.healers["n3"].coordinator.busy == plan
    town.run(120)
    assert {"n1", "n2"} <= set(town.reloads)
    assert town.episodes("n1")[0].plan == plan
    if not returns:
        town.discs["n3"] = None
        town.restart("n3")
    town.until(lambda: town.healed)


def test_a_plan_outlives_its_leader():
    town = Town(5, delay=2.0)
    town.split([1, 2, 3], [4, 5])
    town.run(20)
    town.join()
    town.lose = lambda to, message: isinstance(message, HealOrder)
    town.until(lambda: town.healers["n1"].leader.phase == "healing")
    plan = town.healers["n1"].leader.plan.id
    town.healers.pop("n1")
    town.lose = lambda to, message: False
    town.boot("n1")  # the process alone was restarted
    assert town.healers["n1"].leader.plan.id == plan
    town.until(lambda: town.healed)
    assert sorted(town.reloads) == ["n4", "n5"]


def test_the_leader_waits_for_all_then_goes_on_with_a_majority():
    town = Town(5, delay=2.0, gate=30.0)
    town.split([1, 2, 3], [4, 5])
    town.run(20)
    town.kill("n5")
    town.join()
    town.until(lambda: town.healers["n1"].leader.phase == "gating")
    assert town.until(lambda: town.reloads) > 20
    town.restart("n5")
    town.until(lambda: town.healed)


@pytest.mark.parametrize("seed", range(10))
def test_messages_may_be_lost(seed):
    rng = random.Random(seed)
    town = Town(5, delay=2.0)
    town.lose = lambda to, message: rng.random() < 0.4 and not isinstance(message, Healed)
    healed_after(town, ([1, 2, 3], [4, 5]))
    assert set(town.reloads) == {"n4", "n5"}
    assert max(Counter(town.pairs()).values()) == 1


@pytest.mark.parametrize("silent", [["n2"], ["n3", "n4"], ["n4"], ["n2", "n5"]])
def test_a_view_that_is_lost_moves_nobody_to_another_side(silent):
    town = Town(5, delay=2.0)
    town.lose = lambda to, message: isinstance(message, ViewTold) and message.source in silent
    healed_after(town, ([1, 2, 3], [4, 5]))
    assert sorted(town.reloads) == ["n4", "n5"]
    (episode,) = town.episodes("n1")
    assert episode.survivors == ("n1", "n2", "n3")


def test_off_sees_and_tells_and_heals_nothing():
    town = Town(3, delay=None)
    town.split([1, 2], [3])
    town.run(20)
    town.join()
    town.run(120)
    assert len(town.pairs()) == 4
    assert town.reloads == []
    assert town.healed


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_cut_ends_healed(seed):
    rng = random.Random(seed)
    town = Town(5, delay=3.0)
    for _ in range(6):
        match rng.randrange(4):
            case 0:
                side = rng.sample(range(1, 6), rng.randrange(1, 4))
                town.split(side, [number for number in range(1, 6) if number not in side])
            case 1:
                town.cut(*rng.sample(range(1, 6), 2))
            case 2:
                town.join()
            case 3 if len(town.healers) > 3:
                town.kill(rng.choice(sorted(town.healers)))
        town.run(rng.uniform(0, 20))
    town.join()
    for name in town.names:
        if name not in town.healers:
            town.restart(name)
    town.run(5)
    town.until(lambda: town.healed)
