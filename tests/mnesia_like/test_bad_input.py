"""Bad input: a clear error, and nothing changed."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.mnesia_like import (
    BadFrameError,
    BadKeyError,
    BadValueError,
    LocalTable,
    NoSuchTableError,
    NotOwnerError,
    OwnedTable,
    SharedTable,
    Store,
    Transaction,
)
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.exchange.transaction_wire import (
    Commit,
    Died,
    End,
    Granted,
    Know,
    Lock,
    Prepare,
    Query,
    Stage,
    Vote,
)
from gossamer.mnesia_like.exchange.wire import (
    Ack,
    Chunk,
    Delta,
    Digest,
    Follow,
    Head,
    Mark,
    Members,
    Refused,
    Roster,
    Seen,
    decode_frame,
    encode_frames,
)
from gossamer.mnesia_like.replicate.replication import Replication
from gossamer.testing import SimNetwork, seeds

from .hub import Hub, host

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
            with pytest.raises(BadKeyError, match="expected"):
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
        with pytest.raises(BadValueError, match="expected"):
            table.write("k", value)
    assert local.read("k") == shared.read("k") == "old"
    assert shared.core.versions.keys() == {"k"}
    assert owned.read("k") == {"a": "old"}
    assert owned.write("k", "old") == number


async def test_the_place_inside_a_value_is_named() -> None:
    """A path, as one would write it."""
    local, _ = await both()
    with pytest.raises(BadValueError, match=r"value\['a'\]\[1\] for table 'l': got set"):
        local.write("k", {"a": [1, {2}]})


async def test_rows_of_another_owner_cannot_be_changed() -> None:
    """The error says where to send the change."""
    _, owned = await both()
    owned.write("k", 1, owner="a")
    for attempt in (lambda: owned.write("k", 2, owner="b"), lambda: owned.delete("k", owner="b")):
        with pytest.raises(NotOwnerError, match="a process on 'b'"):
            attempt()
    assert owned.read("k") == {"a": 1}


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
    return replication


def frame(*messages: Any, mine: int = 3, theirs: int = 7) -> bytes:
    (payload,) = encode_frames(mine, theirs, [msgspec.msgpack.encode(m) for m in messages])
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
        Chunk("t", 1, 1, 0, {key: 1}),
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
    replication.tables["t"].log.write("mine", 1)
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

    error = {"key": BadKeyError, "table": NoSuchTableError}.get(bad, BadValueError)
    with pytest.raises(error):
        await store.transaction(work)
    assert (len(local), len(shared)) == (0, 0)
    assert store.system_info()["transactions"]["locks"] == []


numbers = st.integers(-3, 5) | st.sampled_from([2**62, -(2**62)])
names = st.sampled_from(["o", "s", "u"])
rows = st.dictionaries(
    st.integers(0, 2) | st.text(max_size=1),
    st.recursive(
        st.none() | st.integers(-1, 9) | st.text(max_size=2) | st.booleans(),
        lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(max_size=1), part, max_size=2),
        max_leaves=6,
    ),
    max_size=3,
)
flags = st.booleans()
bodies = st.one_of(
    st.builds(Lock, numbers, numbers, numbers, names, st.dictionaries(st.integers(0, 1), st.none()), flags),
    st.builds(Granted, numbers, numbers, st.lists(numbers | names, max_size=3)),
    st.builds(Died, numbers),
    st.builds(
        Stage,
        numbers,
        names,
        st.dictionaries(st.integers(0, 1), st.lists(numbers, max_size=2)),
        st.dictionaries(st.integers(0, 1), st.lists(numbers | names, max_size=3)),
    ),
    st.builds(Prepare, numbers, numbers, st.lists(st.sampled_from(["a", "b", "c"]), max_size=3)),
    st.builds(Vote, numbers, names, flags),
    st.builds(Commit, numbers, numbers),
    st.builds(End, numbers),
    st.builds(Query, st.sampled_from(["a", "b", "c"]), numbers),
    st.builds(
        Know, st.sampled_from(["a", "b", "c"]), numbers, st.sampled_from(["prepared", "committed", "x"])
    ),
)
messages = st.one_of(
    st.builds(Roster, st.lists(names, max_size=3)),
    st.builds(
        Follow,
        names,
        st.sampled_from(["owned set", "shared set, tombstones for 86400 s", "x"]),
        numbers,
        flags,
    ),
    st.builds(Refused, names, names),
    st.builds(Head, names, numbers),
    st.builds(Delta, names, numbers, rows, st.dictionaries(st.integers(0, 2), st.none(), max_size=2)),
    st.builds(Chunk, names, numbers, numbers, numbers, rows),
    st.builds(Ack, names, numbers, numbers, numbers),
    st.builds(Mark, names, numbers),
    st.builds(Digest, names, numbers, numbers, numbers),
    st.builds(Seen, names, numbers, numbers),
    st.builds(Members, names, st.lists(numbers | names | st.lists(names, max_size=2), max_size=6)),
    bodies,
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
    shared.add_index(0)
    store.perform(store.replication.peer_up("b", 3, 3, 0.0))
    now = 0.0
    for batch in script:
        now += 1.0
        # Sessions as the other end would have them, so that some envelopes are opened.
        store.perform(store.replication.receive("b", frame(*batch), now))
        store.perform(store.replication.flush(now))
        store.perform(store.replication.tick(now))
        while store.replication.busy:
            store.perform(store.replication.work(now))
        store.housekeeping()
        shared.first()
    assert owned.rows_of("a") == {"mine": 1}
    assert owned.write("more", 2) > 0


@seeds(1)
async def test_a_clock_that_is_set_back_an_hour_loses_nothing(sim: SimNetwork) -> None:
    """Writes, deletions and transactions after it count as later ones, here and at peers, and end in time."""
    hub = Hub()
    one, two = sim.host("1").clock, sim.host("2").clock
    async with host("a", hub, clock=one) as a, host("b", hub, clock=two) as b:
        ta, tb = [await h.store.create_table("s", replication="shared") for h in (a, b)]
        oa, ob = [await h.store.create_table("o", replication="owned") for h in (a, b)]
        await a.store.wait_for_tables(peers=["b"])
        for key in ("write", "delete", "transaction"):
            ta.write(key, "before")
        oa.write("k", "before")
        await asyncio.sleep(1.0)
        one.jump(-3600.0)

        async def work(tx: Transaction) -> None:
            await tx.write("s", "transaction", "after")

        ta.write("write", "after")
        ta.delete("delete")
        await a.store.transaction(work)
        assert await oa.visible(oa.write("k", "after"))
        await asyncio.sleep(1.0)
        expected = {"write": "after", "transaction": "after"}
        assert dict(ta.rows()) == dict(tb.rows()) == expected
        assert ob.read("k") == {"a": "after"}
        await asyncio.sleep(60.0)
        assert (ta.core.tombstones, tb.core.tombstones) == (0, 0)
        ta.write("delete", "anew")
        tb.write("write", "by b")
        await asyncio.sleep(1.0)
        assert dict(ta.rows()) == dict(tb.rows()) == expected | {"delete": "anew", "write": "by b"}
