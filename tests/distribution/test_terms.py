"""What may travel between processes of different nodes."""

import dataclasses
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.distribution.errors import TermError
from gossamer.distribution.remote.terms import decode_term, encode_term, register_message
from gossamer.supervisor import Cast, Crash, Down, Exit, Pid, Ref


@register_message
@dataclasses.dataclass(frozen=True)
class Order:
    item: str
    count: int
    buyer: Pid | None = None


@register_message
class Point(NamedTuple):
    x: int
    y: int


class Sample(msgspec.Struct, frozen=True, tag="sample"):
    at: float
    tags: tuple[str, ...]
    order: Order | None = None


register_message(Sample, "sample")

PID = Pid("a@h", 3, 17)
atoms = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.binary()
atoms |= st.text(st.characters(exclude_categories=["Cs"]))
keys = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text("abc") | st.binary()
hashables = atoms | st.tuples(atoms) | st.frozensets(atoms, max_size=2)
terms = st.recursive(
    atoms | st.just(PID) | st.builds(Order, st.text("abc"), st.integers(0, 9), st.none() | st.just(PID)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(keys, inner, max_size=3)
        | st.tuples(inner)
        | st.tuples(inner, inner)
        | st.sets(hashables, max_size=3)
        | st.builds(Cast, inner)
        | st.builds(Exit, st.just(PID), inner)
    ),
    max_leaves=8,
)


def same(a, b):
    return type(a) is type(b) and a == b


@given(terms)
def test_what_arrives_equals_what_left(term):
    assert same(decode_term(encode_term(term)), term)


@pytest.mark.parametrize(
    "term",
    [
        ("shutdown", ("failed", [1, (2,)])),
        Crash("ValueError", "no", "Traceback"),
        Down(Ref("a", 1, 2), PID, "noproc"),
        Down(Ref("a", 1, 2), None, ("x",)),
        Point(1, 2),
        Sample(1.5, ("a", "b"), Order("tea", 2, PID)),
        {1: (1, {2, 3}), "x": frozenset({("a", 1)})},
        2**200,
        -(2**63) - 1,
    ],
)
def test_messages_keep_their_types(term):
    assert same(decode_term(encode_term(term)), term)


class Unknown:
    pass


@pytest.mark.parametrize(
    "value", [Unknown(), [Unknown()], {"k": (Unknown(),)}, ValueError("x"), len, bytearray(b"x")]
)
def test_a_value_of_an_unregistered_type_is_refused_by_name(value):
    with pytest.raises(TermError, match="register_message"):
        encode_term(value)


def test_values_that_cannot_be_written_are_refused():
    deep = []
    for _ in range(70):
        deep = [deep]
    for value in ("\ud800", deep, {(1, 2): 3}):
        with pytest.raises(TermError):
            encode_term(value)


def test_a_message_type_unknown_here_is_named():
    data = encode_term(Order("tea", 1)).replace(b"Order", b"Ordxr")
    with pytest.raises(TermError, match="Ordxr"):
        decode_term(data)


def test_fields_are_checked_against_their_annotations():
    for bad in (Order("tea", "two"), Pid("a", "one", 2), Sample("now", ()), Point(1, "2")):
        with pytest.raises(TermError):
            decode_term(encode_term(bad))


def test_a_type_whose_fields_changed_says_which_are_expected():
    wrong = msgspec.msgpack.Ext(5, msgspec.msgpack.encode(["Pid", "a", 1]))
    with pytest.raises(TermError, match="node, creation, number"):
        decode_term(msgspec.msgpack.encode(wrong))


@pytest.mark.parametrize(
    ("fields", "decoded"),
    [
        (["Order", "tea", 1], Order("tea", 1)),
        (["Order", "tea", 1, None, "by rail"], Order("tea", 1)),
        (["Point", 1, 2, 3], Point(1, 2)),
        (["sample", 1.5, []], Sample(1.5, ())),
        (["sample", 1.5, [], None, b"new"], Sample(1.5, ())),
    ],
)
def test_fields_of_another_release_are_skipped_and_missing_ones_have_their_defaults(fields, decoded):
    name = fields[0] if fields[0] == "sample" else f"{__name__}.{fields[0]}"
    data = msgspec.msgpack.encode(msgspec.msgpack.Ext(5, msgspec.msgpack.encode([name, *fields[1:]])))
    assert decode_term(data) == decoded


def test_two_types_cannot_have_one_name():
    with pytest.raises(TermError, match="no other message type"):
        register_message(Point, "sample")
    with pytest.raises(TermError, match="a dataclass"):
        register_message(Unknown)


@given(st.binary(max_size=200))
def test_any_bytes_decode_to_a_term_or_an_error(data):
    for candidate in (data, b"\xc7" + bytes([len(data), 1 + len(data) % 6]) + data):
        try:
            decode_term(candidate)
        except TermError:
            pass


def test_nesting_is_bounded_whatever_the_bytes():
    data = b"\x90"
    for _ in range(1000):
        data = msgspec.msgpack.encode([msgspec.msgpack.Ext(1, data)])
    for hostile in (data, b"\x91" * 100_000):
        with pytest.raises(TermError):
            decode_term(hostile)
