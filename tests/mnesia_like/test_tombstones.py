"""Deletions are forgotten once nobody can bring the row back, and not before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from gossamer.mnesia_like import Disc
from gossamer.mnesia_like.shared.tombstones import Epoch
from gossamer.testing import SimNetwork, seeds

from .fakes import play, scripts
from .hub import Hub, host
from .test_shared import Sharing

NAMES = ["a", "b", "c"]


def net_of(seed: int = 1, *, horizon: float = 86_400.0, renewals: float = 0.0) -> Sharing:
    net = Sharing(seed, NAMES, renewals=renewals, horizon=horizon)
    net.advance(1.0)
    return net


def tombstones(net: Sharing) -> list[int]:
    return [net.shared[name].tombstones for name in net.machines]


def isolate(net: Sharing, name: str) -> None:
    for other in NAMES:
        net.partition(name, other)


def test_a_joiner_does_not_get_what_was_deleted_out_of_old_logs() -> None:
    """``a`` wrote, ``b`` deleted, both have forgotten; the log of ``a`` still begins with the row."""
    net = Sharing(1, ["a", "b"])
    net.advance(1.0)
    net.tell("a", "k", 1)
    net.advance(1.0)
    net.tell("b", "k", None)
    net.advance(30.0)
    assert tombstones(net) == [0, 0]
    net.machines["b"].state.log.deltas.clear()
    seen: list[Any] = []
    net.boot("c")
    for _ in range(100):
        net.advance(0.1)
        seen.append(dict(net.shared["c"].rows))
    assert seen == [{}] * 100
    assert tombstones(net) == [0, 0, 0]


def test_who_is_told_of_an_epoch_before_it_is_refused_for_lack_of_it_is_not_refused() -> None:
    """``b`` has asked under the old epoch just when ``a`` struck ``c``, and asks again under the new."""
    net = net_of(horizon=100.0)
    net.tell("a", "k", 1)
    net.advance(1.0)
    isolate(net, "c")
    net.tell("a", "k", None)
    net.advance(99.0)
    net.latency = 1.0
    for _ in range(30):
        net.partition("a", "b")
        net.heal("a", "b")
        net.advance(0.5)
    net.advance(10.0)
    replica = net.machines["b"].state.replicas["a"]
    assert net.shared["a"].collector.epoch.id
    assert (replica.refused, replica.loaded) == (None, True)


class Away(Sharing):
    """``a`` and ``b`` stay together; what ``c`` did alone counts only if it was not away for too long."""

    apart = False

    def put(self, name: str, key: Any, value: Any) -> None:
        if name != "c" or not self.apart:
            super().put(name, key, value)

    def leave_c(self) -> None:
        # Its own last words have arrived.
        self.flush("c")
        self.advance(10.0)
        isolate(self, "c")
        self.apart = True

    def meet_c(self) -> None:
        for other in ("a", "b"):
            self.heal("c", other)
        self.apart = False


TIMES = (st.sampled_from([0.05, 1.0, 8.0, 60.0]),)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32),
    renewals=st.sampled_from([0.0, 0.1]),
    script=scripts(
        "put", "flush", "leave_c", "meet_c", "advance", most=40, leave_c=(), meet_c=(), advance=TIMES
    ),
)
def test_no_deleted_row_comes_back(seed: int, renewals: float, script: list[tuple[Any, ...]]) -> None:
    """Whoever is away, for less or for more than the horizon: two that stay together lose nothing."""
    note(f"seed={seed}")
    net = Away(seed, NAMES, renewals=renewals, horizon=30.0)
    net.advance(1.0)
    play(net, script)
    net.settle()
    net.advance(60.0)
    net.check()
    assert tombstones(net) == [0, 0, 0]


@seeds(1)
async def test_what_is_safe_on_disc_is_what_counts(
    sim: SimNetwork, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A peer's disc is full: the deletion is kept until it is there too; members are remembered on disc."""
    hub = Hub()
    path: Path = tmp_path_factory.mktemp("sim")
    options: dict[str, Any] = {"replication": "shared", "storage": "disc_copies"}
    async with host("a", hub, disc=Disc(path / "a")) as a, host("b", hub, disc=Disc(path / "b")) as b:
        ta, tb = [await h.store.create_table("t", **options) for h in (a, b)]
        ta.write("k", 1)
        await asyncio.sleep(1.0)
        await tb.durable()
        handle = b.store._disc
        assert handle is not None
        assert handle.file is not None
        handle.file._conn.execute("PRAGMA query_only = 1")
        ta.delete("k")
        await asyncio.sleep(60.0)
        assert (ta.core.tombstones, tb.core.tombstones) == (1, 1)
        handle.file._conn.execute("PRAGMA query_only = 0")
        await asyncio.sleep(60.0)
        assert (ta.core.tombstones, tb.core.tombstones) == (0, 0)
        await ta.durable()
    async with host("a", Hub(), disc=Disc(path / "a")) as a:
        ta = await a.store.create_table("t", **options)
        assert ta.core.collector.epoch.members == {"a", "b"}
        ta.write("k", 1)
        ta.delete("k")
        await asyncio.sleep(60.0)
        assert ta.core.tombstones == 1


def test_an_epoch_beats_those_it_descends_from_and_smaller_ones() -> None:
    """And of two that are alike one, wherever they meet."""
    first = Epoch("1.2.a", 1, 2, frozenset("ab"), ("",))
    second = Epoch("2.1.b", 2, 1, frozenset("b"), ("", "1.2.a"))
    other = Epoch("1.1.c", 1, 1, frozenset("c"), ("",))
    twin = Epoch("1.2.d", 1, 2, frozenset("de"), ("",))
    assert first.beats(Epoch())
    assert not Epoch().beats(first)
    assert second.beats(first)
    assert not first.beats(second)
    assert first.beats(other)
    assert not other.beats(first)
    assert twin.beats(first) != first.beats(twin)
    assert Epoch.unpacked(second.packed()) == second
    for wrong in (None, [], ["1", 2, 3, [4], []], ["1", "2", 3, [], []], [1, 2, 3, [], []]):
        assert Epoch.unpacked(wrong) is None
