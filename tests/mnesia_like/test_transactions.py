"""Transactions: wholly or not at all, as if one after the other, without deadlock, and they end."""

from __future__ import annotations

import asyncio
import contextlib
import random
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.mnesia_like import Store, Transaction
from gossamer.mnesia_like.errors import (
    TransactionAbortedError,
    TransactionInDoubtError,
    TransactionOverError,
    TransactionTimeoutError,
)
from gossamer.mnesia_like.transaction.locks import WHOLE, LockManager, LockOwner
from gossamer.testing import SimNetwork, seeds

from .hub import Host, Hub, host, until

until_virtual = partial(until, seconds=600.0, pause=0.001)
"""Lets virtual time pass."""

# -- locks


@settings(max_examples=150, deadline=None)
@given(
    script=st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(["x", "y", WHOLE]), st.booleans(), st.booleans()),
        max_size=40,
    )
)
def test_locks_exclude_and_waiting_only_points_to_the_younger(
    script: list[tuple[int, Any, bool, bool]],
) -> None:
    """Whatever is asked for: no two hold what clashes, who waits is older, and the oldest never dies."""
    locks = LockManager()
    held: dict[LockOwner, set[tuple[Any, bool]]] = {}
    waits: dict[LockOwner, tuple[Any, bool]] = {}

    def clash(one: tuple[Any, bool], two: tuple[Any, bool]) -> bool:
        return (one[1] or two[1]) and (WHOLE in (one[0], two[0]) or one[0] == two[0])

    def settle(decisions: list[Any]) -> None:
        for decision in decisions:
            if decision.granted:
                want = waits.pop(decision.owner, None)
                if want is not None:
                    held.setdefault(decision.owner, set()).add(want)
            else:
                assert any(owner < decision.owner for owner in {**held, **waits})
                waits.pop(decision.owner, None)
                held.pop(decision.owner, None)
                settle(locks.release(decision.owner))

    for age, key, write, release in script:
        owner = ("n", age)
        if release:
            held.pop(owner, None)
            waits.pop(owner, None)
            settle(locks.release(owner))
        elif owner not in waits:
            waits[owner] = (key, write)
            settle(locks.request(owner, (age, "n"), 1, "t", key, write=write))
        for one, wants in held.items():
            for two, others in held.items():
                assert one == two or not any(clash(a, b) for a in wants for b in others)
        for one, want in waits.items():
            blockers = [o for o, has in held.items() if o != one and any(clash(want, h) for h in has)]
            assert blockers
            assert all(one < blocker for blocker in blockers)
    for owner in list({**held, **waits}):
        settle(locks.release(owner))
    assert locks.owners() == []


# -- one node


async def add(tx: Transaction, key: str, amount: int) -> int:
    value = await tx.read("t", key, 0, write=True) + amount
    await tx.write("t", key, value)
    return int(value)


async def test_a_transaction_reads_what_it_wrote_and_nobody_else_does() -> None:
    """Until it has returned."""
    store = Store(node="a", creation=1)
    table = await store.create_table("t", replication="shared")
    table.write("gone", 1)
    events: list[Any] = []
    table.subscribe(events.extend)

    async def work(tx: Transaction) -> list[Any]:
        await tx.write("t", "k", 1)
        await tx.delete("t", "gone")
        assert await tx.read("t", "k") == 1
        assert await tx.read("t", "gone") is None
        assert table.read("k") is None
        assert events == []
        return await tx.match("t")

    assert await store.transaction(work) == [("k", 1)]
    assert dict(table.rows()) == {"k": 1}
    assert sorted(events, key=str) == [("delete", "a", "gone", None), ("write", "a", "k", 1)]
    assert store.replication.transactions.locks.owners() == []


async def test_whatever_leaves_the_function_undoes_it() -> None:
    """Abort, exception and cancellation."""
    store = Store(node="a", creation=1)
    table = await store.create_table("t", replication="shared")
    kept: list[Transaction] = []

    async def work(tx: Transaction, how: str) -> None:
        kept.append(tx)
        await tx.write("t", "k", 1)
        if how == "abort":
            tx.abort("no funds")
        if how == "raise":
            raise ValueError(how)
        await asyncio.Event().wait()

    with pytest.raises(TransactionAbortedError, match="no funds"):
        await store.transaction(work, "abort")
    with pytest.raises(ValueError, match="raise"):
        await store.transaction(work, "raise")
    task = asyncio.ensure_future(store.transaction(work, "cancel"))
    await until(lambda: len(kept) == 3)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert len(table) == 0
    assert store.replication.transactions.locks.owners() == []
    with pytest.raises(TransactionOverError):
        await kept[0].read("t", "k")


async def test_a_transaction_that_never_ends_is_ended() -> None:
    """Its locks are free, the error says how long and why."""
    store = Store(node="a", creation=1)
    table = await store.create_table("t", replication="shared")
    local = await store.create_table("local")

    async def forever(tx: Transaction) -> None:
        for name in ("t", "local"):
            await tx.write(name, "k", 1)
        await asyncio.Event().wait()

    with pytest.raises(TransactionTimeoutError, match="its function did not return") as info:
        await store.transaction(forever, timeout=0.05)
    assert info.value.attempts == 1
    assert store.replication.transactions.locks.owners() == []
    assert (len(table), len(local)) == (0, 0)
    assert await store.transaction(add, "k", 2) == 2


async def test_a_single_write_between_read_and_commit_begins_the_transaction_anew() -> None:
    """Writes outside of transactions skip the locks; they are not lost all the same."""
    store = Store(node="a", creation=1)
    table = await store.create_table("t", replication="shared")
    runs = 0

    async def work(tx: Transaction) -> None:
        nonlocal runs
        runs += 1
        value = await tx.read("t", "k", 0)
        if runs == 1:
            table.write("k", 100)
        await tx.write("t", "k", value + 1)

    await store.transaction(work)
    assert (runs, table.read("k")) == (2, 101)


# -- several nodes


@contextlib.asynccontextmanager
async def trio(sim: SimNetwork, hub: Hub, *, majority: bool = False) -> Any:
    """Three nodes with a shared table ``t``, loaded."""
    async with contextlib.AsyncExitStack() as stack:
        hosts: list[Host] = []
        for number, name in enumerate("abc"):
            clock = sim.host(str(number)).clock
            hosts.append(await stack.enter_async_context(host(name, hub, clock=clock, tick=0.1)))
        tables = [await h.store.create_table("t", replication="shared", majority=majority) for h in hosts]
        for h in hosts:
            await h.store.wait_for_tables(peers=[n for n in "abc" if n != h.store.node])
        yield hosts, tables


@seeds(6)
async def test_transactions_are_as_if_one_came_after_the_other(sim: SimNetwork) -> None:
    """Concurrent increments and transfers on three nodes over links whose sessions end: none is lost, the
    sums always add up, and what each read is what its predecessor wrote."""
    hub = Fraying(sim.seed)
    async with trio(sim, hub) as (hosts, tables):
        hub.renewals = 0.01
        done: list[str] = []

        async def transfer(tx: Transaction, source: str, target: str) -> None:
            total = await tx.select("t", lambda k, v: k in ("x", "y", "z"))
            assert sum(v for _, v in total) == 0
            await tx.write("t", source, await tx.read("t", source, 0) - 1)
            await tx.write("t", target, await tx.read("t", target, 0) + 1)
            count = await tx.read("t", "count", 0)
            await tx.write("t", "count", count + 1)

        async def client(h: Host, rng: random.Random) -> None:
            for _ in range(4):
                source, target = rng.sample(["x", "y", "z"], 2)
                await h.store.transaction(transfer, source, target, timeout=300)
                done.append(h.store.node)

        rng = random.Random(sim.seed)
        async with asyncio.timeout(2000), asyncio.TaskGroup() as group:
            for h in hosts * 2:
                group.create_task(client(h, random.Random(rng.random())))
        hub.renewals = 0.0
        await until_virtual(lambda: all(t.core.versions == tables[0].core.versions for t in tables))
        assert tables[0].read("count") == len(done) == 24
        assert sum(tables[0].read(k, 0) for k in "xyz") == 0
        await until_virtual(lambda: all(not h.store.replication.transactions.locks.owners() for h in hosts))


@seeds(1)
async def test_a_node_that_fails_in_the_middle_leaves_all_or_nothing(sim: SimNetwork) -> None:
    """The coordinator is cut off after each frame in turn; the survivors agree, and no lock stays."""
    outcomes = {await fail_after(sim, frames) for frames in range(1, 25)}
    assert outcomes >= {(None, 0), (1, 0), (1, 1)}


async def fail_after(sim: SimNetwork, frames: int) -> tuple[int | None, int]:
    """What the survivors have, and how many of them had to ask each other."""
    hub = Fraying(sim.seed)
    async with trio(sim, hub) as (hosts, tables):

        async def both(tx: Transaction, value: int) -> None:
            for key in ("left", "right"):
                await tx.write("t", key, value)

        doomed = asyncio.ensure_future(hosts[0].store.transaction(both, 1, timeout=60))
        hub.fuse = frames
        hub.victim = "a"
        await until_virtual(lambda: hub.victim is None or doomed.done())
        if hub.victim is not None:
            hub.kill("a")
        survivors = tables[1:]
        await until_virtual(
            lambda: all(not h.store.replication.transactions.locks.owners() for h in hosts[1:])
        )
        for table in survivors:
            assert table.read("left") == table.read("right")
        assert survivors[0].read("left") == survivors[1].read("left")
        outcome = survivors[0].read("left")
        asked = max(h.store.replication.transactions.counts["resolved"] for h in hosts[1:])
        await hosts[1].store.transaction(both, 2, timeout=60)
        await until_virtual(lambda: survivors[1].read("right") == 2)
        doomed.cancel()
        await asyncio.gather(doomed, return_exceptions=True)
        return outcome, asked


@seeds(1)
@pytest.mark.parametrize(
    ("keys", "length"),
    [([b"%0500d" % number for number in range(500)], 120), ([b"x" * 65_590], 131_060)],
    ids=["many long keys", "one row of the largest size"],
)
async def test_what_was_read_and_written_fits_into_frames(
    sim: SimNetwork, keys: list[bytes], length: int
) -> None:
    """A frame that is too large would end the session."""
    hub = Hub()
    async with trio(sim, hub) as (hosts, tables):
        for key in keys:
            tables[0].write(key, b"before")
        await until_virtual(lambda: all(len(table) == len(keys) for table in tables))

        async def change(tx: Transaction) -> None:
            for key in keys:
                await tx.read("t", key)
                await tx.write("t", key, b"x" * length)

        await hosts[0].store.transaction(change)
        await until_virtual(lambda: all(len(table.read(keys[-1])) == length for table in tables))
        assert [hub.session("a", other) for other in "bc"] == [1, 1]


@seeds(2)
async def test_losing_the_majority_while_it_is_voted_on_leaves_the_outcome_open(
    sim: SimNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it says so: the others may have committed."""
    hub = Hub()
    async with trio(sim, hub, majority=True) as (hosts, tables):
        core, deliver = hosts[0].store.replication.transactions, hub.deliver

        def cut_before_a_vote(source: str, target: str, session: int, frame: bytes) -> None:
            if target == "a" and any(attempt.state == "voting" for attempt in core.attempts.values()):
                monkeypatch.undo()
                for other in "bc":
                    hub.partition("a", other)
            deliver(source, target, session, frame)

        monkeypatch.setattr(hub, "deliver", cut_before_a_vote)
        task = asyncio.ensure_future(hosts[0].store.transaction(add, "k", 1))
        with pytest.raises(TransactionInDoubtError, match="most nodes of table 't'"):
            await task
        await until_virtual(lambda: all(not h.store.replication.transactions.locks.owners() for h in hosts))
        assert tables[1].read("k") == tables[2].read("k")
        for other in "bc":
            hub.heal("a", other)
        await until_virtual(lambda: tables[0].read("k") == tables[1].read("k"))


class Fraying(Hub):
    """Links whose sessions end; and one node that is killed when so many frames have gone."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.renewals = 0.0
        self.fuse = 0
        self.victim: str | None = None

    def deliver(self, source: str, target: str, session: int, frame: bytes) -> None:
        if self.victim is not None:
            self.fuse -= 1
            if self.fuse <= 0:
                self.kill(self.victim)
        if self.random.random() < self.renewals:
            self.partition(source, target)
            self.heal(source, target)
        super().deliver(source, target, session, frame)

    def kill(self, name: str) -> None:
        self.victim = None
        for other in list(self.links):
            if other != name and frozenset((name, other)) not in self.cut:
                self.partition(name, other)
