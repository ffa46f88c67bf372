"""The buffer: bounded, numbered without a break, sampled alike everywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.audit import KINDS, EventBuffer, Sampler, schema
from gossamer.audit.sampler import RUN


def buffer(limit=1000):
    return EventBuffer(limit=limit, wall=lambda: 1000.0)


def test_rows_are_numbered_and_timed_in_order():
    it = buffer()
    for client in ("a", "b"):
        it.note(KINDS[schema.ENDED], client, None)
    first, second = it.take()
    assert (first[0], second[0]) == (1, 2)
    assert first[2] < second[2]
    assert first[3] == 1_000_000_000
    assert first[4:] == ("a", None)
    assert it.take() == []


def test_what_finds_no_place_is_a_gap_with_its_numbers():
    it = buffer(limit=2)
    for _ in range(5):
        it.note(KINDS[schema.BEAT])
    assert it.lost == 3
    rows = it.take()
    assert [row[0] for row in rows] == [1, 2, 6]
    assert rows[-1][1] == KINDS[schema.GAP]
    assert rows[-1][4:] == (3, "overflow")
    it.note(KINDS[schema.BEAT])
    assert it.take()[0][0] == 7


def test_a_row_of_many_clients_takes_as_many_numbers():
    it = buffer(limit=2)
    it.note(KINDS[schema.BEAT])
    it.note_many(KINDS[schema.DELIVERED], 3, "n", 1, 7, 1, ("a", "b", "c"), 0, False, None, None, None)
    it.note_many(KINDS[schema.DELIVERED], 2, "n", 1, 8, 1, ("a", "b"), 0, False, None, None, None)
    assert [row[0] for row in it.take()] == [1, 4, 7]
    assert it.lost == 2


def test_a_batch_is_about_as_heavy_as_asked():
    it = buffer()
    for _ in range(10):
        it.note(KINDS[schema.BEAT])
    it.note_many(KINDS[schema.DELIVERED], 200, "n", 1, 7, 1, ("c",) * 200, 0, False, None, None, None)
    it.note(KINDS[schema.BEAT])
    assert [len(it.take(5)), len(it.take(12)), len(it.take(5)), len(it.take(5))] == [5, 6, 1, 0]


def test_a_bound_that_is_widened_says_what_was_lost_before():
    it = buffer(limit=1)
    it.note(KINDS[schema.BEAT])
    it.note(KINDS[schema.BEAT])
    it.limit = 10
    it.note(KINDS[schema.BEAT])
    assert [row[0] for row in it.take()] == [1, 3, 4]


def kept_of(share, first, count):
    sampler = Sampler(share)
    found, end = [], first + count
    begin, last = sampler.next(first)
    while begin < end:
        found += range(begin, min(last + 1, end))
        begin, last = sampler.next(last + 1)
    return found


def test_full_and_sampled_and_off():
    assert kept_of(1.0, 5, 100) == list(range(5, 105))
    assert kept_of(0, 5, 100) == []
    assert len(kept_of(0.01, 0, 160_000)) == 1600


@given(st.sampled_from([0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.99, 1.0]), st.integers(0, 10**12))
def test_an_arrival_is_kept_or_not_wherever_one_begins_to_count(share, start):
    sampler = Sampler(share)
    assert kept_of(share, start, 300) == [n for n in range(start, start + 300) if sampler.next(n)[0] == n]


@pytest.mark.parametrize("share", [0.001, 0.03, 0.3, 0.7, 0.99])
def test_as_many_are_kept_as_were_asked(share):
    arrivals = 10_000 * RUN
    assert len(kept_of(share, 0, arrivals)) == pytest.approx(share * arrivals, rel=0.05)


@pytest.mark.parametrize("turns", [2, 3, 5, 10])
def test_clients_that_take_turns_are_sampled_alike(turns):
    """Every hundredth read must not always be the same client's."""
    kept = [0] * turns
    for number in kept_of(0.01, 0, 100_000):
        kept[number % turns] += 1
    assert min(kept) > 0.5 * max(kept)
