"""The dynamic supervisor against a small model, as ``test_model`` has it for the other."""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import gossamer.supervisor as otp
from gossamer.testing.loop import VirtualTimeLoop
from tests.supervisor.harness import lost_in
from tests.supervisor.supervise.children import probe
from tests.supervisor.supervise.test_model import FAILURES, IDS, REASONS, TYPES, WHICH, Row, SupervisorMachine


class Pool:
    """What OTP's rules say of a dynamic supervisor: every child on its own, a new pid with each restart."""

    def __init__(self, intensity, period, max_children):
        self.intensity, self.period, self.max_children = intensity, period, max_children
        self.rows, self.stamps = [], []
        self.up = True

    def ended(self, row, reason, failures, now):
        self.rows.remove(row)
        if not (row.restart == "permanent" or (row.restart == "transient" and not otp.is_clean(reason))):
            return
        while True:
            self.stamps = [stamp for stamp in [*self.stamps, now] if stamp >= now - self.period]
            if len(self.stamps) > self.intensity:
                self.rows.clear()
                self.up = False
                return
            outcome = failures.pop() if failures else "ok"
            if outcome == "ok":
                # At the end: it is the youngest now.
                self.rows.append(row)
            if outcome != "no":
                return


class DynamicMachine(RuleBasedStateMachine):
    @initialize(
        intensity=st.sampled_from([0, 1, 3, 3, 1000, 1000]),
        max_children=st.sampled_from([None, None, 0, 3]),
        types=st.lists(TYPES, min_size=2, max_size=4),
    )
    def begin(self, intensity, max_children, types):
        self.loop = VirtualTimeLoop()
        self.lost = lost_in(self.loop)
        self.rt = otp.Runtime("model@host")
        self.log = []
        self.model = Pool(intensity, 10.0, max_children)
        self.failures = {name: [] for name in "abcde"}
        options = {"intensity": intensity, "period": 10.0, "max_children": max_children}
        self.sup = self.run(self.rt.start(otp.DynamicSupervisor, **options))
        for name, restart in zip("abcd", types, strict=False):
            self.start_one(name, restart, [])

    run = SupervisorMachine.run
    ask = SupervisorMachine.ask
    up = SupervisorMachine.up

    def row(self, name):
        return next((row for row in self.model.rows if row.name == name), None)

    @precondition(up)
    @rule(name=IDS, restart=TYPES, failures=FAILURES)
    def start_child(self, name, restart, failures):
        self.start_one(name, restart, failures)

    def start_one(self, name, restart, failures):
        if self.row(name) is not None:
            return
        mine = self.failures[name] = list(failures)
        expected = list(failures)
        got = self.ask(otp.DynamicSupervisor.start_child, probe(name, self.log, fails=mine, restart=restart))
        bound = self.model.max_children
        if bound is not None and len(self.model.rows) >= bound:
            assert got is otp.MaxChildren
            return
        outcome = expected.pop() if expected else "ok"
        if outcome == "ok":
            assert isinstance(got, otp.Pid)
            self.model.rows.append(Row(name, restart))
        else:
            assert got is (otp.StartFailed if outcome == "no" else None)

    @precondition(up)
    @rule(which=WHICH, reason=REASONS, failures=FAILURES)
    def end_child(self, which, reason, failures):
        if not self.model.rows:
            return
        row = self.model.rows[which % len(self.model.rows)]
        self.failures[row.name][:] = failures
        pid = self.rt.whereis(row.name)

        async def main():
            if reason == "kill":
                self.rt.exit(pid, "kill")
            else:
                self.rt.cast(pid, ("stop", reason))

        now = self.loop.time()
        self.run(main())
        self.model.ended(row, "killed" if reason == "kill" else reason, list(failures), now)

    @precondition(up)
    @rule(name=IDS)
    def terminate_child(self, name):
        row = self.row(name)
        pid = self.rt.whereis(name) if row is not None else otp.Pid("model@host", 1, 10**6)
        got = self.ask(otp.DynamicSupervisor.terminate_child, pid)
        assert got is (None if row is not None else otp.ChildNotFound)
        if row is not None:
            self.model.rows.remove(row)

    @rule(seconds=st.sampled_from([1.0, 5.0, 10.5]))
    def wait(self, seconds):
        self.run(asyncio.sleep(seconds))

    @invariant()
    def agrees(self):
        if not hasattr(self, "model"):
            return
        rows = self.model.rows
        assert self.rt.alive(self.sup) == self.model.up
        if self.model.up:
            children = self.ask(otp.DynamicSupervisor.which_children)
            assert [child.id for child in children] == [row.name for row in rows]
            assert [child.pid for child in children] == [self.rt.whereis(row.name) for row in rows]
            counts = self.ask(otp.DynamicSupervisor.count_children)
            assert (counts.specs, counts.active, counts.workers) == (len(rows),) * 3
        assert sorted(name for name in "abcde" if self.rt.whereis(name)) == sorted(r.name for r in rows)
        assert len(self.rt.table) == len(rows) + self.model.up

    teardown = SupervisorMachine.teardown


TestDynamicSupervisorAgainstItsModel = DynamicMachine.TestCase
TestDynamicSupervisorAgainstItsModel.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
