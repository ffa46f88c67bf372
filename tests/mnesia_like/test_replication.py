"""The replication core, one rule a test."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.replication.exchange import Confirmed, Send
from gossamer.mnesia_like.replication.own_log import OwnLog
from gossamer.mnesia_like.replication.progress import FollowerProgress
from gossamer.mnesia_like.replication.replica import Replica
from gossamer.mnesia_like.replication.replication import Replication
from gossamer.mnesia_like.replication.wire import Chunk, Delta
from gossamer.mnesia_like.values import encode

from .fakes import DEFINITION, Net, put


def as_delta(encoded: bytes | None) -> Delta:
    assert encoded is not None
    return msgspec.msgpack.decode(encoded, type=Delta)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(0, 5), st.integers(0, 3)),
            st.tuples(st.just("delete"), st.integers(0, 5)),
            st.tuples(st.just("seal")),
        )
    )
)
def test_the_log_replays_to_the_rows(script: list[tuple[Any, ...]]) -> None:
    """Whatever was written, deleted and sealed; and every number returned is one that a delta has."""
    log = OwnLog(DEFINITION)
    expected: dict[int, int] = {}
    for step in script:
        match step:
            case ("write", key, value):
                assert put(log, key, value) == log.last + 1
                expected[key] = value
            case ("delete", key):
                if expected.pop(key, None) is not None:
                    assert log.delete(key, encode(key)) == log.last + 1
            case _:
                log.seal()
        assert log.position >= log.last
    log.seal()
    rows: dict[int, int] = {}
    for number in range(1, log.last + 1):
        delta = as_delta(log.deltas[number])
        rows.update(delta.written)
        for key in delta.deleted:
            rows.pop(key, None)
    assert rows == expected == log.rows


def test_large_writes_split_into_deltas_that_fit_a_frame() -> None:
    """A row has the number of the delta it is in."""
    log = OwnLog(DEFINITION)
    numbers = [put(log, i, b"x" * 100_000) for i in range(5)]
    log.seal()
    assert numbers == [1, 2, 3, 4, 5]
    assert [list(as_delta(log.deltas[n]).written) for n in range(1, 6)] == [[0], [1], [2], [3], [4]]


def test_the_log_is_bounded_and_a_snapshot_pins_it_up_to_a_second_bound() -> None:
    """Trimmed deltas are gone from the front."""
    log = OwnLog(DEFINITION, log_bytes=1000, pinned_log_bytes=3000)
    for i in range(100):
        put(log, i, "x" * 100)
        log.seal()
    assert log.log_size <= 1000
    log.pin(log.last)
    kept = log.last + 1
    for i in range(15):
        put(log, i, "y" * 100)
        log.seal()
    assert log.first == kept
    assert 1000 < log.log_size <= 3000
    for i in range(100):
        put(log, i, "z" * 100)
        log.seal()
    assert log.log_size <= 3000
    log.pin(None)
    assert log.log_size <= 1000


def test_a_stuck_peer_costs_its_window_and_no_more() -> None:
    """However much is written, what was not confirmed stays below the window and one message."""
    log = OwnLog(DEFINITION, log_bytes=50_000)
    progress = FollowerProgress(log, window=10_000)
    progress.follow(0, snapshot=False)
    sent: list[bytes] = []
    for i in range(1000):
        put(log, i, "x" * 1000)
        log.seal()
        sent += progress.pump()
    assert sum(map(len, sent)) <= 11_100
    assert log.log_size <= 50_000
    # It answers at last, and what it needs is no longer in the log.
    progress.ack(len(sent))
    assert progress.acked == progress.sent == len(sent)
    assert len(parts_of(progress)) == 1
    assert progress.base == log.last


def parts_of(progress: FollowerProgress) -> list[Chunk]:
    """All parts of a snapshot that a progress sends now, one part a turn."""
    messages = progress.pump()
    assert len(messages) == 1
    while progress.more:
        some = progress.pump()
        assert len(some) == 1
        messages += some
    return [msgspec.msgpack.decode(m, type=Chunk) for m in messages]


def test_a_snapshot_is_over_once_its_last_part_is_confirmed() -> None:
    log = OwnLog(DEFINITION)
    for i in range(2000):
        put(log, i, "x" * 100)
    progress = FollowerProgress(log, window=1_000_000)
    progress.follow(0, snapshot=True)
    parts = parts_of(progress)
    assert len(parts) > 3
    assert [part.base for part in parts] == [-1] * (len(parts) - 1) + [log.last]
    progress.ack(len(parts) - 1)
    assert (progress.base, progress.acked) == (log.last, 0)
    progress.ack(len(parts))
    assert (progress.base, progress.acked, progress.in_flight) == (None, log.last, 0)
    assert progress.caught_up


def test_rows_that_vanished_between_snapshots_are_removed() -> None:
    """And only what differs is told."""
    replica = Replica(DEFINITION, "b")
    replica.peer_up(1)
    replica.on_head(1)
    replica.on_chunk(Chunk("routes", 1, {"same": 1, "changed": 1, "gone": 1}))
    changes = replica.on_chunk(Chunk("routes", 5, {"same": 1, "changed": True, "new": 1}))
    assert [(c.written, list(c.deleted)) for c in changes] == [
        ({"changed": True, "new": 1}, []),
        ({}, ["gone"]),
    ]
    assert replica.position == 5


def test_deltas_take_effect_in_their_turn_and_once() -> None:
    """One of before this node asked anew is passed over."""
    replica = Replica(DEFINITION, "b")
    replica.peer_up(1)
    assert replica.on_delta(Delta("routes", 3, {"c": 3}, {})) is None
    for number in (1, 2, 3):
        change = replica.on_delta(Delta("routes", number, {number: number}, {}))
        assert change is not None
        assert change.written == {number: number}
        assert replica.on_delta(Delta("routes", number, {number: 0}, {})) is None
    assert replica.rows == {1: 1, 2: 2, 3: 3}


def test_a_snapshot_over_a_slow_link_is_not_begun_anew() -> None:
    """However long its parts take: the link loses nothing, so what is missing is on its way."""
    net = Net(1, ["a"], log_bytes=2000)
    for key in range(3000):
        net.write("a", key, "x" * 100)
    net.flush("a")
    net.latency = 3.0
    net.boot("b")
    net.settle()
    net.check()
    assert net.machines["a"].core.counts["snapshots"] == 1


def test_a_short_absence_is_caught_up_by_deltas_and_a_long_one_by_a_snapshot() -> None:
    """The log decides."""
    net = Net(1, ["a", "b"], log_bytes=2000)
    for i in range(100):
        net.write("a", i, "x" * 100)
    net.flush("a")
    net.advance(5)
    first = net.machines["a"].core.counts["snapshots"]
    for writes, snapshots in ((5, 0), (100, 1)):
        net.partition("a", "b")
        net.advance(1)
        for i in range(writes):
            net.write("a", f"{writes}/{i}", "y" * 100)
            net.flush("a")
        net.heal("a", "b")
        net.advance(5)
        assert net.machines["b"].held() == {"a": net.machines["a"].state.log.rows}
        assert net.machines["a"].core.counts["snapshots"] - first == snapshots


def test_a_table_made_otherwise_is_never_held_for_loaded() -> None:
    """Not for a moment, though each tells the other its newest number again and again."""
    net = Net(1, ["a"])
    net.definition = dataclasses.replace(DEFINITION, type="bag")
    net.boot("b")
    for name in ("a", "b"):
        net.write(name, "k", 1)
        net.flush(name)
    net.advance(1)
    for _ in range(500):
        net.advance(0.51)
        assert all(machine.core.not_loaded("routes") for machine in net.machines.values())
    assert [machine.held() for machine in net.machines.values()] == [{}, {}]
    # Once it is made as there, it is followed.
    net.crash("b")
    net.definition = DEFINITION
    net.boot("b")
    net.settle()
    net.check()


@pytest.mark.parametrize("damage", ["lost", "changed", "added"])
def test_a_replica_that_differs_is_found_by_its_digest_and_repaired(damage: str) -> None:
    """Within a digest interval, whatever went wrong, and it is counted."""
    net = Net(1, ["a", "b"], digest_interval=10.0, slice_rows=10)
    for i in range(100):
        net.write("a", f"k{i}", i)
    net.flush("a")
    net.advance(1)
    rows = net.machines["b"].state.replicas["a"].rows
    match damage:
        case "lost":
            del rows["k5"]
        case "changed":
            rows["k5"] = 6
        case "added":
            rows["k100"] = net.machines["b"].told["a"]["k100"] = 6
    net.advance(25)
    assert rows == net.machines["a"].state.log.rows
    assert net.machines["b"].core.counts["digest_mismatches"] == 1
    net.advance(60)
    assert net.machines["b"].core.counts["digest_mismatches"] == 1


def test_digests_are_of_one_position_though_writes_go_on() -> None:
    """No write during a sweep makes two equal replicas look different."""
    rng = random.Random(5)
    net = Net(1, ["a", "b"], digest_interval=1.0, slice_rows=3)
    a, b = net.machines["a"], net.machines["b"]
    for i in range(50):
        net.write("a", i, i)
    for _ in range(600):
        key = rng.randrange(60)
        if rng.random() < 0.3:
            net.delete("a", key)
        else:
            net.write("a", key, rng.randrange(100))
        net.flush("a")
        net.run(a, a.core.work())
        if rng.random() < 0.5:
            net.run(b, b.core.work())
        for frame_time in (0.005, 0.02):
            net.now += 0.0
            net.advance(frame_time)
    assert b.core.counts["digest_mismatches"] == 0


def test_a_new_creation_is_followed_once_the_rows_of_the_old_are_gone() -> None:
    """Rows go in slices; nothing of the new can fall to them."""
    core = Replication(node="a", creation=1, slice_rows=10)
    state, _ = core.create(DEFINITION, 0.0)
    core.peer_up("b", 1, 1, 0.0)
    replica = state.replicas["b"]
    replica.rows.update({i: i for i in range(25)})
    core.peer_down("b", 1.0)
    actions = core.peer_up("b", 2, 2, 2.0)
    assert not any(b"\xa1f" in a.frame for a in actions if isinstance(a, Send))
    sizes = []
    while core.busy:
        actions = core.work()
        sizes.append(len(replica.rows))
    assert sizes == [15, 5, 0]
    assert any(b"\xa1f" in a.frame for a in actions if isinstance(a, Send))


def test_a_return_after_the_grace_time_moves_only_what_differs() -> None:
    """The rows were laid aside; readers saw them go, and come back."""
    definition = TableDef(name="routes", replication="owned", grace=5.0)
    net = Net(1, ["a", "b"], definition=definition)
    for number in range(500):
        net.write("a", number, number)
    net.flush("a")
    net.advance(1)
    replica = net.machines["b"].state.replicas["a"]
    net.partition("a", "b")
    net.advance(20)
    assert net.machines["b"].held() == {}
    net.write("a", 3, "new")
    net.delete("a", 4)
    net.flush("a")
    applied, snapshots = net.machines["b"].core.counts["applied"], net.machines["a"].core.counts["snapshots"]
    net.heal("a", "b")
    net.advance(3)
    assert net.machines["b"].held() == {"a": {n: n for n in range(500) if n not in (3, 4)} | {3: "new"}}
    assert net.machines["b"].core.counts["applied"] - applied == 1
    assert net.machines["a"].core.counts["snapshots"] == snapshots
    assert not replica.parked_rows
    net.check()


def test_nothing_is_visible_while_the_link_to_a_peer_begins_anew() -> None:
    """The peer publishes meanwhile, and nobody knows which rows came through the old link."""
    net = Net(1, ["a", "b", "c"])
    core = net.machines["a"].core
    net.write("a", "k", 1)
    net.flush("a")
    net.advance(1)
    table = net.definition.name
    assert core.visible(table) == 1
    core.peer_down("b", net.now, renewing=True)
    assert (core.visible(table), core.behind(table, 1)) == (0, ["b"])
    assert Confirmed(table) in core.peer_down("b", net.now)
    assert (core.visible(table), core.behind(table, 1)) == (1, [])
    core.peer_down("c", net.now, renewing=True)
    assert core.visible(table) == 0
    net.renew("a", "c")
    net.advance(3)
    assert (core.visible(table), sorted(core.connected())) == (1, ["c"])


def test_what_was_laid_aside_goes_with_a_peer_that_left_or_began_anew() -> None:
    definition = TableDef(name="routes", replication="owned", grace=5.0)
    core = Replication(node="a", creation=1, slice_rows=10)
    state, _ = core.create(definition, 0.0)
    core.peer_up("b", 1, 1, 0.0)
    replica = state.replicas["b"]
    for ending in ("left", "anew"):
        replica.rows.update({i: i for i in range(25)})
        core.peer_down("b", 1.0)
        core.tick(10.0)
        while core.busy:
            core.work()
        assert (len(replica.parked_rows), len(replica.rows)) == (25, 0)
        if ending == "left":
            core.peer_down("b", 11.0, left=True)
        else:
            core.peer_up("b", 3, 3, 12.0)
        assert not replica.parked_rows
        core.peer_up("b", 2, 2, 12.0)


def test_a_split_while_rows_are_put_back_loses_none() -> None:
    definition = TableDef(name="routes", replication="owned", grace=5.0)
    core = Replication(node="a", creation=1, slice_rows=10)
    state, _ = core.create(definition, 0.0)
    core.peer_up("b", 1, 1, 0.0)
    replica = state.replicas["b"]
    replica.rows.update({i: i for i in range(25)})
    for at in (10.0, 30.0):
        core.peer_down("b", at)
        core.tick(at + 6.0)
        for _ in range(3):
            core.work()
        core.peer_up("b", 1, 1, at + 7.0)
        core.work()
    while core.busy:
        actions = core.work()
    assert replica.rows == {i: i for i in range(25)}
    assert any(b"\xa1f" in a.frame for a in actions if isinstance(a, Send)), "followed only then"
