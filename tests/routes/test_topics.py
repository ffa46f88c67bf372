"""Topic names and filters: the rules of MQTT 5.0 sections 1.5.4 and 4.7."""

import pytest
from hypothesis import given

from gossamer.routes.topics import (
    InvalidTopicFilter,
    InvalidTopicName,
    TopicLimits,
    filters_matching,
    matches,
    parse_filter,
    parse_name,
    split_shared,
)
from tests.routes.strategies import filters, names


@pytest.mark.parametrize(
    ("topic_filter", "name", "expected"),
    [
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("sport/#", "sports", False),
        ("#", "a/b/c", True),
        ("#", "/", True),
        ("sport/tennis/+", "sport/tennis/player1", True),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("+/tennis/#", "sport/tennis", True),
        ("#", "$SYS/uptime", False),
        ("+/monitor/Clients", "$SYS/monitor/Clients", False),
        ("$SYS/#", "$SYS/uptime", True),
        ("$SYS/#", "$SYS", True),
        ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
        ("a/+/#", "a/$b", True),
        ("a", "A", False),
        ("a", "a/", False),
        ("/", "/", True),
        ("a//b", "a//b", True),
        ("a/+/b", "a//b", True),
        ("+/#", "a", True),
        ("a b/\N{GRINNING FACE}", "a b/\N{GRINNING FACE}", True),
    ],
)
def test_a_filter_matches_exactly_what_the_specification_says(topic_filter, name, expected):
    assert matches(parse_filter(topic_filter), parse_name(name)) is expected


@pytest.mark.parametrize(
    "name", ["a", "/", "//", "a/b", "$SYS/x", "é", "\ufeffa", "a" * 65_535, "\U0010ffff"]
)
def test_a_valid_name_is_returned_unchanged_from_bytes_and_from_text(name):
    if len(name.encode()) <= 65_535:
        assert parse_name(name) == name
        assert parse_name(name.encode()) == name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (b"", "1 to 65535 bytes"),
        (b"a" * 65_536, "got 65536"),
        ("é" * 32_768, "got 65536"),
        (b"a\x00b", "U+0000"),
        (b"\xff", "breaks at byte 0"),
        (b"ab\xc0\x80", "breaks at byte 2"),
        (b"\xed\xa0\x80", "well-formed UTF-8"),
        ("a\ud800", "surrogates"),
        (b"a/+", "wildcard"),
        (b"a#", "wildcard"),
        ("/" * 128, "at most 128 levels, got 129"),
    ],
)
def test_a_wrong_name_is_refused_and_the_message_says_what_was_expected(name, said):
    with pytest.raises(InvalidTopicName) as caught:
        parse_name(name)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "topic_filter",
    [
        "", "#/", "a/#/b", "a#", "a/b#", "+a", "a/+b/c", "++", "##", "a\0", "$share/g", "$share/g/",
        "$share//a", "$share/+/a", "$share/#/a", "$share/g+/a", "$share/g/a#", "$share/",
    ],
)  # fmt: skip
def test_a_wrong_filter_is_refused(topic_filter):
    with pytest.raises(InvalidTopicFilter):
        parse_filter(topic_filter)
    with pytest.raises(InvalidTopicFilter):
        parse_filter(topic_filter.encode())


@pytest.mark.parametrize(
    "topic_filter", ["#", "+", "+/+/#", "/#", "a/+/b", "$share/g/#", "$share/g/+/x", "$share", "a//"]
)
def test_a_valid_filter_is_returned_unchanged(topic_filter):
    assert parse_filter(topic_filter.encode()) == topic_filter


def test_a_shared_filter_comes_apart_into_group_and_filter():
    assert split_shared("$share/g/a/+") == ("g", "a/+")
    assert split_shared("$share/g//a") == ("g", "/a")
    assert split_shared("a/b") == (None, "a/b")


def test_a_node_may_set_lower_limits_than_the_protocol():
    limits = TopicLimits(max_bytes=8, max_levels=2)
    assert parse_filter("a/#", limits) == "a/#"
    with pytest.raises(InvalidTopicFilter, match="at most 2 levels"):
        parse_filter("a/b/#", limits)
    with pytest.raises(InvalidTopicName, match="1 to 8 bytes"):
        parse_name("a" * 9, limits)


@given(names(), filters())
def test_the_filters_that_may_match_a_name_are_those_that_do(name, topic_filter):
    assert (topic_filter in set(filters_matching(name))) == matches(topic_filter, name)
