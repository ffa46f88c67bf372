"""Counting by size."""

from hypothesis import given
from hypothesis import strategies as st

from gossamer.histogram import SECONDS, Histogram


def test_an_observation_at_a_bound_is_within_it():
    found = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 9.0):
        found.observe(value)
    assert found.buckets() == [2, 4, 5]
    assert (found.count, found.sum) == (5, 14.0)


@given(st.lists(st.floats(0, 100)))
def test_buckets_grow_to_the_count(values):
    found = Histogram()
    for value in values:
        found.observe(value)
    buckets = found.buckets()
    assert buckets == sorted(buckets)
    assert buckets[-1] == found.count == len(values)
    assert buckets[:-1] == [sum(value <= bound for value in values) for bound in SECONDS]
