"""A group of replicas on discs and a network that do everything wrong; ``testing.raft`` runs many seeds."""

from dataclasses import replace

import pytest

from gossamer.testing.raft import RAFT, SCENARIOS, scenario_of


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_must_hold_holds(scenario):
    for seed in range(3):
        outcome = RAFT.run_seed(seed, scenario)
        assert outcome.ok, str(outcome)


def test_a_seed_is_the_same_life_again():
    first, second = RAFT.run_seeds([3, 3], "everything")
    assert (first.digest, first.virtual, first.notes) == (second.digest, second.virtual, second.notes)


def test_every_scenario_has_its_seeds():
    assert {scenario_of(seed) for seed in range(len(SCENARIOS))} == set(SCENARIOS)


def test_each_scenario_does_what_it_says():
    """And each life elects, commits, takes snapshots; or its silence would say nothing."""
    seen = set()

    def judge(world):
        seen.update(world.sim.trace.counts)
        seen.update(words.split()[1] for words in world.notes)
        return world.violations()

    campaign = replace(RAFT, judge=judge)
    for seed in range(2 * len(SCENARIOS)):
        assert campaign.run_seed(seed).ok
    kinds = {"VoteRequest", "Append", "Chunk", "ReadReply", "Forward", "TimeoutNow", "Rejected"}
    assert kinds | {"down", "cut", "full", "sync", "flipped", "members", "ambush", "replaced"} <= seen


def test_a_failing_seed_says_how_to_replay_it():
    told = str(replace(RAFT, judge=lambda _world: ["something"]).run_seed(7, "cut"))
    assert "seed 7 (cut): FAILED" in told
    assert "replay: python -m gossamer.testing.raft --seed 7 --scenario 'cut'" in told
