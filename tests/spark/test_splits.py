"""Splits are told from what nodes noted of each other, whatever their number and shape."""

import gossamer.audit.schema as schema
from gossamer.spark.analyses.splits import Change, splits_of

DOWN, UP, PARTITION, HEALED = schema.NODE_DOWN, schema.NODE_UP, schema.PARTITION, schema.HEALED
OPENED, CLOSED = schema.OPENED, schema.CLOSED
SECOND = 1_000_000


def cut(at, side, other, until=None):
    """Both sides lose each other, a little apart, and meet again."""
    changes = []
    for k, (a, b) in enumerate((a, b) for x in side for y in other for a, b in ((x, y), (y, x))):
        changes.append(Change(at + k, DOWN, a, b))
        if until is not None:
            changes.append(Change(until + k, UP, a, b))
    return changes


def test_five_nodes_in_two_parts_are_one_split_of_two_sides():
    changes = cut(100, "abc", "de", 500)
    changes += [Change(520, PARTITION, "a", "d"), Change(600, HEALED, "a")]
    (split,) = splits_of(changes, last=1000)
    assert (split.begin, split.end, split.met, split.healed) == (100, 600, True, True)
    assert split.sides == (("a", "b", "c"), ("d", "e"))


def test_three_parts_are_three_sides():
    changes = [*cut(100, "ab", "c", 500), *cut(110, "ab", "d", 500), *cut(120, "c", "d", 500)]
    (split,) = splits_of(changes, last=1000)
    assert split.sides == (("a", "b"), ("c",), ("d",))
    assert split.met
    assert not split.healed


def test_two_splits_one_after_the_other_stay_two():
    changes = [*cut(100, "a", "b", 200), Change(250, HEALED, "a"), *cut(300, "a", "c", 400)]
    one, two = splits_of(changes, last=1000)
    assert (one.end, one.healed) == (250, True)
    assert (two.begin, two.healed) == (300, False)


def test_a_split_that_lasts_ends_with_the_recording():
    (split,) = splits_of(cut(100, "a", "b"), last=1000)
    assert (split.begin, split.end, split.met, split.healed) == (100, 1000, False, False)


def test_a_node_that_crashed_is_no_split():
    """It is held for gone, and does not say that it lost anybody."""
    assert splits_of([Change(100, DOWN, "a", "c"), Change(110, DOWN, "b", "c")], last=1000) == []


def test_what_autoheal_found_is_a_split_though_one_side_did_not_notice():
    changes = [Change(100, DOWN, "a", "b"), Change(300, UP, "a", "b"), Change(310, PARTITION, "b", "a")]
    (split,) = splits_of(changes, last=1000)
    assert (split.begin, split.sides) == (100, (("a",), ("b",)))


def restart(node, others, *, since):
    """What three nodes noted as one of them was told to end, and came again, in the order of a real cluster.

    The others hold it for gone as it says goodbye, meet it once more since it is still there, and lose it.
    """
    changes = []
    for k, other in enumerate(others):
        changes += [
            Change(since + k, DOWN, other, node, "down", 1),
            Change(since + 60_000 + k, DOWN, node, other, "forgotten by the peer", 1),
            Change(since + 70_000 + k, UP, other, node, None, 1),
            Change(since + 80_000 + k, UP, node, other, None, 1),
            Change(since + SECOND + k, DOWN, node, other, "left", 1),
            Change(since + 2 * SECOND + k, DOWN, other, node, "down", 1),
            Change(since + 6 * SECOND + k, UP, other, node, None, 1),
            Change(since + 6 * SECOND + k, UP, node, other, None, 2),
        ]
    changes += [Change(since + SECOND + 9000, CLOSED, node, creation=1)]
    return [*changes, Change(since + 5 * SECOND, OPENED, node, creation=2)]


def test_a_node_that_is_restarted_in_order_is_no_split():
    assert splits_of(restart("b", "ac", since=100), last=60 * SECOND) == []


def test_nodes_that_are_restarted_one_after_the_other_are_no_split():
    changes = [
        c for k, node in enumerate("abc") for c in restart(node, set("abc") - {node}, since=k * 9 * SECOND)
    ]
    assert splits_of(changes, last=60 * SECOND) == []


def test_a_split_stays_one_though_a_node_of_it_is_stopped_later():
    changes = [*cut(0, "a", "b"), Change(30 * SECOND, CLOSED, "b"), Change(40 * SECOND, UP, "a", "b")]
    (split,) = splits_of(changes, last=60 * SECOND)
    assert (split.sides, split.met) == ((("a",), ("b",)), False)


def test_who_was_killed_within_a_split_comes_back_without_it():
    """Its next life holds nobody for gone."""
    changes = [
        *cut(0, "a", "b"),
        Change(20 * SECOND, OPENED, "b", creation=2),
        Change(21 * SECOND, UP, "a", "b"),
    ]
    (split,) = splits_of(changes, last=60 * SECOND)
    assert split.end == 21 * SECOND
