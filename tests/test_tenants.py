"""Names of tenants: put on, taken off, and never said by a client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mqtt.strategies import filters, strings, topic_strings

from gossamer.routes.topics import (
    InvalidTopicFilter,
    InvalidTopicName,
    TopicLimits,
    body_of,
    matches,
    parse_filter,
    parse_name,
)
from gossamer.tenants import (
    InvalidTenantError,
    bare,
    bare_topic,
    checked,
    client_within,
    split,
    tenant_of,
    within,
)

names = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,10}", fullmatch=True)
INSIDE = TopicLimits(inside=True)
some_topics = st.builds(str.__add__, st.sampled_from(["", "$", "$SYS/", "/"]), topic_strings)
some_filters = st.builds(
    str.__add__, st.sampled_from(["", "$share/g/", "$exclusive/", "$SYS/", "$", "$share/g/$own/"]), filters
)


@given(names, some_filters)
def test_a_filter_from_inside_is_again_what_the_client_said(tenant, topic_filter):
    inside = within(tenant, topic_filter)
    assert (bare(inside), tenant_of(inside)) == (topic_filter, tenant)
    assert within("", topic_filter) == bare(topic_filter) == topic_filter
    assert tenant_of(topic_filter) == ""


@given(names, some_topics)
def test_a_topic_from_inside_is_again_what_the_client_said(tenant, topic):
    assert bare_topic(within(tenant, topic).encode()) == topic.encode()
    assert bare_topic(topic.encode()) == topic.encode()
    delayed = f"$delayed/7/{topic}"
    assert within(tenant, delayed) == "$delayed/7/" + within(tenant, topic)


@given(names, strings)
def test_a_client_identifier_from_inside_is_again_what_the_client_said(tenant, client_id):
    assert split(client_within(tenant, client_id)) == (tenant, client_id)
    assert split(client_within("", client_id)) == ("", client_id)


@given(names, some_filters, some_topics)
def test_within_a_tenant_filters_match_as_without(tenant, topic_filter, topic):
    body, inside = body_of(topic_filter), body_of(within(tenant, topic_filter))
    assert matches(inside, within(tenant, topic)) is matches(body, topic)


@given(st.tuples(names, names).filter(lambda two: two[0] != two[1]), some_filters, some_topics)
def test_no_filter_matches_a_topic_of_another_tenant(two, topic_filter, topic):
    one, other = two
    body = body_of(within(one, topic_filter))
    assert not matches(body, within(other, topic))
    assert not matches(body, topic)
    assert not matches(body_of(topic_filter), within(one, topic))


@given(names, some_topics)
def test_what_has_u0000_is_a_name_only_inside_and_only_where_the_root_is(tenant, topic):
    inside = within(tenant, topic)
    assert parse_name(inside, INSIDE) == parse_filter(inside, INSIDE) == inside
    for wrong in (
        f"x{inside}",
        f"{inside}\0",
        f"a\0{topic}",
        "$\0",
        "$\0/x",
        f"$\0{tenant}",
        "$\0a+/x",
        "\0",
    ):
        with pytest.raises(InvalidTopicName):
            parse_name(wrong, INSIDE)
        with pytest.raises(InvalidTopicFilter):
            parse_filter(wrong, INSIDE)
    with pytest.raises(InvalidTopicName, match="U\\+0000"):
        parse_name(inside)


def test_the_root_counts_against_no_limit_of_a_node():
    limits = TopicLimits(max_bytes=10, max_levels=2, inside=True)
    assert parse_name(within("a" * 64, "1234/67890"), limits)
    with pytest.raises(InvalidTopicName, match="1 to 10 bytes"):
        parse_name(within("a", "12345678901"), limits)
    with pytest.raises(InvalidTopicName, match="at most 2 levels, got 3"):
        parse_name(within("a", "1/2/3"), limits)
    with pytest.raises(InvalidTopicName, match="bytes"):
        parse_name(within("a", "x" * 65_535), INSIDE)


@pytest.mark.parametrize("name", ["", None, "default"])
def test_the_default_tenant_has_a_blank_name(name):
    assert checked(name, "here") == ""


@pytest.mark.parametrize("name", ["a/b", "a b", "ä", "-a", ".", "a\0b", "a" * 65, "$x", "+", 7, ["a"]])
def test_another_name_is_refused_and_what_was_expected_is_said(name):
    with pytest.raises(InvalidTenantError, match=r"^here: got .* 1 to 64 of A-Z, a-z, 0-9, _, \. and -"):
        checked(name, "here")
