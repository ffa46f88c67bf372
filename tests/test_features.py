"""When a feature flag may be enabled, and which ones a cluster begins with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.errors import NotFoundError
from gossamer.features import FEATURES, Feature, FeatureBlockedError, Features

COLOUR, SHAPE = Feature("colour", "0.2.0", ""), Feature("shape", "0.3.0", "", "experimental")
NAMES = st.lists(st.sampled_from(["colour", "shape", "size"]), unique=True)


def flags(**enabled):
    features = Features([COLOUR, SHAPE])
    features.enabled = enabled
    return features


def test_names_are_declared_once():
    assert len({feature.name for feature in FEATURES}) == len(FEATURES)


def test_a_node_lacks_what_is_enabled_and_it_does_not_support():
    features = flags(colour="0.2.0", size="0.4.0")
    assert features.lacked_by(["colour", "shape"]) == ["size"]
    assert features.lacked_by([]) == ["colour", "size"]


def test_an_order_is_for_one_flag_or_for_all_stable_ones():
    features = flags()
    assert features.wanted("shape") == [SHAPE]
    assert features.wanted(None) == [COLOUR]
    with pytest.raises(NotFoundError, match="got 'size', expected one of colour, shape"):
        features.wanted("size")


def test_a_flag_waits_for_every_member_and_the_error_names_them():
    members = {"a": ["colour"], "b": [], "c": None}
    with pytest.raises(FeatureBlockedError) as blocked:
        flags().check(COLOUR, members)
    assert (blocked.value.lacking, blocked.value.unknown) == (("b",), ("c",))
    assert "b lacks it; upgrade that node" in str(blocked.value)
    flags().check(COLOUR, {"a": ["colour"]})
    flags().check(COLOUR, {})


@pytest.mark.parametrize(
    ("known", "members", "fresh", "state"),
    [
        ([], {}, True, {"colour": True, "shape": False}),
        ([], {"b": ["colour"]}, True, {"colour": True, "shape": False}),
        ([], {"b": []}, True, {"colour": False, "shape": False}),
        ([], {}, False, {"colour": False, "shape": False}),
        (["colour"], {}, True, {"shape": False}),
        ([], {"b": None}, True, None),
    ],
)
def test_a_new_cluster_begins_with_all_stable_flags_and_an_upgraded_one_without(known, members, fresh, state):
    assert flags().at_birth(known, members, fresh=fresh) == state


@given(st.dictionaries(st.sampled_from("abc"), NAMES | st.none()), NAMES, st.booleans())
def test_nothing_is_enabled_at_birth_that_an_operator_could_not_enable(members, known, fresh):
    for name, enabled in (flags().at_birth(known, members, fresh=fresh) or {}).items():
        assert name not in known
        if enabled:
            flags().check(Features([COLOUR, SHAPE]).declared[name], members)
