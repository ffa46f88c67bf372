"""Shared tables: the latest version wins everywhere, deleted rows stay deleted, dead holders lose nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from gossamer.clock import HybridLogicalClock
from gossamer.mnesia_like import Change
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.replication.exchange import Action, Installed
from gossamer.mnesia_like.shared.shared import Shared

from .fakes import Machine, Net, play, scripts

DEFINITION = TableDef(name="routes", replication="shared", grace=20.0)
NAMES = ["a", "b", "c"]
EPOCH = 1_700_000_000.0


class Sharing(Net):
    """Machines with a shared table each, whose wall clocks are hours apart."""

    def __init__(
        self,
        seed: int,
        names: list[str],
        *,
        skew: float = 3600.0,
        horizon: float = 86_400.0,
        **options: Any,
    ) -> None:
        self.skews = {name: i * skew for i, name in enumerate(names)}
        self.shared: dict[str, Shared] = {}
        self.seen: dict[str, dict[Any, Any]] = {}
        self.crashed: set[str] = set()
        # Every version ever written: (key, version) to value, None for a deletion.
        self.history: dict[tuple[Any, tuple[int, str]], Any] = {}
        super().__init__(seed, names, definition=replace(DEFINITION, tombstone_horizon=horizon), **options)

    def wall(self, name: str) -> float:
        return EPOCH + self.now + self.skews[name]

    def core(self, machine: Machine) -> Shared:
        core = self.shared.get(machine.name)
        if core is None:
            core = Shared(machine.state, node=machine.name, creation=machine.core.creation)
            machine.core.transactions.shared["routes"] = core
            self.shared[machine.name] = core
            self.seen[machine.name] = {}
        return core

    def put(self, name: str, key: Any, value: Any) -> None:
        core = self.core(self.machines[name])
        if value is None:
            core.delete(key, self.wall(name))
            self.seen[name].pop(key, None)
        else:
            core.write(key, value, self.wall(name))
            self.seen[name][key] = value
        if key in core.versions:
            self.history[key, core.versions[key]] = core.rows.get(key)

    def crash(self, name: str) -> None:
        self.crashed.add(name)
        self.shared.pop(name, None)
        super().crash(name)

    def run(self, machine: Machine, actions: list[Action]) -> None:
        super().run(machine, actions)
        core = self.core(machine)
        merged = False
        for action in actions:
            if isinstance(action, Installed):
                assert action.change is not None
                for key in action.change.deleted:
                    del self.seen[machine.name][key]
            elif isinstance(action, Change):
                merged = True
                change = core.merge(action, self.now, self.wall(machine.name))
                if change is not None:
                    self.seen[machine.name].update(change.written)
                    for key in change.deleted:
                        del self.seen[machine.name][key]
        if merged:
            self.run(machine, machine.core.flush())

    def ticked(self, machine: Machine) -> None:
        core = self.core(machine)
        core.tick(self.now)
        for change in core.revived:
            self.seen[machine.name].update(change.written)
        core.revived.clear()
        self.run(machine, machine.core.flush())
        self.run(machine, machine.core.report_applied("routes", machine.core.observe("routes")))

    def _up(self, name: str, peer: str, session: int) -> None:
        if name in self.machines and peer in self.machines:
            machine = self.machines[name]
            replica = machine.state.replicas.get(peer)
            if replica is not None and replica.creation not in (0, self.machines[peer].core.creation):
                self.core(machine).adopt_from(peer, self.now)
        super()._up(name, peer, session)

    def check(self) -> None:
        cores = [self.shared[name] for name in self.machines]
        for core in cores:
            assert core.rows == cores[0].rows
            assert [core.versions[k] for k in core.rows] == [cores[0].versions[k] for k in core.rows]
            assert self.seen[core.node] == core.rows
            for key, version in core.versions.items():
                assert self.history[key, version] == core.rows.get(key)
        # Deletions may be forgotten by some, where one who must hear of that is away.
        versions: dict[Any, tuple[int, str]] = {}
        for core in cores:
            for key, version in core.versions.items():
                assert versions.setdefault(key, version) == version
        for key, version in self.history:
            if version[1] in self.crashed:
                continue
            if key in versions:
                assert versions[key] >= version
            else:
                # It is forgotten, so a deletion was the last of it.
                later = [v for k, v in self.history if k == key and v >= version]
                assert any(self.history[key, v] is None for v in later)
        holders = [k for m in self.machines.values() for k in m.state.log.rows]
        assert sorted(holders) == sorted(versions)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32),
    renewals=st.sampled_from([0.0, 0.02, 0.2]),
    log_bytes=st.sampled_from([64, 8 * 1024 * 1024]),
    script=scripts("put", "flush", "partition", "heal", "restart", "advance"),
)
def test_all_copies_agree_on_the_latest_version(
    seed: int, renewals: float, log_bytes: int, script: list[tuple[Any, ...]]
) -> None:
    """No write of a node that lived is lost to an older one, each row has one holder, whatever happened."""
    note(f"seed={seed}")
    net = Sharing(seed, NAMES, renewals=renewals, log_bytes=log_bytes)
    play(net, script)
    net.settle()
    net.check()


def test_a_clock_set_back_an_hour_still_writes() -> None:
    """What was read is overwritten, whatever the wall says."""
    core = Shared(Machine("a", 1, 0.0, DEFINITION).state, node="a")
    core.write("k", 1, EPOCH)
    before = core.versions["k"]
    core.write("k", 2, EPOCH - 3600)
    assert core.versions["k"] > before


def test_a_peers_clock_far_ahead_is_counted_and_does_not_stop_us() -> None:
    """Its row is taken; our clock stays; our next write of that row is later all the same."""
    core = Shared(Machine("a", 1, 0.0, DEFINITION).state, node="a")
    future = HybridLogicalClock().tick(EPOCH + 86_400)
    core.merge(Change("routes", "b", {"k": [future, "b", 1]}, ()), 0.0, EPOCH)
    assert core.counts["skewed"] == 1
    core.write("k", 2, EPOCH)
    core.write("other", 2, EPOCH)
    assert core.versions["k"] == (future + 1, "a")
    assert HybridLogicalClock.wall_of(core.versions["other"][0]) == EPOCH


@pytest.mark.parametrize("row", [None, 1, [], [1], ["x", "b", 1], [1, 2, 3], [1, "b", 2, 3]])
def test_a_row_without_a_version_is_ignored(row: Any) -> None:
    """Counted, and nothing else of the frame suffers."""
    core = Shared(Machine("a", 1, 0.0, DEFINITION).state, node="a")
    change = core.merge(Change("routes", "b", {"bad": row, "good": [1, "b", 2]}, ()), 0.0, EPOCH)
    assert change is not None
    assert change.written == {"good": 2}
    assert core.counts["malformed"] == 1


def test_what_has_expired_is_removed_without_overtaking_what_replaces_it() -> None:
    """``a`` removes the version it knows while ``b`` writes the next: everybody ends with the new one."""
    net = Sharing(1, NAMES, skew=-3600.0)
    net.put("b", "k", "old")
    net.flush("b")
    net.advance(1.0)
    net.put("b", "k", "new")
    assert net.shared["a"].retire("k") is not None
    assert "k" not in net.shared["a"].rows
    net.seen["a"].pop("k")
    net.settle()
    assert [net.shared[name].rows for name in NAMES] == [{"k": "new"}] * 3
