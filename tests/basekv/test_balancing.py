"""Balancers: what they want done, and when."""

from gossamer.basekv import RangeInfo
from gossamer.basekv.balancing import (
    AwaitBalance,
    BalanceNow,
    MergeRange,
    MergeSmall,
    NoNeedBalance,
    RangeLoad,
    RangesView,
    SplitBySize,
    SplitRange,
)

A, B, C = RangeInfo(0, b"", b"f"), RangeInfo(9, b"f", b"m"), RangeInfo(1, b"m", None)


def view(*led, sizes=None, ranges=(A, B, C)):
    return RangesView(ranges, sizes or {}, led, first=4)


def test_a_range_that_is_large_for_a_while_is_split_and_one_that_was_is_not():
    split = SplitBySize(bytes=100, patience=10.0)
    large = view(RangeLoad(A, 101, 5, 0.0))
    assert split.balance(large, 0.0) == AwaitBalance(10.0)
    assert split.balance(view(RangeLoad(A, 100, 5, 0.0)), 5.0) == NoNeedBalance()
    assert split.balance(large, 6.0) == AwaitBalance(10.0)
    assert split.balance(large, 16.0) == BalanceNow(SplitRange(0))


def test_a_range_that_is_written_to_a_lot_is_split_if_there_is_something_to_divide():
    split = SplitBySize(writes=10.0, patience=0.0)
    assert split.balance(view(RangeLoad(A, 1, 2, 11.0)), 0.0) == BalanceNow(SplitRange(0))
    assert split.balance(view(RangeLoad(A, 1, 1, 11.0)), 0.0) == NoNeedBalance()
    assert split.balance(view(RangeLoad(A, 1, 2, 11.0, changes=True)), 0.0) == NoNeedBalance()


def test_there_are_no_more_ranges_than_the_most():
    large = view(RangeLoad(A, 101, 5, 0.0))
    assert SplitBySize(bytes=100, patience=0.0, most=3).balance(large, 0.0) == NoNeedBalance()


def test_small_neighbours_merge_after_a_while_but_not_those_of_the_beginning():
    merge = MergeSmall(bytes=100, patience=60.0)
    small = view(RangeLoad(A, 10, 1, 0.0), RangeLoad(B, 10, 1, 0.0), sizes={9: 80, 1: 0})
    assert merge.balance(small, 0.0) == AwaitBalance(60.0)
    assert merge.balance(small, 60.0) == BalanceNow(MergeRange(0))
    grown = view(RangeLoad(A, 21, 1, 0.0), sizes={9: 80})
    assert merge.balance(grown, 61.0) == NoNeedBalance()
    assert merge.balance(view(RangeLoad(B, 0, 0, 0.0), sizes={1: 0}), 999.0) == NoNeedBalance()


def test_a_neighbour_of_unknown_size_is_left_alone():
    assert MergeSmall(patience=0.0).balance(view(RangeLoad(A, 0, 0, 0.0)), 0.0) == NoNeedBalance()
