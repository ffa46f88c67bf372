"""Ranges that split and merge on discs and a network that do everything wrong; ``campaign`` runs many
seeds."""

from dataclasses import replace

import pytest

from gossamer.basekv import RangeMachine
from gossamer.basekv.values import Busy, Moved, decode_batch, encode
from tests.basekv.campaign import RANGES, SCENARIOS, scenario_of

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_must_hold_holds(scenario):
    for seed in range(2):
        outcome = RANGES.run_seed(seed, scenario)
        assert outcome.ok, str(outcome)


def test_a_seed_is_the_same_life_again():
    first, second = RANGES.run_seeds([3, 3], "everything")
    assert (first.digest, first.virtual, first.notes) == (second.digest, second.virtual, second.notes)


def test_every_scenario_has_its_seeds_and_ranges_change_in_it():
    assert {scenario_of(seed) for seed in range(len(SCENARIOS))} == set(SCENARIOS)
    seen = {}

    def judge(world):
        seen.update(world.counts)
        return world.violations()

    assert replace(RANGES, judge=judge).run_seed(0).ok
    assert min(seen.values()) > 0, seen


def asks_for_the_version_before_it_looks_for_the_batch(patch: Patch) -> None:
    """A batch that was done, and is made again after a split, is refused, and so made as another one."""
    apply = RangeMachine.apply

    def careless(self, index, request):
        if request[:1] != b"\xc1" and (refusal := self._refusal(decode_batch(request).version)):
            return encode(refusal)
        return apply(self, index, request)

    patch.setattr(RangeMachine, "apply", careless)


def a_sealed_range_answers(patch: Patch) -> None:
    """Who asks the right one of a merge is answered, though the left one may have its keys."""
    refusal = RangeMachine._refusal

    def answers(self, version):
        found = refusal(self, version)
        return None if isinstance(found, Busy) and version == self.range.version else found

    patch.setattr(RangeMachine, "_refusal", answers)


def a_split_leaves_the_version(patch: Patch) -> None:
    """Who knows the range before a split asks it as before."""
    refusal = RangeMachine._refusal

    def lax(self, version):
        found = refusal(self, version)
        return None if isinstance(found, Moved) and version and self.sealed is None else found

    patch.setattr(RangeMachine, "_refusal", lax)


BUGS = {
    asks_for_the_version_before_it_looks_for_the_batch: (10,),
    a_sealed_range_answers: (6,),
    a_split_leaves_the_version: (0,),
}


@pytest.mark.parametrize("bug", BUGS)
def test_the_simulation_finds_a_bug_that_is_planted(bug, monkeypatch):
    bug(monkeypatch)
    assert not all(RANGES.run_seed(seed).ok for seed in BUGS[bug])
