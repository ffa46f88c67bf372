"""The tape: bounded, numbered without a break, sampled alike everywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.audit import KINDS, Sampler, Tape, schema
from gossamer.clock import HybridLogicalClock


def tape(limit=1000):
    return Tape(limit=limit, wall=lambda: 1000.0, clock=HybridLogicalClock())


def test_rows_are_numbered_and_timed_in_order():
    it = tape()
    for client in ("a", "b"):
        it.note(KINDS[schema.ENDED], client, None)
    first, second = it.take()
    assert (first[0], second[0]) == (1, 2)
    assert first[2] < second[2]
    assert first[3] == 1_000_000_000
    assert first[4:] == ("a", None)
    assert it.take() == []


def test_what_finds_no_place_is_a_gap_with_its_numbers():
    it = tape(limit=2)
    for _ in range(5):
        it.note(KINDS[schema.BEAT])
    assert it.lost == 3
    rows = it.take()
    assert [row[0] for row in rows] == [1, 2, 6]
    assert rows[-1][1] == KINDS[schema.GAP]
    assert rows[-1][4:] == (3, "overflow")
    it.note(KINDS[schema.BEAT])
    assert it.take()[0][0] == 7


def test_full_and_sampled_and_off():
    assert Sampler(1.0).within(5, 100) == [(5, 100)]
    assert Sampler(0).within(5, 100) == []
    assert sum(count for _, count in Sampler(0.01).within(0, 100_000)) == 1000


@given(
    st.sampled_from([0.001, 0.01, 0.1, 0.3, 0.5, 1.0]),
    st.integers(0, 10**12),
    st.lists(st.integers(1, 500), min_size=1, max_size=8),
)
def test_a_message_is_kept_or_not_whatever_run_it_came_in(share, start, runs):
    sampler = Sampler(share)
    at = start
    kept = []
    for count in runs:
        kept += [n for first, many in sampler.within(at, count) for n in range(first, first + many)]
        at += count
    assert kept == [n for n in range(start, at) if sampler.keeps(n)]


@pytest.mark.parametrize("turns", [2, 3, 5, 10])
def test_clients_that_take_turns_are_sampled_alike(turns):
    """Every hundredth message must not always be the same client's."""
    sampler = Sampler(0.01)
    kept = [0] * turns
    for first, _ in sampler.within(0, 400_000):
        kept[first % turns] += 1
    assert min(kept) > 0.5 * max(kept)
