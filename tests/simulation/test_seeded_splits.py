"""A life of each kind of a cluster that is cut and heals under load; ``testing.splits`` runs many."""

from dataclasses import replace

import pytest

from gossamer.testing.splits import SCENARIOS, SPLITS, SplitWorld
from gossamer.testing.splits.invariants import violations
from gossamer.testing.splits.scenarios import scenario_of


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_must_hold_holds(scenario):
    outcome = SPLITS.run_seed(1, scenario)
    assert outcome.ok, str(outcome)


def test_a_hundred_seeds_have_every_scenario_several_times():
    drawn = [scenario_of(seed) for seed in range(100)]
    assert {name for name in SCENARIOS if drawn.count(name) >= 3} == set(SCENARIOS)


def test_a_seed_is_the_same_life_again():
    first, second = SPLITS.run_seeds([3, 3], "two nodes")
    assert (first.digest, first.virtual, first.notes) == (second.digest, second.virtual, second.notes)


async def test_what_does_not_hold_is_said(sim):
    world = SplitWorld(sim, 2)
    await world.begin()
    await world.calm()
    assert list(violations(world)) == []
    key = next(iter(world.table(1, "latest").rows()), 0)
    world.table(2, "latest").core.rows[key] = "another"
    lost = next(flow for flow in world.flows if flow.node == 1)
    lost.acknowledged[b"never sent"] = 1.0
    found = "\n".join(violations(world))
    assert "table latest rows: nodes 1 / 2 differ in 1 rows" in found
    assert f"the client of node 2: 1 lost of {lost.topic}" in found
    assert f"the session of node 2: 1 lost of {lost.topic}" in found
    await world.end()


def test_a_failing_seed_prints_how_to_replay_it():
    told = str(replace(SPLITS, judge=lambda _world: ["something"]).run_seed(7, "two nodes"))
    assert "seed 7 (two nodes): FAILED" in told
    assert "  something" in told
    assert "replay: python -m gossamer.testing.splits --seed 7 --scenario 'two nodes'" in told
