"""Shapes of a split, and what is said of what is none."""

import pytest

from gossamer.faults import ShapeError, parse_shape


@pytest.mark.parametrize(
    ("text", "nodes", "sides"),
    [
        ("3/2", 5, ((1, 2, 3), (4, 5))),
        ("2/2/1", 5, ((1, 2), (3, 4), (5,))),
        ("1/1/1", 3, ((1,), (2,), (3,))),
        (" 1 / 2 ", 3, ((1,), (2, 3))),
        ("1>2", 3, ((1,), (2,), (3,))),
        ("1-2", 5, ((1,), (2,), (3, 4, 5))),
        ("1,2>3", 4, ((1, 2), (3,), (4,))),
        ("1-2+3-4", 5, ((1,), (2,), (3,), (4,), (5,))),
    ],
)
def test_sides_are_nodes_that_the_cuts_treat_alike(text: str, nodes: int, sides: object) -> None:
    assert parse_shape(text, nodes).sides == sides


def test_a_split_cuts_every_pair_of_two_sides_both_ways_and_no_other() -> None:
    assert parse_shape("2/1", 3).cuts == {(1, 3), (3, 1), (2, 3), (3, 2)}


def test_a_one_way_cut_is_one_way() -> None:
    assert parse_shape("1>2", 3).cuts == {(1, 2)}
    assert parse_shape("1,2>3", 3).cuts == {(1, 3), (2, 3)}
    assert parse_shape("1-2", 3).cuts == {(1, 2), (2, 1)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("3/3", "5 together, not 3\\+3=6"),
        ("5", "two sides or more, such as 3/2"),
        ("5/0", "1 node or more"),
        ("half", "sizes of sides such as 3/2"),
        ("", "sizes of sides such as 3/2"),
        ("1>6", "nodes from 1 to 5, not 6"),
        ("0-1", "nodes from 1 to 5, not 0"),
        ("1,,2>3", "nodes from 1 to 5, not 0"),
        ("1>1", "not 1 on each"),
        ("1>2>3", "sizes of sides"),
    ],
)
def test_what_is_no_shape_for_the_cluster_is_told_with_what_would_be(text: str, says: str) -> None:
    with pytest.raises(ShapeError, match=says):
        parse_shape(text, 5)
