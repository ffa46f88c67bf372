"""Ranges that split and merge, without logs: what each request does, and what comes twice or late."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.basekv import Delete, Put, RangeInfo, RangeMachine
from gossamer.basekv import machine as machines
from gossamer.basekv.changes import (
    TOGETHER,
    Expect,
    Phase,
    Release,
    Seal,
    Split,
    Unseal,
    encoded,
)
from gossamer.basekv.merging import carry
from gossamer.basekv.values import (
    Busy,
    Done,
    Get,
    GetPart,
    Middle,
    Moved,
    Result,
    Ruled,
    Value,
    Verdict,
    Write,
    batch_of,
    decode_answer,
    encode,
)
from gossamer.raft import Born

LEFT, RIGHT = RangeInfo(0, b"", b"m"), RangeInfo(1, b"m", None)
MERGE = b"merge 1"


def put(machine, number, key, value=b"1", writer=b"w", version=1):
    batch = batch_of(version, writer, number, [Write([Put(key, value)])])
    return decode_answer(machine.apply(number, encode(batch)))


def get(machine, key):
    return decode_answer(machine.read(encode(Get(machine.range.version, key))))


def do(machine, change):
    answer = machine.apply(1, encoded(change))
    return answer if isinstance(answer, Born) else decode_answer(answer)


def split(machine, key, number=7, version=1):
    """Split a range; return what the new one begins with."""
    born = do(machine, Split(version, key, number))
    assert isinstance(born, Born)
    assert (born.group, born.kind) == (number, f"basekv/{number}")
    right = RangeMachine(RangeInfo(number, b"", b"", 0))
    right.restore(born.state)
    assert decode_answer(born.value) == Moved(machine.range, [right.range])
    return right


class Pair:
    """Two neighbours, and the requests of who merges them; each goes by ``when``, which may end that."""

    def __init__(self, left=LEFT, right=RIGHT):
        self.machines = {left.number: RangeMachine(left), right.number: RangeMachine(right)}
        self.left, self.right = self.machines.values()
        self.asked = 0

    def expect(self, merge=MERGE):
        right = self.right.range
        return do(self.left, Expect(self.left.range.version, merge, right.number, right.start, right.version))

    def merge(self, *, until=None):
        """Carry the merge over; return whether it is done, None if it was ended before."""

        async def ask(number, asked):
            if self.asked == until:
                raise TimeoutError
            self.asked += 1
            machine = self.machines[number]
            return (
                decode_answer(machine.read(encode(asked)))
                if isinstance(asked, GetPart)
                else do(machine, asked)
            )

        try:
            return asyncio.run(
                carry(
                    self.left.range, self.left.merging, ask, gone=lambda number: number not in self.machines
                )
            )
        except TimeoutError:
            return None


def test_a_split_gives_the_keys_from_its_border_on_to_another_range():
    left = RangeMachine(LEFT)
    for number, key in enumerate((b"a", b"f", b"k"), 1):
        put(left, number, key)
    right = split(left, b"f")
    assert (left.range, right.range) == (RangeInfo(0, b"", b"f", 2), RangeInfo(7, b"f", b"m", 2))
    assert [get(left, key) for key in (b"a", b"f", b"k")] == [Value(b"1"), Value(None), Value(None)]
    assert [get(right, key) for key in (b"a", b"f", b"k")] == [Value(None), Value(b"1"), Value(b"1")]
    assert (left.rows.bytes, right.rows.bytes) == (2, 4)


def test_who_knows_the_range_before_a_split_hears_of_both():
    left = RangeMachine(LEFT)
    right = split(left, b"f")
    told = Moved(left.range, [right.range])
    assert put(left, 1, b"k") == told
    assert decode_answer(left.read(encode(Get(1, b"k")))) == told
    assert put(right, 1, b"k") == Moved(right.range, [left.range])


def test_a_batch_that_was_done_before_a_split_is_not_done_again_on_either_side():
    left = RangeMachine(LEFT)
    done = put(left, 5, b"k")
    right = split(left, b"f")
    assert [put(machine, 5, b"k", b"2") for machine in (left, right)] == [done, done]
    assert get(right, b"k") == Value(b"1")
    assert put(right, 4, b"k") == Done([], late=True)


@pytest.mark.parametrize("key", [b"", b"m", b"n", b"a" * (TOGETHER + 1)], ids=["start", "end", "out", "long"])
def test_a_border_that_is_none_is_refused(key):
    left = RangeMachine(LEFT)
    assert do(left, Split(1, key, 7)) == Ruled(Verdict.NOT_INSIDE)
    assert left.range == LEFT


def test_a_split_that_comes_twice_is_done_once():
    left = RangeMachine(LEFT)
    right = split(left, b"f")
    assert do(left, Split(1, b"f", 7)) == Moved(left.range, [right.range])


def test_the_middle_is_a_border_with_half_of_the_bytes_on_either_side():
    left = RangeMachine(LEFT)
    for number in range(100):
        put(left, number + 1, b"%02d" % number + b"x" * 30, b"v" * 100)
    middle = decode_answer(left.read(encode(Middle(1)))).value
    assert len(middle) == TOGETHER
    right = split(left, middle)
    assert abs(left.rows.bytes - right.rows.bytes) <= 300
    assert decode_answer(RangeMachine(LEFT).read(encode(Middle(1)))) == Value(None)


def test_a_merge_joins_rows_and_what_was_done_for_writers():
    pair = Pair()
    put(pair.left, 3, b"a", writer=b"l")
    put(pair.right, 9, b"x", writer=b"r")
    assert pair.expect() == Ruled(Verdict.DONE)
    assert pair.merge() is True
    assert pair.left.range == RangeInfo(0, b"", None, 2)
    assert [get(pair.left, key) for key in (b"a", b"x")] == [Value(b"1"), Value(b"1")]
    assert put(pair.left, 9, b"x", b"2", writer=b"r") == Done([Result.DONE])
    assert get(pair.left, b"x") == Value(b"1")
    assert put(pair.right, 10, b"x", writer=b"r") == Moved(pair.left.range)
    assert pair.left.merging is None


def test_a_range_that_is_sealed_says_to_ask_again_and_answers_what_it_had_done():
    pair = Pair()
    done = put(pair.right, 1, b"x")
    do(pair.right, Seal(1, MERGE, 0))
    assert put(pair.right, 1, b"x") == done
    assert put(pair.right, 2, b"x") == Busy()
    assert get(pair.right, b"x") == Busy()


@pytest.mark.parametrize("part", [1, 7, 10_000])
@pytest.mark.parametrize("until", range(12))
def test_who_leads_next_goes_on_with_a_merge_wherever_it_was_broken_off(until, part, monkeypatch):
    monkeypatch.setattr("gossamer.basekv.machine.PART", 30 * part)
    pair = Pair()
    for number in range(1, 9):
        put(pair.right, number, b"x%d" % number, b"v" * 100)
    pair.expect()
    if pair.merge(until=until) is None:
        for number, machine in list(pair.machines.items()):
            data, again = machine.snapshot(), RangeMachine(machine.range)
            again.restore(data)
            assert again.snapshot() == data
            pair.machines[number] = again
        pair.left, pair.right = pair.machines.values()
        assert pair.merge() is True
    assert [get(pair.left, b"x%d" % number) for number in range(1, 9)] == [Value(b"v" * 100)] * 8
    assert pair.left.merging is None


def test_a_merge_that_does_not_fit_is_undone_and_both_go_on(monkeypatch):
    monkeypatch.setattr(machines, "MAX_RANGE", 250)
    pair = Pair()
    put(pair.left, 1, b"a", b"v" * 150)
    put(pair.right, 1, b"x", b"v" * 150)
    pair.expect()
    assert pair.merge() is False
    assert (pair.left.range, pair.left.merging, pair.right.sealed) == (LEFT, None, None)
    # Its version is another, so that a request to seal it that comes late does nothing.
    assert pair.right.range == RangeInfo(1, b"m", None, 2)
    assert do(pair.right, Seal(1, MERGE, 0)) == Ruled(Verdict.OVER)
    assert do(pair.right, Seal(1, b"another", 0)) == Moved(pair.right.range)
    assert put(pair.right, 2, b"x", version=2) == Done([Result.DONE])


def test_ranges_take_part_in_one_change_at_a_time():
    pair = Pair()
    pair.expect()
    assert do(pair.left, Split(1, b"f", 7)) == Ruled(Verdict.BUSY)
    assert do(pair.left, Seal(1, b"other", 9)) == Ruled(Verdict.BUSY)
    assert pair.expect(b"other") == Ruled(Verdict.BUSY)
    do(pair.right, Seal(1, MERGE, 0))
    assert do(pair.right, Split(1, b"x", 7)) == Busy()
    assert do(pair.right, Expect(1, b"other", 9, b"z", 1)) == Busy()


def test_ranges_that_are_no_neighbours_do_not_merge():
    left = RangeMachine(LEFT)
    assert do(left, Expect(1, MERGE, 9, b"n", 1)) == Ruled(Verdict.NOT_NEIGHBOURS)
    assert do(left, Expect(2, MERGE, 1, b"m", 1)) == Moved(LEFT)


def test_what_was_taken_over_is_not_given_back():
    pair = Pair()
    pair.expect()
    assert pair.merge(until=3) is None
    assert pair.left.merging.phase is Phase.HAS
    assert do(pair.left, Release(MERGE)) == Moved(pair.left.range)
    pair.merge()
    assert do(pair.right, Unseal(MERGE)) == Ruled(Verdict.DONE)
    assert get(pair.right, b"x") == Moved(pair.left.range)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_ranges_that_split_and_merge_have_the_rows_of_one_that_does_neither(data):
    """And each key is in one of them; batches come twice, at whichever has their keys."""
    keys = [bytes([n, m]) for n in range(4) for m in range(4)]
    values = [b"", b"v" * 70, b"w" * 70]
    whole, ranges, names = {}, {0: RangeMachine(RangeInfo(0, b"", None))}, iter(range(1, 1000))
    for number in range(1, data.draw(st.integers(1, 40))):
        action = data.draw(st.sampled_from(["put", "put", "delete", "split", "merge", "restart"]))
        key = data.draw(st.sampled_from(keys))
        [has] = [machine for machine in ranges.values() if machine.range.has(key)]
        name = next(names)
        if action in ("put", "delete"):
            chosen = data.draw(st.lists(st.sampled_from(keys), min_size=1, max_size=4))
            chosen = [one for one in chosen if has.range.has(one)] or [key]
            value = data.draw(st.sampled_from(values))
            writes = [Write([Put(one, value) if action == "put" else Delete(one) for one in chosen])]
            for _ in range(2):
                batch = batch_of(has.range.version, b"w%d" % has.range.number, number, writes)
                assert decode_answer(has.apply(number, encode(batch))) == Done([Result.DONE])
            for one in chosen:
                whole.pop(one, None)
                whole |= {one: value} if action == "put" else {}
        elif action == "split" and key != has.range.start:
            ranges[name] = split(has, key, name, has.range.version)
        elif action == "merge" and has.range.end is not None:
            [right] = [machine for machine in ranges.values() if machine.range.start == has.range.end]
            pair = Pair(has.range, right.range)
            pair.machines = {has.range.number: has, right.range.number: right}
            pair.left, pair.right = has, right
            pair.expect(b"%d" % name)
            assert pair.merge() is True
            del ranges[right.range.number]
        elif action == "restart":
            again = RangeMachine(has.range)
            again.restore(has.snapshot())
            ranges[has.range.number] = again
    rows = {}
    for machine in ranges.values():
        page = machine.rows.page(b"", b"\xff", 1000)
        assert all(machine.range.has(key) for key, _ in page.rows)
        rows |= dict(page.rows)
    assert rows == whole
