"""Bad input: a clear error, and nothing changed."""

from __future__ import annotations

import contextlib
import datetime
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.mnesia_like import LocalTable, OwnedTable, SharedTable, Store, Transaction
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.errors import (
    BadFrameError,
    BadRowError,
    NoSuchTableError,
)
from gossamer.mnesia_like.replication.replication import Replication
from gossamer.mnesia_like.replication.wire import (
    Chunk,
    Delta,
    Head,
    Message,
    Relayed,
    decode_frame,
    encode_creations,
    encode_frames,
)

from .fakes import put

BAD_KEYS: list[Any] = [
    None,
    True,
    1.5,
    ["list"],
    {"a": 1},
    ("ok", 1.5),
    "\ud800",
    2**64,
    "x" * 65_601,
    object(),
]
DEEP: Any = []
for _ in range(40):
    DEEP = [DEEP]
BAD_VALUES: list[Any] = [
    {1, 2},
    object(),
    datetime.datetime.now(tz=datetime.UTC),
    {"k": {1.5: 1}},
    [1, [object()]],
    "\ud800",
    2**64,
    b"x" * 131_073,
    DEEP,
    bytearray(b"x"),
]


async def both() -> tuple[LocalTable, OwnedTable]:
    store = Store(node="a", creation=1)
    return await store.create_table("l"), await store.create_table("o", replication="owned")


async def every() -> tuple[LocalTable, OwnedTable, SharedTable]:
    local, owned = await both()
    return local, owned, await Store(node="a", creation=1).create_table("s", replication="shared")


@pytest.mark.parametrize("key", BAD_KEYS, ids=lambda k: type(k).__name__)
async def test_a_bad_key_is_refused(key: Any) -> None:
    """By write and delete, of every kind of table."""
    for table in await every():
        events: list[Any] = []
        table.subscribe(events.extend)
        for attempt in (lambda t=table: t.write(key, 1), lambda t=table: t.delete(key)):
            with pytest.raises(BadRowError, match="expected"):
                attempt()
        assert len(table) == 0
        assert events == []


@pytest.mark.parametrize("value", BAD_VALUES, ids=lambda v: type(v).__name__)
async def test_a_bad_value_is_refused_and_the_old_one_stays(value: Any) -> None:
    """The error says where in the value the trouble is."""
    local, owned, shared = await every()
    local.write("k", "old")
    number = owned.write("k", "old")
    shared.write("k", "old")
    for table in (local, owned, shared):
        with pytest.raises(BadRowError, match="expected"):
            table.write("k", value)
    assert local.read("k") == shared.read("k") == "old"
    assert shared.core.versions.keys() == {"k"}
    assert owned.read("k") == {"a": "old"}
    assert owned.write("k", "old") == number


async def test_the_place_inside_a_value_is_named() -> None:
    """A path, as one would write it."""
    local, _ = await both()
    with pytest.raises(BadRowError, match=r"value\['a'\]\[1\] for table 'l': got set"):
        local.write("k", {"a": [1, {2}]})


async def test_values_are_copied_on_the_way_in() -> None:
    """A caller that changes its list afterwards does not change the row."""
    local, owned = await both()
    value = {"a": [1, (2, 3)]}
    local.write("k", value)
    owned.write("k", value)
    value["a"].append(9)
    assert local.read("k") == {"a": [1, [2, 3]]}
    assert owned.read("k") == {"a": {"a": [1, [2, 3]]}}


@given(st.binary(max_size=200))
def test_no_bytes_make_the_decoder_raise_anything_else(payload: bytes) -> None:
    """Whatever a peer sends, BadFrameError is all that leaves."""
    with contextlib.suppress(BadFrameError):
        decode_frame("b", payload)


def core() -> Replication:
    replication = Replication(node="a", creation=7)
    replication.create(TableDef(name="t", replication="owned"), 0.0)
    replication.peer_up("b", 3, 3, 0.0)
    replication.receive("b", frame(Head("t", 0)), 0.0)
    return replication


def frame(*messages: Any, mine: int = 3, theirs: int = 7) -> bytes:
    (payload,) = encode_frames(encode_creations(mine, theirs), [msgspec.msgpack.encode(m) for m in messages])
    return payload


def test_a_frame_too_large_is_refused() -> None:
    """Before it is decoded."""
    with pytest.raises(BadFrameError, match="at most 262144"):
        core().receive("b", bytes(262_145), 0.0)


@pytest.mark.parametrize("key", [None, 1.5, True, (1, 1.5), ("k", (None,))])
def test_a_key_that_no_table_can_have_is_refused(key: Any) -> None:
    """In deltas, deletions and snapshots; nothing of the frame takes effect."""
    for bad in (
        Delta("t", 2, {key: 1}, {}),
        Delta("t", 2, {}, {key: None}),
        Chunk("t", 0, {key: 1}),
        Relayed("t", "c", 1, Delta("t", 2, {key: 1}, {})),
        Relayed("t", "c", 1, Delta("t", 2, {}, {key: None})),
    ):
        replication = core()
        with pytest.raises(BadFrameError, match="a key that is not"):
            replication.receive("b", frame(Delta("t", 1, {"good": 1}, {}), bad), 0.0)
        assert replication.tables["t"].replicas["b"].rows == {}
        assert replication.counts["bad_frames"] == 1


def test_frames_of_and_for_old_creations_are_fenced() -> None:
    """A peer's old incarnation cannot write, and what was meant for ours does not count."""
    replication = core()
    delta = Delta("t", 1, {"k": 1}, {})
    replication.receive("b", frame(delta, mine=2), 0.0)
    replication.receive("b", frame(delta, theirs=6), 0.0)
    assert replication.tables["t"].replicas["b"].rows == {}
    assert replication.counts["fenced"] == 2
    replication.receive("b", frame(delta), 0.0)
    assert replication.tables["t"].replicas["b"].rows == {"k": 1}


def test_a_peer_cannot_reach_tables_or_rows_that_are_not_its_own() -> None:
    """Unknown tables are ignored and counted; of a frame's rows the sender is the owner, whatever it says."""
    replication = core()
    put(replication.tables["t"].log, "mine", 1)
    replication.receive("b", frame(Delta("unknown", 1, {"k": 1}, {})), 0.0)
    replication.receive("nobody", frame(Delta("t", 1, {"k": 1}, {})), 0.0)
    replication.receive("b", frame(Delta("t", 1, {"mine": 2}, {})), 0.0)
    assert replication.tables["t"].log.rows == {"mine": 1}
    assert replication.tables["t"].replicas["b"].rows == {"mine": 2}
    assert replication.counts["stray"] == 2


@pytest.mark.parametrize("bad", ["key", "value", "table", "size"])
async def test_what_a_transaction_cannot_write_undoes_it(bad: str) -> None:
    """The same errors; what it wrote before is not there, its locks are free."""
    store = Store(node="a", creation=1)
    local = await store.create_table("l")
    shared = await store.create_table("s", replication="shared")

    async def work(tx: Transaction) -> None:
        for table in ("l", "s"):
            await tx.write(table, "k", 1)
        if bad == "key":
            await tx.write("l", 1.5, 1)
        elif bad == "value":
            await tx.write("s", "k", object())
        elif bad == "table":
            await tx.write("unknown", "k", 1)
        else:
            await tx.write("s", "k", b"x" * 131_073)

    error = {"key": BadRowError, "table": NoSuchTableError}.get(bad, BadRowError)
    with pytest.raises(error):
        await store.transaction(work)
    assert (len(local), len(shared)) == (0, 0)
    assert store.replication.transactions.locks.owners() == []


numbers = st.integers(-3, 5) | st.sampled_from([2**62, -(2**62)])
names = st.sampled_from(["o", "s", "u", "a", "b", "c"])
keys = st.integers(0, 2)
leaves = st.none() | st.integers(-1, 9) | st.text(max_size=2) | st.booleans()
values = st.recursive(
    leaves,
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(max_size=1), part, max_size=2),
    max_leaves=6,
)
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    int: numbers,
    bool: st.booleans(),
    str: names,
    list[str]: st.lists(names, max_size=3),
    list[Any]: st.lists(numbers | names | st.lists(names, max_size=2), max_size=6),
    dict[Any, Any]: st.dictionaries(keys | st.text(max_size=1), values, max_size=3),
    dict[Any, None]: st.dictionaries(keys, st.none(), max_size=2),
    dict[Any, list[Any]]: st.dictionaries(keys, st.lists(numbers | names, max_size=3)),
}
BY_TYPE[Delta] = st.builds(Delta, names, numbers, BY_TYPE[dict[Any, Any]], BY_TYPE[dict[Any, None]])
BY_NAME = {
    "table": st.sampled_from(["o", "s", "u"]),
    "fingerprint": st.sampled_from(["owned set", "shared set, tombstones for 86400 s", "x"]),
    "state": st.sampled_from(["prepared", "committed", "x"]),
}
messages = st.one_of(
    [
        st.builds(
            kind, **{f.name: BY_NAME.get(f.name, BY_TYPE[f.type]) for f in msgspec.structs.fields(kind)}
        )
        for kind in get_args(Message)
    ]
)


@settings(max_examples=150, deadline=None)
@given(script=st.lists(st.lists(messages, min_size=1, max_size=4), max_size=12))
async def test_no_messages_of_a_peer_harm_a_store(script: list[list[Any]]) -> None:
    """However wrong and in whatever order: no exception, and this node's own rows stay as they are."""
    store = Store(node="a", creation=7)
    owned = await store.create_table("o", replication="owned")
    shared = await store.create_table("s", replication="shared", type="ordered_set")
    owned.write("mine", 1)
    shared.write("mine", 1)
    store.perform(store.replication.peer_up("b", 3, 3, 0.0))
    # One that is gone, and of which the peer may have more.
    store.perform(store.replication.peer_up("c", 3, 3, 0.0))
    store.perform(store.replication.receive("c", frame(Head("s", 1), Chunk("s", 1, {})), 0.0))
    store.perform(store.replication.peer_down("c", 0.0))
    now = 0.0
    for batch in script:
        now += 1.0
        # Sessions as the other end would have them, so that some envelopes are opened.
        store.perform(store.replication.receive("b", frame(*batch), now))
        store.perform(store.replication.flush())
        store.perform(store.replication.tick(now))
        while store.replication.busy:
            store.perform(store.replication.work())
        store.housekeeping()
        shared.first()
    assert owned.rows_of("a") == {"mine": 1}
    assert owned.write("more", 2) > 0
