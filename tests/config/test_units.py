"""Durations and sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.config import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300.0),
        ("15s", 15.0),
        ("500ms", 0.5),
        ("1h30m", 5400.0),
        ("1.5s", 1.5),
        (" 2 D ", 172800.0),
        (0, 0.0),
        (15, 15.0),
        ("15", 15.0),
        (0.25, 0.25),
    ],
)
def test_duration_as_people_write_it(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "5 years", "-1s", -1, True, None, float("inf"), float("nan"), "s", "1m x", []]
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="a duration such as"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1MiB", 1048576),
        ("64KiB", 65536),
        ("1MB", 1000000),
        ("512", 512),
        (7, 7),
        ("512B", 512),
        ("0.5 kib", 512),
    ],
)
def test_size_as_people_write_it(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", -1, "1.5", 1.5, True, None, "1 apple", "MiB"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="a size such as"):
        parse_size(text)


@given(st.integers(min_value=0, max_value=10**9))
def test_a_duration_written_out_reads_back_the_same(milliseconds):
    seconds = milliseconds / 1000
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.integers(min_value=0, max_value=2**45))
def test_a_size_written_out_reads_back_the_same(size):
    assert parse_size(format_size(size)) == size
