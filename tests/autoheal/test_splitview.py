"""SplitView: every shape of a split has survivors and victims, disjoint and complete."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.autoheal import NodeView, build_split_view


def views(seen):
    """``{1: [1, 2], …}``: node 1 held 1 and 2 for running; lower numbers are older."""
    return {
        str(node): NodeView(str(node), 1, float(node), tuple(map(str, running)), {})
        for node, running in seen.items()
    }


def split(seen, leader=1):
    found = build_split_view(views(seen), leader=str(leader))
    return [[int(name) for name in group] for group in found.groups], int(found.coordinator)


def test_the_shapes_that_happen():
    table = [
        ("whole", {1: [1, 2], 2: [1, 2]}, [[1, 2]], 1),
        ("alone", {1: [1]}, [[1]], 1),
        ("two-way", {1: [1, 2], 2: [1, 2], 3: [3]}, [[1, 2], [3]], 1),
        ("leader in the minority", {1: [1], 2: [2, 3], 3: [2, 3]}, [[2, 3], [1]], 2),
        ("tie", {1: [1, 2], 2: [1, 2], 3: [3, 4], 4: [3, 4]}, [[1, 2], [3, 4]], 1),
        ("three-way", {1: [1], 2: [2, 3], 3: [2, 3], 4: [4, 5], 5: [4, 5]}, [[2, 3], [4, 5], [1]], 2),
        ("total", {1: [1], 2: [2], 3: [3]}, [[1], [2], [3]], 1),
        ("one-way visibility", {1: [1, 2], 2: [2]}, [[1], [2]], 1),
        ("overlapping", {1: [1, 2], 2: [1, 2, 3], 3: [2, 3]}, [[1, 2], [3]], 1),
        ("ring", {1: [1, 2, 4], 2: [1, 2, 3], 3: [2, 3, 4], 4: [1, 3, 4]}, [[1, 2], [3, 4]], 1),
        ("overlapping pair", {1: [1, 2, 3], 2: [1, 2, 3], 3: [1, 2, 3, 4], 4: [3, 4]}, [[1, 2, 3], [4]], 1),
        ("a liar", {1: [1, 2], 2: [1, 2], 3: [1, 2, 3], 4: [4], 5: [4, 5]}, [[1, 2], [3], [4], [5]], 1),
        ("one pair", {1: [1, 3, 4], 2: [2, 3, 4], 3: [1, 2, 3, 4], 4: [1, 2, 3, 4]}, [[1, 3, 4], [2]], 1),
        ("star", {1: [1, 2, 3], 2: [1, 2], 3: [1, 3]}, [[1, 2], [3]], 1),
    ]  # fmt: skip
    for name, seen, groups, coordinator in table:
        assert split(seen) == (groups, coordinator), name


def test_of_a_split_that_was_cut_short_only_the_smaller_side_reloads():
    """Some had declared the other side dead, and some had not."""
    whole = {1: {1, 2, 3}, 2: {1, 2, 3}, 3: {1, 2, 3}, 4: {4, 5}, 5: {4, 5}}
    for missed in ([(5, 1)], [(2, 5), (5, 2)], [(1, 4), (3, 5)], [(4, 1), (4, 2), (5, 3)]):
        seen = {node: sight | {o for n, o in missed if n == node} for node, sight in whole.items()}
        assert split(seen)[0] == [[1, 2, 3], [4, 5]], missed


def test_many_nodes_with_random_sight_are_grouped_in_time():
    rng = random.Random(1)
    nodes = range(1, 61)
    seen = {node: {node, *(o for o in nodes if rng.random() < 0.9)} for node in nodes}
    groups, _ = split(seen)
    assert sorted(name for group in groups for name in group) == list(nodes)


def test_a_tie_goes_to_the_side_that_holds_the_leader():
    assert split({1: [1, 2], 2: [1, 2], 3: [3, 4], 4: [3, 4]}, leader=4) == ([[3, 4], [1, 2]], 4)


def test_a_leader_that_is_no_survivor_does_not_coordinate():
    assert split({1: [1], 2: [2, 3], 3: [2, 3]}, leader=1)[1] == 2


SIGHTS = st.integers(1, 7).flatmap(
    lambda size: st.tuples(
        st.fixed_dictionaries({node: st.sets(st.integers(1, size)) for node in range(1, size + 1)}),
        st.integers(1, size),
        st.randoms(use_true_random=False),
    )
)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(SIGHTS)
def test_survivors_and_victims_are_disjoint_and_complete(drawn):
    seen, leader, rng = drawn
    given_views = views(seen)
    found = build_split_view(given_views, leader=str(leader))
    assert sorted(name for group in found.groups for name in group) == sorted(given_views)
    assert found.coordinator in found.groups[0]
    assert all(len(found.groups[0]) >= len(group) >= 1 for group in found.groups)
    for group in found.groups:
        for one in group:
            assert all(other == one or int(other) in seen[int(one)] for other in group)
    order = list(given_views)
    rng.shuffle(order)
    assert build_split_view({name: given_views[name] for name in order}, leader=str(leader)) == found


@settings(max_examples=80, derandomize=True, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=8))
def test_a_clean_split_is_found_as_it_is(sides):
    """Who is on which side: every side sees itself and nobody else."""
    seen = {n: [m for m, s in enumerate(sides, 1) if s == side] for n, side in enumerate(sides, 1)}
    groups, _ = split(seen)
    assert sorted(groups) == sorted(map(list, {tuple(group) for group in seen.values()}))
