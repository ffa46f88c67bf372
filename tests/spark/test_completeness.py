"""Completeness finds exactly the faults that are in a history, says where, and its numbers add up."""

from collections import Counter

import pytest

from tests.spark import auditor
from tests.spark.world import SECOND, START


def tell(rows):
    """How many have which verdict, and where what was lost was."""
    return Counter(row.verdict for row in rows), Counter(row.hop for row in rows if row.verdict == "lost")


def test_every_fault_is_found_and_nothing_else(judged):
    world = judged.worlds["every"]
    found, hops = tell(judged.rows("every"))
    assert dict(found) == world.found
    assert set(found) == {"delivered", "late", "doubled", "lost", "misrouted", "queued"}
    assert hops == world.lost_at


@pytest.mark.parametrize("name", ["jumble", "muddle"])
def test_it_agrees_with_a_brute_force_auditor_whatever_happened(judged, name):
    world = judged.worlds[name]
    found, _ = tell(judged.rows(name))
    expected = auditor.judge(world.all_rows, settle=SECOND, late_after=5 * SECOND)
    assert dict(found) == expected, f"seed {world.seed}"


def test_a_takeover_in_flight_is_no_loss_and_what_it_loses_is_said_to_be_lost_in_it(judged):
    found, hops = tell(judged.rows("takeover"))
    assert dict(found) == {"delivered": 3, "lost": 1}
    assert dict(hops) == {"n2@takeover to n3@takeover: lost as the session moved": 1}


def test_a_sample_is_judged_like_the_whole(judged):
    assert judged.recording.shares[judged.worlds["sample"].node(1)] == judged.recording.share == 0.5
    found, _ = tell(judged.rows("sample"))
    expected = auditor.judge(judged.worlds["sample"].all_rows, settle=SECOND, late_after=5 * SECOND)
    assert dict(found) == expected
    assert found["lost"]


def test_what_a_hole_may_hide_is_undecidable_and_the_rest_is_judged(holed):
    """The second of three files of a node is gone: nothing that could have happened there is called lost."""
    (hole,) = (hole for hole in holed.recording.holes if hole.node.endswith("@cut"))
    assert hole.node == "n2@cut"
    found = holed.rows("cut")
    kinds, _ = tell(found)
    assert kinds["lost"] == kinds["misrouted"] == kinds["doubled"] == 0
    assert kinds["undecidable"] > 0
    assert kinds["delivered"] > 0
    # Whoever is connected to a node whose recording is whole, before and after, is judged.
    early = [row for row in found if row.published_at and row.published_at < hole.begin - 10 * SECOND]
    assert {row.verdict for row in early if "n2@cut" not in (row.node, row.origin)} == {"delivered"}
    assert START < hole.begin < hole.end


def test_a_gap_that_the_recorder_tells_of_is_a_hole_too(holed):
    """What the buffer had no place for is missing, and its place in time and its number are known."""
    (hole,) = (hole for hole in holed.recording.holes if hole.node.endswith("@gap"))
    assert hole.node == "n2@gap"
    assert hole.why == "the recorder dropped 39 events"
    found, _ = tell(holed.rows("gap"))
    assert found["undecidable"]
    assert not found["lost"]
    assert not found["misrouted"]
