"""State machine of a range: what batches do, and what comes twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.basekv import Delete, DeleteRange, Expect, Put, RangeInfo, RangeMachine
from gossamer.basekv import machine as machines
from gossamer.basekv.values import (
    MAX_PAGE,
    SHARED,
    Done,
    Get,
    Moved,
    Result,
    Rows,
    Scan,
    Value,
    Write,
    batch_of,
    decode_answer,
    encode,
)
from gossamer.raft.batches import MAX_WRITERS

INFO = RangeInfo(0, b"", b"\x80")


@pytest.fixture
def machine():
    return RangeMachine(INFO)


def put(machine, number, *writes, writer=b"w", version=1):
    return decode_answer(machine.apply(number, encode(batch_of(version, writer, number, list(writes)))))


def one(*operations, expected=()):
    return Write(list(operations), list(expected))


def get(machine, key, version=1):
    return decode_answer(machine.read(encode(Get(version, key))))


def scan(machine, start=b"", end=b"\xff\xff\xff", limit=100):
    return decode_answer(machine.read(encode(Scan(1, start, end, limit))))


def test_what_is_put_is_found_until_it_is_deleted(machine):
    assert put(machine, 1, one(Put(b"a", b"1"), Put(b"b", b"2"))) == Done([Result.DONE])
    assert get(machine, b"a") == Value(b"1")
    put(machine, 2, one(Delete(b"a"), Delete(b"nothing")))
    assert get(machine, b"a") == Value(None)


def test_rows_come_in_order_and_in_pages(machine):
    put(machine, 1, one(*(Put(bytes([n]), b"v") for n in (3, 1, 2))))
    assert scan(machine) == Rows([(b"\1", b"v"), (b"\2", b"v"), (b"\3", b"v")], more=False)
    assert scan(machine, limit=2) == Rows([(b"\1", b"v"), (b"\2", b"v")], more=True)
    assert scan(machine, b"\2", b"\3") == Rows([(b"\2", b"v")], more=False)


def test_a_page_ends_before_it_is_longer_than_a_frame_may_be(machine):
    large = b"x" * (MAX_PAGE // 2)
    put(machine, 1, one(*(Put(bytes([n]), large) for n in range(4))))
    first = scan(machine)
    assert ([key for key, _ in first.rows], first.more) == ([b"\0"], True)
    put(machine, 2, one(Put(b"\0", large * 3)))
    assert [key for key, _ in scan(machine).rows] == [b"\0"]


def test_a_range_of_keys_is_deleted_without_its_end(machine):
    put(machine, 1, one(*(Put(bytes([n]), b"v") for n in range(5))))
    put(machine, 2, one(DeleteRange(b"\1", b"\3")))
    assert [key for key, _ in scan(machine).rows] == [b"\0", b"\3", b"\4"]


def test_a_write_whose_expectation_fails_does_nothing(machine):
    put(machine, 1, one(Put(b"a", b"1")))
    refused = one(Put(b"b", b"2"), expected=[Expect(b"a", b"0")])
    new = one(Put(b"c", b"3"), expected=[Expect(b"c", None)])
    assert put(machine, 2, refused, new, new) == Done([Result.UNEXPECTED, Result.DONE, Result.UNEXPECTED])
    assert get(machine, b"b") == Value(None)


def test_a_batch_that_comes_again_is_answered_as_it_was_and_done_once(machine):
    new = one(Put(b"a", b"1"), expected=[Expect(b"a", None)])
    assert put(machine, 1, new) == put(machine, 1, new) == Done([Result.DONE])


def test_a_batch_that_comes_behind_a_later_one_is_not_done(machine):
    put(machine, 2, one(Put(b"a", b"later")))
    assert put(machine, 1, one(Put(b"a", b"earlier"))) == Done([], late=True)
    assert get(machine, b"a") == Value(b"later")
    assert put(machine, 1, one(Put(b"a", b"another")), writer=b"x") == Done([Result.DONE])


def test_a_request_of_another_version_is_told_the_range_as_it_is(machine):
    assert put(machine, 1, one(Put(b"a", b"1")), version=2) == Moved(INFO)
    assert get(machine, b"a", version=2) == Moved(INFO)
    assert get(machine, b"a") == Value(None)


def test_writers_are_forgotten_those_first_that_wrote_least_lately(machine):
    for number in range(MAX_WRITERS + 1):
        put(machine, 5, writer=number.to_bytes(3))
        put(machine, 5, writer=(0).to_bytes(3))
    again = one(Put(b"a", b"1"))
    assert put(machine, 4, again, writer=(0).to_bytes(3)) == Done([], late=True)
    assert put(machine, 4, again, writer=(1).to_bytes(3)) == Done([Result.DONE])


def test_a_range_that_is_full_takes_nothing_more_until_rows_are_deleted(machine, monkeypatch):
    monkeypatch.setattr(machines, "MAX_RANGE", 20)
    put(machine, 1, one(Put(b"a", b"x" * 9)), one(Put(b"b", b"x" * 9)))
    assert put(machine, 2, one(Put(b"c", b"1")), one(Delete(b"a"))) == Done([Result.FULL, Result.DONE])
    assert put(machine, 3, one(Put(b"c", b"1"))) == Done([Result.DONE])
    copy = RangeMachine(INFO)
    copy.restore(machine.snapshot())
    assert put(copy, 4, one(Put(b"d", b"x" * 9))) == Done([Result.FULL])


def test_a_value_that_several_rows_have_is_kept_once_until_the_last_of_them_is_gone(machine, monkeypatch):
    monkeypatch.setattr(machines, "MAX_RANGE", 1300)
    message = b"m" * 1000
    receivers = [one(Put(b"%d" % number, message)) for number in range(9)]
    assert put(machine, 1, *receivers) == Done([Result.DONE] * 9)
    # One that comes later has it too, and one that had another does.
    assert put(machine, 2, one(Put(b"late", message)), one(Put(b"0", b"other"))) == Done([Result.DONE] * 2)
    assert len(machine.snapshot()) < 1300
    copy = RangeMachine(INFO)
    copy.restore(machine.snapshot())
    for each in (machine, copy):
        assert get(each, b"late") == get(each, b"8") == Value(message)
        assert put(each, 3, one(*(Delete(b"%d" % number) for number in range(9)))) == Done([Result.DONE])
        assert put(each, 4, one(Put(b"a", b"n" * 1000))) == Done([Result.FULL])
        put(each, 5, one(Delete(b"late")))
        assert put(each, 6, one(Put(b"a", b"n" * 1000))) == Done([Result.DONE])
    assert copy.snapshot() == machine.snapshot()


def test_one_write_that_would_fill_the_range_with_a_shared_value_is_refused_whole(machine, monkeypatch):
    monkeypatch.setattr(machines, "MAX_RANGE", 100)
    both = one(Put(b"a", b"x" * 99), Put(b"b", b"x" * 99))
    assert put(machine, 1, both) == Done([Result.FULL])
    assert get(machine, b"a") == Value(None)


KEYS = st.binary(max_size=2)
VALUES = st.binary(max_size=1) | st.sampled_from([b"x" * SHARED, b"y" * SHARED])
OPERATIONS = st.builds(Put, KEYS, VALUES) | st.builds(Delete, KEYS) | st.builds(DeleteRange, KEYS, KEYS)
WRITES = st.builds(
    Write,
    st.lists(OPERATIONS, max_size=3),
    st.lists(st.builds(Expect, KEYS, st.none() | st.binary(max_size=1)), max_size=1),
)


@given(st.lists(st.lists(WRITES, max_size=3), max_size=8))
def test_it_does_what_a_plain_dict_would_and_a_snapshot_has_all(batches):
    machine, plain = RangeMachine(INFO), {}
    for number, writes in enumerate(batches, 1):
        put(machine, number, *writes)
        for write in writes:
            if any(plain.get(one.key) != one.value for one in write.expected):
                continue
            for operation in write.operations:
                match operation:
                    case Put(key, value):
                        plain[key] = value
                    case Delete(key):
                        plain.pop(key, None)
                    case DeleteRange(start, end):
                        plain = {key: value for key, value in plain.items() if not start <= key < end}
    copy = RangeMachine(RangeInfo(7, b"", None))
    copy.restore(machine.snapshot())
    assert scan(machine, limit=10_000) == scan(copy, limit=10_000) == Rows(sorted(plain.items()), more=False)
    assert copy.snapshot() == machine.snapshot()
    if batches:
        assert put(copy, len(batches), one(Put(b"", b"again"))) == put(machine, len(batches))
        assert copy.snapshot() == machine.snapshot()
