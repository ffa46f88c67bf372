"""Match, select, fold, order and indexes say what a scan of the rows would."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.mnesia_like import (
    ANY,
    BadTableError,
    IndexExistsError,
    LocalTable,
    NoSuchIndexError,
    NotOrderedError,
    Store,
    TableDef,
)
from gossamer.mnesia_like.table.queries import rank

from .hub import Hub, host

keys = st.recursive(
    st.integers(-5, 5) | st.text(max_size=2) | st.binary(max_size=2),
    lambda part: st.lists(part, max_size=2).map(tuple),
    max_leaves=3,
)


@given(st.lists(st.tuples(st.booleans(), keys, st.integers(0, 3))), keys, keys)
def test_order_is_that_of_sorting(script: list[tuple[bool, Any, int]], low: Any, high: Any) -> None:
    """After any writes and deletions, for keys of mixed types, present or not."""
    table = LocalTable(TableDef(name="t", type="ordered_set"), node="a")
    for written, key, value in script:
        if written:
            table.write(key, value)
        else:
            table.delete(key)
        table.first()
    expected = sorted(table.rows(), key=rank)
    assert table.foldl(lambda seen, key, _: [*seen, key], list[Any]()) == expected
    assert (table.first(), table.last()) == ((expected[0], expected[-1]) if expected else (None, None))
    later = [k for k in expected if rank(k) > rank(low)]
    earlier = [k for k in expected if rank(k) < rank(low)]
    assert table.next(low) == (later[0] if later else None)
    assert table.prev(low) == (earlier[-1] if earlier else None)
    assert [k for k, _ in table.range(low, high)] == [
        k for k in expected if rank(low) <= rank(k) < rank(high)
    ]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.sampled_from(["x", "y", 1, None, [1]]))))
def test_an_index_says_what_a_scan_would(script: list[tuple[bool, int, Any]]) -> None:
    """Made at the beginning or later."""
    table = LocalTable(TableDef(name="t"), node="a")
    table.add_index("early")
    for written, key, term in script:
        if written:
            table.write(key, {"early": term, "late": term})
        else:
            table.delete(key)
    table.add_index("late")
    for term in ("x", "y", 1, None):
        found = sorted(k for k, _ in table.index_read("early", term))
        assert found == sorted(k for k, v in table.rows().items() if v["early"] == term)
        assert found == sorted(k for k, _ in table.index_read("late", term))


def test_match_compares_by_shape() -> None:
    """ANY stands for whatever; of a dict only the named fields count; types matter."""
    table = LocalTable(TableDef(name="t"), node="a")
    table.write(("room", 1), {"name": "hall", "at": [1, 2], "lit": True})
    table.write(("room", 2), {"name": "attic", "at": [1, 3]})
    table.write("other", 5)
    assert [k for k, _ in table.match(("room", ANY))] == [("room", 1), ("room", 2)]
    assert [k for k, _ in table.match(value={"at": [1, 3]})] == [("room", 2)]
    assert [k for k, _ in table.match(value={"at": [1, ANY]}, limit=1)] == [("room", 1)]
    assert table.match(value={"lit": 1}) == []
    assert table.select(lambda key, value: value == 5) == [("other", 5)]
    assert table.foldl(lambda count, key, value: count + 1, 0) == 3


def test_what_was_not_set_up_is_refused() -> None:
    """The error says how to."""
    table = LocalTable(TableDef(name="t"), node="a")
    with pytest.raises(NotOrderedError, match="expected ordered_set"):
        table.first()
    with pytest.raises(NoSuchIndexError, match="add_index"):
        table.index_read("field", 1)
    with pytest.raises(NoSuchIndexError):
        table.del_index("field")
    table.add_index("field")
    with pytest.raises(IndexExistsError):
        table.add_index("field")
    table.del_index("field")
    with pytest.raises(BadTableError, match="set or bag"):
        TableDef(name="t", replication="owned", type="ordered_set")


async def test_shared_tables_keep_order_and_indexes_too() -> None:
    """Of rows that others wrote."""
    hub = Hub()
    async with host("a", hub) as a, host("b", hub) as b:
        ta, tb = [await h.store.create_table("t", replication="shared", type="ordered_set") for h in (a, b)]
        tb.add_index(0)
        for key in (3, 1, 2):
            ta.write(key, [f"odd {key % 2}"])
        ta.delete(3)
        await ta.visible(ta.write(9, ["odd 1"]))
        assert [tb.first(), tb.next(1), tb.last()] == [1, 2, 9]
        assert [k for k, _ in tb.index_read(0, "odd 1")] == [1, 9]


async def test_an_ordered_table_is_created_by_its_type() -> None:
    """As any other."""
    table = await Store(node="a", creation=1).create_table("t", type="ordered_set")
    table.write("b", 1)
    table.write("a", 1)
    assert table.first() == "a"


async def test_owned_tables_are_asked_by_owner_too() -> None:
    """Whose a row is counts as its key and value do."""
    hub = Hub()
    async with host("a", hub) as a, host("b", hub) as b:
        ta, tb = [await h.store.create_table("t", replication="owned") for h in (a, b)]
        for table, value in ((ta, 1), (tb, 2)):
            for key in ("x", "y"):
                assert await table.visible(table.write(key, [key, value]))
        assert ta.match("x") == [("a", "x", ["x", 1]), ("b", "x", ["x", 2])]
        assert ta.match(owner="b", value=[ANY, 2], limit=1) == [("b", "x", ["x", 2])]
        assert tb.select(lambda owner, key, value: owner == "a" and key == "y") == [("a", "y", ["y", 1])]
        assert tb.foldl(lambda total, owner, key, value: total + value[1], 0) == 6
