"""The targets of ``script/fuzz``, by chance instead of coverage: whatever the bytes, an answer."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"


def inputs(name):
    return [file.read_bytes() for file in sorted((CORPUS / name).iterdir())]


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_holds_nothing_that_breaks(name):
    found = inputs(name)
    assert 1 < len(found) < 1000
    for data in found:
        TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes(name):
    @settings(max_examples=150, deadline=None)
    @given(st.binary(max_size=300))
    def feed(data):
        TARGETS[name](data)

    feed()


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_nearly_right(name):
    """Something of the corpus, cut, joined to another and damaged."""
    some = st.sampled_from(inputs(name))

    @settings(max_examples=150, deadline=None)
    @given(
        some,
        some,
        st.integers(0, 600),
        st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=3),
    )
    def feed(first, second, cut, damage):
        data = bytearray(first[:cut] + second)
        for at, byte in damage:
            if data:
                data[at % len(data)] = byte
        TARGETS[name](bytes(data))

    feed()
