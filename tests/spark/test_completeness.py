"""Completeness finds exactly the faults that are in a history, says where, and its numbers add up."""

from collections import Counter

import pytest

from gossamer.spark.completeness import verdicts
from gossamer.spark.source import load
from tests.spark.world import World

pytestmark = pytest.mark.real


def counts(recording):
    found = verdicts(recording).collect()
    return Counter(row.verdict for row in found), Counter(row.hop for row in found if row.verdict == "lost")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_fault_is_found_and_nothing_else(spark, tmp_path, seed):
    world = World(seed).play(150)
    found, hops = counts(load(spark, str(world.write(tmp_path))))
    truth = {k: v for k, v in world.truth.items() if k != "published" and v}
    assert dict(found) == truth
    assert hops == world.lost_at
