"""Match, select and order say what a scan of the rows would."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.mnesia_like import ANY, LocalTable, TableDef
from gossamer.mnesia_like.errors import BadTableError
from gossamer.mnesia_like.table.queries import rank
from gossamer.mnesia_like.table.table import TableOwner

from .hub import Hub, host

keys = st.recursive(
    st.integers(-5, 5) | st.text(max_size=2) | st.binary(max_size=2),
    lambda part: st.lists(part, max_size=2).map(tuple),
    max_leaves=3,
)


@given(st.lists(st.tuples(st.booleans(), keys, st.integers(0, 3))), keys, keys)
def test_order_is_that_of_sorting(script: list[tuple[bool, Any, int]], low: Any, high: Any) -> None:
    """After any writes and deletions, for keys of mixed types, present or not."""
    table = LocalTable(TableDef(name="t", type="ordered_set"), TableOwner("a"))
    for written, key, value in script:
        if written:
            table.write(key, value)
        else:
            table.delete(key)
        table.first()
    expected = sorted(table.rows(), key=rank)
    assert [key for key, _ in table.match()] == expected
    assert (table.first(), table.last()) == ((expected[0], expected[-1]) if expected else (None, None))
    later = [k for k in expected if rank(k) > rank(low)]
    earlier = [k for k in expected if rank(k) < rank(low)]
    assert table.next(low) == (later[0] if later else None)
    assert table.prev(low) == (earlier[-1] if earlier else None)
    assert [k for k, _ in table.range(low, high)] == [
        k for k in expected if rank(low) <= rank(k) < rank(high)
    ]


def test_match_compares_by_shape() -> None:
    """ANY stands for whatever; of a dict only the named fields count; types matter."""
    table = LocalTable(TableDef(name="t"), TableOwner("a"))
    table.write(("room", 1), {"name": "hall", "at": [1, 2], "lit": True})
    table.write(("room", 2), {"name": "attic", "at": [1, 3]})
    table.write("other", 5)
    assert [k for k, _ in table.match(("room", ANY))] == [("room", 1), ("room", 2)]
    assert [k for k, _ in table.match(value={"at": [1, 3]})] == [("room", 2)]
    assert [k for k, _ in table.match(value={"at": [1, ANY]}, limit=1)] == [("room", 1)]
    assert table.match(value={"lit": 1}) == []
    assert table.select(lambda key, value: value == 5) == [("other", 5)]


def test_order_has_to_be_asked_for() -> None:
    table = LocalTable(TableDef(name="t"), TableOwner("a"))
    with pytest.raises(BadTableError, match="expected ordered_set"):
        table.first()


async def test_shared_tables_keep_order_too() -> None:
    """Of rows that others wrote."""
    hub = Hub()
    async with host("a", hub) as a, host("b", hub) as b:
        ta, tb = [await h.store.create_table("t", replication="shared", type="ordered_set") for h in (a, b)]
        for key in (3, 1, 2):
            ta.write(key, 1)
        ta.delete(3)
        await ta.visible(ta.write(9, 1))
        assert [tb.first(), tb.next(1), tb.last()] == [1, 2, 9]
