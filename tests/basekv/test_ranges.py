"""Which range has a key."""

from hypothesis import given
from hypothesis import strategies as st

from gossamer.basekv import KINDS, RangeInfo, machine_of
from gossamer.basekv.ranges import RoutingTable, first_ranges


@given(st.binary(max_size=3), st.sampled_from([1, 2, 4, 16, 256]))
def test_each_key_is_in_one_range(key, count):
    assert sum(info.has(key) for info in first_ranges(count)) == 1


def test_each_kind_has_the_machine_of_its_range():
    assert [machine_of(kind).range for kind in KINDS] == first_ranges()
    assert [machine_of(kind) for kind in ("names", "basekv/", "basekv/x")] == [None] * 3


def test_a_later_version_of_a_range_is_learned_and_an_earlier_one_is_not():
    routing = RoutingTable()
    later = RangeInfo(0, b"", b"\x40", version=3)
    routing.learn([later])
    routing.learn([RangeInfo(0, b"", b"\x40", version=2)])
    assert routing.find(b"\1") == later
