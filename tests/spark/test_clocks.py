"""A clock that is off shows in what crosses the links of its node."""

from gossamer.spark.source.clocks import offsets_of

A, B, C = ("a", 1), ("b", 1), ("c", 1)
DAY, MS = 86_400_000_000, 1000


def links(ahead, delay=MS):
    """What the quickest message of each way seems to take."""
    return {(x, y): delay + ahead.get(y, 0) - ahead.get(x, 0) for x in (A, B, C) for y in (A, B, C) if x != y}


def test_clocks_that_agree_need_nothing():
    assert offsets_of(links({})) == {}
    assert offsets_of(links({B: 400 * MS})) == {}
    assert offsets_of({}) == {}


def test_the_one_that_is_a_day_ahead_or_behind_is_found():
    assert offsets_of(links({B: DAY})) == {B: DAY}
    assert offsets_of(links({C: -DAY})) == {C: -DAY}
    assert offsets_of(links({B: DAY, C: -7 * DAY})) == {B: DAY, C: -7 * DAY}


def test_with_a_link_that_is_slow_both_ways_nothing_is_wrong():
    assert offsets_of(links({}, delay=30_000 * MS)) == {}


def test_one_way_tells_what_is_impossible_or_far_too_slow():
    assert offsets_of({(A, B): 5_000_000}) == {}
    assert offsets_of({(A, B): DAY, (A, C): MS, (C, A): MS}) == {B: DAY}
    assert offsets_of({(A, B): -DAY, (A, C): MS, (C, A): MS}) == {B: -DAY}


def test_a_node_is_judged_by_those_it_met():
    """C never met A; by way of B its clock is known all the same."""
    met = {(A, B): MS, (B, A): MS, (B, C): MS + DAY, (C, B): MS - DAY}
    assert offsets_of(met) == {C: DAY}
