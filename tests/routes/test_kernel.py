"""The compiled kernel held against its twin in Python, and what only the kernel can do wrong."""

import gc
import os
import random
import subprocess
import sys
import weakref
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.routes import (
    InvalidTopicName,
    TopicLimits,
    filter_index,
    kernel_name,
    parse_filter,
    parse_name,
    split_shared,
)
from gossamer.routes.index.filters import FilterIndex
from gossamer.routes.kernel import KERNEL_REASON, compiled_index
from tests.routes.strategies import filters, names

_kernel = None if "not built" in KERNEL_REASON else pytest.importorskip("gossamer.routes._kernel")
needs_kernel = pytest.mark.skipif("not built" in KERNEL_REASON, reason=KERNEL_REASON)

# Levels around the sizes that hash differently, beyond ASCII, and what is valid nowhere.
ODD = st.sampled_from(
    ["", "a", "abcd", "abcdefgh", "abcdefghi", "x" * 40, "é", "日本語", "$", "$SYS", "+", "#", "a+"]
)
odd_texts = st.lists(ODD, min_size=1, max_size=5).map("/".join)
long_texts = st.integers(60, 140).flatmap(
    lambda n: st.lists(st.sampled_from(["a", "+", "b"]), min_size=n, max_size=n).map("/".join)
)


@needs_kernel
@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.one_of(filters(), odd_texts, long_texts)), max_size=60),
    st.lists(st.one_of(names(), odd_texts), max_size=8),
    st.sampled_from([0, 1, 2, 16]),
)
def test_the_kernel_does_what_the_twin_does(changes, topics, limit):
    twin: FilterIndex[int] = FilterIndex(shape_limit=limit)
    kernel: FilterIndex[int] = compiled_index(shape_limit=limit)
    # What has a wildcard character and is no wildcard is no filter; the two keep it in different places.
    changes = [(what, text) for what, text in changes if text and "a+" not in text and "#" not in text[:-1]]
    for number, (what, topic_filter) in enumerate(changes):
        if what == 0:
            assert kernel.remove(topic_filter) is twin.remove(topic_filter)
        else:
            kernel.put(topic_filter, number)
            twin.put(topic_filter, number)
        assert kernel.get(topic_filter) == twin.get(topic_filter)
        assert len(kernel) == len(twin)
        assert kernel.stats() == twin.stats()
    assert sorted(kernel.items()) == sorted(twin.items())
    assert sorted(kernel.filters()) == sorted(twin.filters())
    for topic in [*topics, *(text for _, text in changes)]:
        if topic and not {"+", "#"} & set(topic):
            assert kernel.match(topic) == twin.match(topic)


ANY_TEXT = st.one_of(
    names(),
    filters(),
    odd_texts,
    long_texts,
    st.text(max_size=12),
    st.sampled_from(["$share/g/a", "$share/", "a/#/b"]),
)


@needs_kernel
@settings(max_examples=200, deadline=None)
@given(ANY_TEXT, st.sampled_from([TopicLimits(), TopicLimits(max_bytes=9), TopicLimits(max_levels=2)]))
def test_a_look_at_the_bytes_accepts_only_what_the_rules_accept(text, limits):
    kernel: FilterIndex[str] = compiled_index()
    for topic_filter in ("#", "+", "a/b", "+/+/#", "$x/+"):
        kernel.put(topic_filter, topic_filter)
    if _kernel.is_filter(text, limits.max_bytes, limits.max_levels):
        assert parse_filter(text, limits) == text
        assert split_shared(text).group is None
    raw = text.encode(errors="replace")
    found = kernel.match_raw(raw, limits.max_bytes, limits.max_levels)
    if found is not None:
        assert found == kernel.match(parse_name(raw, limits))
    try:
        assert found is not None or parse_name(raw, limits).isascii() is False
    except InvalidTopicName:
        assert found is None


@needs_kernel
def test_growing_and_shrinking_keeps_every_filter_in_its_place():
    rng = random.Random(11)
    twin: FilterIndex[str] = FilterIndex()
    kernel: FilterIndex[str] = compiled_index()
    for target in (5000, 100, 8000, 0, 300):
        while len(twin) != target:
            words = [rng.choice(("s", "+", f"{rng.randrange(40)}")), f"{rng.randrange(4000)}"]
            topic_filter = "/".join(words) + rng.choice(
                ("", "", "/#", "/metric", "/" + "long" * rng.randrange(9))
            )
            if target > len(twin):
                twin.put(topic_filter, topic_filter)
                kernel.put(topic_filter, topic_filter)
            else:
                for known in list(twin.filters())[: 1 + (len(twin) - target) // 2]:
                    assert kernel.remove(known)
                    assert twin.remove(known)
        assert kernel.stats() == twin.stats()
        assert dict(kernel.items()) == dict(twin.items())
        for n in range(500):
            topic = f"{rng.choice('s7')}/{n}/metric"
            assert kernel.match(topic) == twin.match(topic)


@needs_kernel
def test_what_is_walked_may_change_meanwhile():
    rng = random.Random(3)
    kernel: FilterIndex[int] = compiled_index()
    for n in range(400):
        kernel.put(f"kept/{n}", n)
        kernel.put(f"gone/{n}", n)
    seen = []
    for number, topic_filter in enumerate(kernel.filters()):
        seen.append(topic_filter)
        kernel.remove(f"gone/{rng.randrange(400)}")
        kernel.put(f"new/{number % 600}", number)
    assert len(seen) == len(set(seen))
    assert {text for text in seen if text.startswith("kept")} == {f"kept/{n}" for n in range(400)}
    walk = kernel.items()
    next(walk)
    for topic_filter in list(kernel.filters()):
        kernel.remove(topic_filter)
    kernel.put("after", 1)
    assert list(walk) == []


class Value:
    pass


@needs_kernel
def test_values_live_as_long_as_they_are_in():
    kernel: FilterIndex[Value] = compiled_index(shape_limit=1)
    alive = []
    for topic_filter in ("a", "a/+", "+/a", "a/#"):
        for _ in range(3):
            value = Value()
            alive.append(weakref.ref(value))
            kernel.put(topic_filter, value)
    del value
    gc.collect()
    assert [ref() is not None for ref in alive] == [False, False, True] * 4
    kernel.remove("a/+")
    assert alive[5]() is None
    assert alive[2]() in kernel.match("a")
    del kernel
    gc.collect()
    assert all(ref() is None for ref in alive)


@needs_kernel
def test_a_ring_through_the_index_is_collected():
    kernel: FilterIndex[Value] = compiled_index()
    for topic_filter in ("a", "b/+"):
        value = Value()
        value.index = kernel
        value.walk = kernel.items()
        kernel.put(topic_filter, value)
    kernel.put("plain", 7)
    gone = weakref.ref(value)
    del kernel, value
    gc.collect()
    assert gone() is None


@needs_kernel
def test_a_value_that_changes_the_index_as_it_goes_does_no_harm():
    kernel: FilterIndex[object] = compiled_index()

    class Restless:
        def __del__(self):
            kernel.remove("b")
            kernel.put("c/+", 1)
            kernel.match("c/x")

    kernel.put("a", Restless())
    kernel.put("b", 1)
    kernel.put("a", 2)
    assert dict(kernel.items()) == {"a": 2, "c/+": 1}
    kernel.put("a/#", Restless())
    kernel.put("b", 1)
    kernel.remove("a/#")
    assert dict(kernel.items()) == {"a": 2, "c/+": 1}


@needs_kernel
def test_references_balance():
    kernel: FilterIndex[object] = compiled_index()
    value, topic, topic_filter = object(), "é/" + "b" * 3, "é/+"
    before = [sys.getrefcount(item) for item in (value, topic, topic_filter)]
    for _ in range(50):
        kernel.put(topic_filter, value)
        kernel.put(topic_filter, value)
        assert kernel.match(topic) == [value]
        assert kernel.get(topic_filter) is value
        assert list(kernel.items()) == [(topic_filter, value)]
        kernel.remove(topic_filter)
    assert [sys.getrefcount(item) for item in (value, topic, topic_filter)] == before


@needs_kernel
def test_wrong_arguments_are_refused_and_change_nothing():
    kernel: FilterIndex[int] = compiled_index()
    kernel.put("a", 1)
    for call in (kernel.get, kernel.remove, kernel.match):
        with pytest.raises(TypeError, match="expected a filter or topic as str, got bytes"):
            call(b"a")
        with pytest.raises(UnicodeEncodeError):
            call("\ud800")
    with pytest.raises(TypeError):
        kernel.put("a")
    for wrong in (("a", 1, 1), (b"a", 1), (b"a", "1", 1)):
        with pytest.raises(TypeError):
            kernel.match_raw(*wrong)
    with pytest.raises(OverflowError):
        kernel.match_raw(b"a", -1, 1)
    with pytest.raises(ValueError, match="at most 1048560 bytes"):
        kernel.put("a" * 1_048_561, 1)
    with pytest.raises(ValueError, match="shape_limit"):
        compiled_index(shape_limit=101)
    assert dict(kernel.items()) == {"a": 1}
    sizes = [1, 499, 500, 501, 1011, 1012, 1013, 65_535, 1_048_560]
    for size in sizes:
        kernel.put("b" * size, size)
    assert [kernel.match("b" * size) for size in sizes] == [[size] for size in sizes]
    assert not any(kernel.match("b" * (size + 1)) for size in sizes if size + 1 not in sizes)


@needs_kernel
def test_names_of_more_levels_than_fit_the_stack():
    kernel: FilterIndex[int] = compiled_index()
    counts = [16, 17, 63, 64, 65, 66, 200, 5000]
    for levels in counts:
        kernel.put("/".join("a" * levels), levels)
        kernel.put("/".join("+" * levels), -levels)
    assert [kernel.match("/".join("a" * levels)) for levels in counts] == [[n, -n] for n in counts]
    assert all(
        kernel.match("/" * high) == [-high - 1] if high + 1 in counts else True
        for _, high in pairwise(counts)
    )


@pytest.mark.parametrize(
    ("choice", "expected"),
    [("python", "python GOSSAMER_KERNEL=python"), ("", f"{kernel_name()} {KERNEL_REASON}")],
)
def test_the_environment_chooses_the_kernel(choice, expected):
    code = "from gossamer.routes import kernel_name, KERNEL_REASON; print(kernel_name(), KERNEL_REASON)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "GOSSAMER_KERNEL": choice},
        capture_output=True,
        text=True,
        check=True,
    )
    if not KERNEL_REASON.startswith("GOSSAMER"):
        assert ran.stdout.strip() == expected.strip()


def test_the_index_of_this_process_is_of_the_kind_it_says():
    assert isinstance(filter_index(), FilterIndex) is (kernel_name() == "python")
