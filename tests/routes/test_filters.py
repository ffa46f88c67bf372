"""The filter index and the trie behind it, held against a plain scan of all filters."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.routes.index.filters import FilterIndex
from gossamer.routes.kernel import KERNEL_REASON, compiled_index
from gossamer.routes.topics import matches, parse_filter, parse_name
from tests.routes.strategies import filters, names

NO_KERNEL = pytest.mark.skipif("not built" in KERNEL_REASON, reason=KERNEL_REASON)


@pytest.fixture(params=["python", pytest.param("compiled", marks=NO_KERNEL)])
def make(request):
    """Makes an index of either kind."""
    return FilterIndex if request.param == "python" else compiled_index


@pytest.mark.parametrize("shape_limit", [0, 1, 16])
def test_the_index_finds_exactly_the_filters_that_match(make, shape_limit):
    @settings(max_examples=80, deadline=None)
    @given(
        st.lists(st.tuples(st.booleans(), filters()), max_size=40), st.lists(names(), min_size=1, max_size=8)
    )
    def holds(changes, topics):
        index: FilterIndex[str] = make(shape_limit=shape_limit)
        expected: dict[str, str] = {}
        for keep, topic_filter in changes:
            parse_filter(topic_filter)
            if keep:
                index.put(topic_filter, topic_filter)
                expected[topic_filter] = topic_filter
            else:
                assert index.remove(topic_filter) is (expected.pop(topic_filter, None) is not None)
            assert index.get(topic_filter) == expected.get(topic_filter)
        assert len(index) == len(expected)
        assert dict(index.items()) == expected
        for topic in topics:
            parse_name(topic)
            assert sorted(index.match(topic)) == sorted(f for f in expected if matches(f, topic))

    holds()


def test_a_filter_that_came_while_shapes_were_crowded_is_still_one_filter_when_they_are_not(make):
    index: FilterIndex[int] = make(shape_limit=1)
    index.put("a/+", 1)
    index.put("+/a", 2)  # crowded out: lives in the trie
    index.remove("a/+")
    index.put("+/b", 3)  # the same shape now has room
    index.put("+/a", 4)
    assert index.match("x/a") == [4]
    assert index.remove("+/a")
    assert index.match("x/a") == []
    assert index.get("+/a") is None


def test_emptied_shapes_cost_nothing(make):
    index: FilterIndex[int] = make()
    for topic_filter in ("a/+", "+/a", "a/#"):
        index.put(topic_filter, 1)
        index.remove(topic_filter)
    assert index.stats() == {"literal": 0, "wildcard": 0, "shapes": 0, "trie": 0}


def test_many_shapes_stay_within_the_limit_and_match_rightly(make):
    rng = random.Random(5)
    index: FilterIndex[str] = make()
    expected = set()
    for _ in range(3000):
        words = [rng.choice("ab+") for _ in range(rng.randrange(1, 9))]
        if rng.random() < 0.5:
            words.append("#")
        expected.add("/".join(words))
        index.put("/".join(words), "/".join(words))
    assert index.stats()["shapes"] <= 16 * 9
    for _ in range(50):
        name = "/".join(rng.choice("ab") for _ in range(rng.randrange(1, 9)))
        assert sorted(index.match(name)) == sorted(f for f in expected if matches(f, name))
