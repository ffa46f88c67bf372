"""The schema is a table: what one node decides of tables all nodes do, whatever splits and restarts come."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gossamer.mnesia_like import (
    BadTableError,
    CopyAdded,
    CopyDropped,
    Disc,
    NoSuchTableError,
    NotInSchemaError,
    SchemaConflict,
    SchemaWriteError,
    Store,
    SystemEvent,
    TableCreated,
    TableDeleted,
    TableExistsError,
    TablesNotLoadedError,
    Transaction,
)

from .hub import Host, Hub, host, until

FAST: dict[str, Any] = {"tick": 0.02}


def rows(node: Host, name: str) -> dict[Any, Any]:
    return dict(node.store.table(name).rows()) if name in node.store.tables() else {}  # type: ignore[arg-type]


def has(name: str, *nodes: Host) -> Callable[[], bool]:
    return lambda: all(name in node.store.tables() for node in nodes)


def lacks(name: str, *nodes: Host) -> Callable[[], bool]:
    return lambda: all(name not in node.store.tables() for node in nodes)


async def test_a_table_for_all_is_made_everywhere_and_where_nodes_join_later() -> None:
    """And deleted everywhere; both are told."""
    hub = Hub()
    async with host("a", hub, **FAST) as a, host("b", hub, **FAST) as b:
        told: list[SystemEvent] = []
        b.store.subscribe(told.append)
        table = await a.store.create_table("t", replication="shared", nodes="all")
        assert b.store.tables() == ["t"]
        table.write("k", 1)
        async with host("c", hub, **FAST) as c:
            await until(lambda: rows(c, "t") == {"k": 1})
            assert a.store.table_info("t")["copies"] == ["a", "b", "c"]
            assert await c.store.delete_table("t")
            assert [h.store.tables() for h in (a, b, c)] == [[], [], []]
        named = [e for e in told if isinstance(e, TableCreated | TableDeleted)]
        assert named == [TableCreated("t"), TableDeleted("t")]
        assert [e.node for e in told if isinstance(e, CopyAdded) and e.table == "t"].count("b") == 1
        assert CopyDropped("t", "b") in told


async def test_copies_come_and_go_by_name_of_the_node() -> None:
    """A table made for some nodes; one more gets a copy, one loses it; the table goes with its last copy."""
    hub = Hub()
    async with host("a", hub, **FAST) as a, host("b", hub, **FAST) as b, host("c", hub, **FAST) as c:
        table = await a.store.create_table("t", replication="owned", nodes=["a", "b"])
        table.write("k", 1)
        assert lacks("t", c)()
        assert await b.store.add_table_copy("t", "c")
        await until(lambda: c.store.dump("t") == [("a", "k", 1)])
        assert await c.store.del_table_copy("t", "b")
        assert lacks("t", b)()
        assert await c.store.del_table_copy("t")
        await until(lambda: a.store.table_info("t")["copies"] == ["a"])
        assert await b.store.del_table_copy("t", "a")
        await until(lambda: lacks("t", a)() and not b.store.table("schema").rows().get("t"))  # type: ignore[union-attr]


async def test_what_is_decided_in_a_split_holds_after_it() -> None:
    """A table made, one deleted, a copy added: each on one side only, and of rows no deleted one is back."""
    hub = Hub()
    async with host("a", hub, **FAST) as a, host("b", hub, **FAST) as b:
        old = await a.store.create_table("old", replication="shared", nodes=["a", "b"])
        await a.store.create_table("mine", replication="shared", nodes=["a"])
        old.write("k", 1)
        await until(lambda: rows(b, "old") == {"k": 1})
        hub.partition("a", "b")
        await until(lambda: not a.store.replication.peers() and not b.store.replication.peers())
        assert await a.store.delete_table("old")
        assert not await a.store.add_table_copy("mine", "b", timeout=0.01)
        made = await a.store.create_table("made", replication="owned", nodes="all", timeout=0.01)
        made.write("k", 2)
        other = await b.store.create_table("theirs", replication="shared", nodes="all", timeout=0.01)
        other.write("k", 3)
        assert rows(b, "old") == {"k": 1}
        hub.heal("a", "b")
        await until(lacks("old", a, b))
        await until(has("mine", a, b))
        await until(lambda: has("made", b)() and b.store.dump("made") == [("a", "k", 2)])
        await until(lambda: rows(a, "theirs") == {"k": 3})


async def test_a_table_made_again_does_not_get_the_rows_of_its_predecessor() -> None:
    """A node that slept through the deletion and the making begins anew."""
    hub = Hub()
    async with host("a", hub, **FAST) as a, host("b", hub, **FAST) as b:
        table = await a.store.create_table("t", replication="shared", nodes="all")
        table.write("old", 1)
        await until(lambda: rows(b, "t") == {"old": 1})
        hub.partition("a", "b")
        await until(lambda: not a.store.replication.peers() and not b.store.replication.peers())
        await a.store.delete_table("t")
        table = await a.store.create_table("t", replication="shared", nodes="all", timeout=0.01)
        table.write("new", 2)
        hub.heal("a", "b")
        await until(lambda: rows(b, "t") == {"new": 2})
        assert rows(a, "t") == {"new": 2}


async def test_tables_made_alike_on_both_sides_merge() -> None:
    """One id wins; rows of both are there."""
    hub = Hub()
    async with host("a", hub, **FAST) as a, host("b", hub, **FAST) as b:
        hub.partition("a", "b")
        for node, value in ((a, 1), (b, 2)):
            table = await node.store.create_table("t", replication="shared", nodes="all", timeout=0.01)
            table.write(node.store.node, value)
        hub.heal("a", "b")
        await until(lambda: rows(a, "t") == rows(b, "t") == {"a": 1, "b": 2})
        await a.store.wait_for_tables(["t"], peers=["b"], timeout=5.0)


async def test_tables_made_otherwise_stay_apart_until_one_gives_way() -> None:
    """The differences are named, in the event, in the diagnosis and to whoever makes it a third way."""
    hub = Hub()
    async with host("a", hub, **FAST) as a, host("b", hub, **FAST) as b:
        hub.partition("a", "b")
        ta = await a.store.create_table("t", replication="shared", nodes="all", timeout=0.01)
        ta.write("k", "a")
        tb = await b.store.create_table("t", replication="shared", majority=True, nodes="all", timeout=0.01)
        tb.write("k", "b")
        told: list[SystemEvent] = []
        a.store.subscribe(told.append)
        b.store.subscribe(told.append)
        hub.heal("a", "b")
        await until(lambda: any(isinstance(e, SchemaConflict) for e in told))
        (conflict,) = [e for e in told if isinstance(e, SchemaConflict)]
        # The later one is the schema's.
        loser, winner = (a, b) if ta.definition.id < tb.definition.id else (b, a)
        assert loser is a
        assert conflict.differences == ("majority is False here and True there",)
        assert rows(a, "t") == {"k": "a"}
        assert rows(b, "t") == {"k": "b"}
        # The schema told of it; the tables' own words cross a moment later.
        await until(lambda: a.store.replication.not_loaded("t"))
        with pytest.raises(TablesNotLoadedError, match="majority"):
            await a.store.wait_for_tables(["t"], timeout=0.1)
        with pytest.raises(TableExistsError):
            await winner.store.create_table("t", replication="owned", nodes="all")
        await a.store.del_table_copy("t")
        await until(lambda: rows(a, "t") == {"k": "b"})
        await a.store.wait_for_tables(["t"], peers=["b"], timeout=5.0)


async def test_the_schema_comes_back_from_disc_and_tables_with_it(tmp_path: Path) -> None:
    """Without anybody creating them; what was deleted meanwhile goes, from the disc as well."""
    hub = Hub()
    disc = Disc(tmp_path / "tables.db")
    options: dict[str, Any] = {"replication": "shared", "storage": "disc_copies", "nodes": "all"}
    async with host("b", hub, **FAST) as b:
        async with host("a", hub, disc=disc, **FAST) as a:
            for name in ("kept", "dropped"):
                table = await a.store.create_table(name, **options)
                table.write("k", name)
                await table.durable()
            await until(lambda: rows(b, "dropped") == {"k": "dropped"})
            hub.part("a", left=False)
        await b.store.delete_table("dropped", timeout=0.01)
        async with host("a", disc=disc, **FAST) as a:
            await until(has("kept", a))
            assert rows(a, "kept") == {"k": "kept"}
            assert rows(a, "dropped") == {"k": "dropped"}
        async with host("a", hub, disc=disc, **FAST) as a:
            await until(lambda: a.store.tables() == ["kept"])
            await until(lambda: rows(a, "kept") == rows(b, "kept") == {"k": "kept"})
    async with host("a", disc=disc) as a:
        assert a.store.tables() == ["kept"]


async def test_a_table_on_disc_of_another_shape_is_not_read_as_this_one(tmp_path: Path) -> None:
    """Both shapes are named, and the rows stay."""
    disc = Disc(tmp_path / "tables.db")
    async with host("a", disc=disc) as a:
        table = await a.store.create_table("t", storage="disc_copies")
        table.write("k", 1)
        await table.durable()
    async with host("a", disc=disc) as a:
        with pytest.raises(TableExistsError, match="local set on disc, asked for local bag"):
            await a.store.create_table("t", storage="disc_copies", type="bag")
        table = await a.store.create_table("t", storage="disc_copies")
        assert table.rows() == {"k": 1}


async def test_a_table_that_each_node_makes_is_not_the_schemas() -> None:
    """It cannot be deleted for all; it enters the schema, rows and all, when somebody makes it for all."""
    hub = Hub()
    async with host("a", hub, **FAST) as a, host("b", hub, **FAST) as b:
        ta, tb = [await h.store.create_table("t", replication="owned") for h in (a, b)]
        ta.write("k", 1)
        await until(lambda: tb.read("k") == {"a": 1})
        with pytest.raises(NotInSchemaError, match="del_table_copy there"):
            await a.store.delete_table("t")
        with pytest.raises(NotInSchemaError):
            await a.store.del_table_copy("t", "b")
        assert await a.store.create_table("t", replication="owned", nodes="all") is ta
        await until(lambda: bool(tb.definition.id))
        tb.write("k", 2)
        await until(lambda: ta.read("k") == {"a": 1, "b": 2})
        assert await b.store.delete_table("t")
        assert lacks("t", a, b)()


async def test_loading_can_be_forced() -> None:
    """A peer is up and does not answer: the user says that what is here will do."""
    hub = Hub()
    async with host("a", hub) as a:
        hub.join("mute")
        table = await a.store.create_table("t", replication="shared")
        await until(lambda: a.store.replication.peers())
        with pytest.raises(TablesNotLoadedError, match="mute is up and has not answered"):
            await a.store.wait_for_tables(["t"], timeout=0.05)
        a.store.force_load_table("t")
        await a.store.wait_for_tables(["t"], timeout=0.05)

        async def write(tx: Transaction) -> None:
            await tx.write("t", "k", 1)

        await a.store.transaction(write, timeout=5.0)
        assert table.read("k") == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"nodes": ["b"]}, "this node"),
        ({"nodes": "some"}, "'all'"),
        ({"nodes": "all", "replication": "local"}, "nodes"),
        ({"name": "schema"}, "another"),
    ],
)
async def test_a_table_cannot_be_made_so(options: dict[str, Any], problem: str) -> None:
    """The option is named, and nothing is made."""
    store = Store(node="a", creation=1)
    with pytest.raises(BadTableError, match=problem):
        await store.create_table(**({"name": "t", "replication": "owned"} | options))
    assert store.tables() == []
    assert store.table("schema").rows() == {}


async def test_only_the_store_writes_the_schema() -> None:
    """By hand or in a transaction; unknown tables are named."""
    store = Store(node="a", creation=1)
    schema: Any = store.table("schema")

    async def write(tx: Transaction) -> None:
        await tx.write("schema", "t", {})

    with pytest.raises(SchemaWriteError, match="create_table"):
        schema.write("t", {})
    with pytest.raises(SchemaWriteError):
        await store.transaction(write)
    for order in (
        store.delete_table("u"),
        store.add_table_copy("u", "b"),
        store.del_table_copy("u", "b"),
        store.set_master_nodes("u", ["b"]),
    ):
        with pytest.raises(NoSuchTableError, match="no table 'u'"):
            await order
    with pytest.raises(NoSuchTableError):
        store.force_load_table("u")


async def test_a_node_with_masters_starts_with_their_rows(tmp_path: Path) -> None:
    """Its own are read until a master has answered; then what the master does not have is forgotten."""
    hub = Hub()
    disc = Disc(tmp_path / "tables.db")
    options: dict[str, Any] = {"replication": "shared", "storage": "disc_copies"}
    async with host("a", disc=disc, **FAST) as a:
        table = await a.store.create_table("t", **options)
        for key in ("both", "mine"):
            table.write(key, "a")
        await a.store.set_master_nodes("t", ["b"])
        await table.durable()
    async with host("b", hub, **FAST) as b:
        b.store.hlc.tick(1.0)
        master = await b.store.create_table("t", replication="shared")
        for key in ("both", "theirs"):
            master.core.install("b", (1 << 16, "b"), {key: ["b"]}, 0.0)
        await until(lambda: master.core.tick(1e9) == [] and len(master.core.held) == 2)
        async with host("a", hub, disc=disc, **FAST) as a:
            events: list[Any] = []
            table = await a.store.create_table("t", **options)
            table.subscribe(events.extend)
            assert dict(table.rows())["mine"] == "a"
            await a.store.wait_for_tables(["t"], peers=["b"], timeout=5.0)
            await until(lambda: dict(table.rows()) == {"both": "b", "theirs": "b"})
            assert ("delete", "a", "mine", None) in events
            assert dict(master.rows()) == {"both": "b", "theirs": "b"}
            await table.durable()
    async with host("a", disc=disc, **FAST) as a:
        table = await a.store.create_table("t", **options)
        assert dict(table.rows()) == {"both": "b", "theirs": "b"}
        with pytest.raises(TablesNotLoadedError, match="master nodes"):
            await a.store.wait_for_tables(["t"], timeout=0.05)
        a.store.force_load_table("t")
        await a.store.wait_for_tables(["t"], timeout=0.05)
