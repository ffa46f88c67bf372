"""Layout of copies: what is laid out is read again, in writes that fit, and never in part."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.basekv import Delete, DeleteRange, Put
from gossamer.basekv.values import MAX_KEY, MAX_OPERATIONS, MAX_VALUE, MAX_WRITE
from gossamer.mqtt.copies import rows as layout
from gossamer.mqtt.copies.rows import OWNER_SUFFIX, PIECE, Owner
from gossamer.mqtt.session.store import ONCE, SESSION, encode

PREFIX = layout.prefix_of("c")
KINDS = st.integers(SESSION, 4) | st.just(ONCE)
KEYS = (
    st.integers(0, 2**40)
    | st.text(max_size=20)
    | st.builds(lambda piece, times: piece * times, st.text(min_size=1, max_size=8), st.integers(60, 700))
)
SIZES = st.integers(0, 300) | st.sampled_from(
    [PIECE - 5, PIECE - 4, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 17]
)
VALUES = st.builds(lambda size, byte: bytes([byte]) * size, SIZES, st.integers(0, 255)) | st.none()


class Range:
    """Rows of one range, changed by operations as ``gossamer.basekv`` does."""

    def __init__(self):
        self.rows = {}

    def write(self, operations):
        for operation in operations:
            match operation:
                case Put(key, value):
                    self.rows[key] = value
                case Delete(key):
                    self.rows.pop(key, None)
                case DeleteRange(start, end):
                    self.rows = {key: value for key, value in self.rows.items() if not start <= key < end}

    def copy(self, prefix=PREFIX):
        end = layout.end_of(prefix)
        return {key[len(prefix) :]: value for key, value in self.rows.items() if prefix <= key < end}


def put(kind, key, value):
    """Operations that lay out a row, and remove what was under its key."""
    suffix, data = layout.row_of(kind, key, None if value is None else encode(value))
    gone = [layout.deleted(PREFIX + suffix, pieces=True)]
    if data is None:
        return gone
    return [*gone, *(Put(PREFIX + end, part) for end, part in layout.in_pieces(suffix, data))]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(KINDS, KEYS, VALUES), max_size=12), st.data())
def test_what_is_laid_out_replaced_and_deleted_is_read_again(changes, data):
    """Under the same key another value, longer or shorter, or none, leaves nothing of the one before."""
    known = [change[:2] for change in changes]
    again = data.draw(st.lists(st.tuples(st.sampled_from(known), VALUES), max_size=6)) if known else []
    kept, expected = Range(), {}
    kept.write([Put(PREFIX + OWNER_SUFFIX, layout.encoded(Owner("a", 1, 2)))])
    for kind, key, value in [*changes, *((*names, value) for names, value in again)]:
        kept.write(put(kind, key, value))
        expected["c", kind, key] = value
    found = kept.copy()
    assert layout.journal_in("c", found) == {
        name: value for name, value in expected.items() if value is not None
    }
    assert layout.owner_in(found) == Owner("a", 1, 2)
    assert all(
        PREFIX <= key < layout.end_of(PREFIX) and len(key) <= MAX_KEY and len(value) <= MAX_VALUE
        for key, value in kept.rows.items()
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(PIECE, 4 * PIECE), KEYS, st.data())
def test_a_value_that_lacks_one_of_its_parts_is_none(size, key, data):
    kept = Range()
    kept.write([*put(SESSION, 0, "beside"), *put(2, key, b"x" * size)])
    suffix, _ = layout.row_of(2, key, b"")
    parts = sorted(end for end in kept.copy() if end.startswith(suffix) and end != suffix)
    assert len(parts) >= 2
    del kept.rows[PREFIX + data.draw(st.sampled_from([*parts, suffix]))]
    assert layout.journal_in("c", kept.copy()) == {("c", SESSION, 0): "beside"}


OPERATIONS = (
    st.builds(Put, st.binary(min_size=1, max_size=40), SIZES.filter(lambda size: size <= PIECE).map(bytes))
    | st.builds(Delete, st.binary(min_size=1, max_size=40))
    | st.builds(DeleteRange, st.just(b"a"), st.just(b"b"))
)


@settings(max_examples=60, deadline=None)
@given(st.lists(OPERATIONS, max_size=30), st.integers(1, 80))
def test_chunks_have_everything_in_its_order_and_fit_a_write(operations, times):
    operations *= times
    chunks = list(layout.chunks(operations))
    assert [operation for chunk in chunks for operation in chunk] == operations
    for chunk in chunks:
        # The owner's row, and what is required of it, are sent besides.
        assert 0 < len(chunk) <= MAX_OPERATIONS - 2
        puts = [one for one in chunk if isinstance(one, Put)]
        assert sum(len(put.key) + len(put.value) for put in puts) <= MAX_WRITE - 2048


@given(st.text(max_size=30), st.text(max_size=30))
def test_copies_of_two_sessions_do_not_overlap(one, two):
    first, second = layout.prefix_of(one), layout.prefix_of(two)
    assert (first == second) == (one == two)
    if one != two:
        assert layout.end_of(first) <= second or layout.end_of(second) <= first


def test_the_copy_of_a_client_is_found_whose_name_is_no_valid_text():
    assert len(layout.prefix_of("\ud800")) == 17


@pytest.mark.parametrize("rows", [{}, {layout.row_of(2, 1, b"")[0]: encode("x")}])
def test_rows_without_an_owner_have_none(rows):
    assert layout.owner_in(rows) is None
