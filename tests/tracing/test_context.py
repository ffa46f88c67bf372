"""Identifiers of traces and spans, and the publisher's own trace context."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.tracing import Name, Parent, parent_in, parse_traceparent
from gossamer.tracing.context import picks, span_id, trace_id

GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_traceparent_names_a_trace_a_span_and_whether_it_is_sampled():
    assert parse_traceparent(GOOD) == Parent(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, True)
    assert parse_traceparent(GOOD[:-2] + "02").sampled is False
    # Only the lowest flag is defined, and later versions may add parts.
    assert parse_traceparent("01" + GOOD[2:-2] + "ff-and-more").sampled is True


@pytest.mark.parametrize(
    "text",
    [
        *("", "00", GOOD[:-1], GOOD + "0", GOOD + "-more", GOOD.upper(), "ff" + GOOD[2:], " " + GOOD),
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        GOOD.replace("4", "٤"),
    ],
)
def test_a_traceparent_that_is_none_counts_as_none(text):
    assert parse_traceparent(text) is None


def test_a_traceparent_that_comes_twice_counts_as_none():
    assert parent_in([("a", "b"), ("traceparent", GOOD)]) is not None
    assert parent_in([("traceparent", GOOD), ("traceparent", GOOD)]) is None
    assert parent_in([]) is None


@given(st.text())
def test_any_text_can_be_asked_for_a_parent(text):
    parent = parse_traceparent(text)
    assert parent is None or (parent.trace > 0 and parent.span > 0)


@given(st.text(), st.integers(0, 2**32), st.integers(0, 2**48))
def test_identifiers_are_the_same_wherever_they_are_worked_out_and_fit(origin, creation, number):
    name = Name(origin, creation, number)
    assert 0 < trace_id(name) == trace_id(Name(*name)) < 2**128
    assert 0 < span_id(name, "route", "n1") == span_id(Name(*name), "route", "n1") < 2**64
    assert span_id(name, "route", "n1") != span_id(name, "route", "n2")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
def test_about_the_share_is_picked_and_neighbours_are_not_all_alike(share):
    picked = [picks(number, share) for number in range(20_000)]
    assert abs(sum(picked) / 20_000 - share) < 0.01
    if 0 < share < 1:
        assert max(map(sum, zip(*[iter(picked)] * 32, strict=False))) < 32
