"""The supervisor against a small model: any sequence of starts, exits, kills and admin calls.

The model is a list of children and the rules of OTP's documentation, written as plainly as possible. The real
supervisor runs on virtual time; after every step, the live children, their order, and everything that was
started and stopped on the way must be what the model says.
"""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gossamer.supervisor import (
    AlreadyPresent,
    AlreadyStarted,
    ChildNotFound,
    ChildRunning,
    Runtime,
    StartFailed,
    Supervisor,
    is_clean,
)
from tests.supervisor.harness import VirtualLoop, settle
from tests.supervisor.test_supervisor import probe

IDS = st.sampled_from("abcde")
TYPES = st.sampled_from(["permanent", "transient", "temporary"])
REASONS = st.sampled_from(["normal", "shutdown", ("shutdown", 1), "bad", "kill"])
FAILURES = st.lists(st.sampled_from(["no", "ignore"]), max_size=3)


class Row:
    def __init__(self, name, restart):
        self.name, self.restart, self.alive = name, restart, False


class Model:
    """What OTP's rules say."""

    def __init__(self, strategy, intensity, period):
        self.strategy, self.intensity, self.period = strategy, intensity, period
        self.rows, self.log, self.stamps = [], [], []
        self.up = True
        self.failures = {name: [] for name in "abcde"}

    def row(self, name):
        return next((row for row in self.rows if row.name == name), None)

    def start(self, row):
        """ "ok", "ignore" or "no"."""
        outcome = self.failures[row.name].pop() if self.failures[row.name] else "ok"
        if outcome == "ok":
            row.alive = True
            self.log.append("+" + row.name)
        return outcome

    def stop(self, row):
        if row.alive:
            row.alive = False
            self.log.append("-" + row.name)

    def ended(self, row, reason):
        """A child ended by itself."""
        row.alive = False
        if reason != "kill":
            self.log.append("-" + row.name)
        if row.restart == "permanent" or (row.restart == "transient" and not is_clean(reason)):
            self.restart(row)
        elif row.restart == "temporary":
            self.rows.remove(row)

    def restart(self, row):
        now = self.now()
        while True:
            self.stamps = [stamp for stamp in [*self.stamps, now] if stamp >= now - self.period]
            if len(self.stamps) > self.intensity:
                for other in reversed(self.rows):
                    self.stop(other)
                self.up = False
                return
            first = {"one_for_one": None, "one_for_all": 0, "rest_for_one": self.rows.index(row)}[
                self.strategy
            ]
            swept = [row] if first is None else self.rows[first:]
            for other in reversed(swept):
                self.stop(other)
            self.rows = [o for o in self.rows if not (o in swept and o.restart == "temporary")]
            failed = next((o for o in swept if o in self.rows and self.start(o) == "no"), None)
            if failed is None:
                return
            row = failed

    now = staticmethod(lambda: 0.0)


class SupervisorMachine(RuleBasedStateMachine):
    @initialize(
        strategy=st.sampled_from(["one_for_one", "one_for_all", "rest_for_one"]),
        intensity=st.sampled_from([0, 1, 3, 1000, 1000]),
        types=st.lists(TYPES, min_size=2, max_size=4),
    )
    def begin(self, strategy, intensity, types):
        self.loop = VirtualLoop()
        self.rt = Runtime("model@host")
        self.log = []
        self.real = {}
        self.model = Model(strategy, intensity, 10.0)
        self.model.now = self.loop.time
        self.sup = self.run(
            self.rt.start(Supervisor, [], strategy=strategy, intensity=intensity, period=10.0)
        )
        for name, restart in zip("abcd", types, strict=False):
            self.start_one(name, restart, [])

    def run(self, awaitable):
        async def main():
            value = await awaitable
            await settle(400)
            return value

        return self.loop.run_until_complete(main())

    def ask(self, function, *args):
        """The result, or the class of what it raised."""

        async def main():
            try:
                return await self.rt.run(function, self.sup, *args)
            except Exception as error:  # noqa: BLE001
                return type(error)

        return self.run(main())

    def up(self):
        return self.model.up

    @precondition(up)
    @rule(name=IDS, restart=TYPES, failures=FAILURES)
    def start_child(self, name, restart, failures):
        self.start_one(name, restart, failures)

    def start_one(self, name, restart, failures):
        model = self.model
        row = model.row(name)
        # A list of its own: what the supervisor's start function pops, the model must pop too.
        mine = list(failures)
        spec = probe(name, self.log, fails=mine, restart=restart)
        got = self.ask(Supervisor.start_child, spec)
        if row is not None:
            assert got is (AlreadyStarted if row.alive else AlreadyPresent)
            return
        self.real[name] = mine
        model.failures[name][:] = failures
        row = Row(name, restart)
        model.rows.append(row)
        outcome = model.start(row)
        if outcome == "no" or (outcome == "ignore" and restart == "temporary"):
            model.rows.remove(row)
        if outcome == "no":
            assert got is StartFailed

    @precondition(up)
    @rule(name=IDS, reason=REASONS, failing=IDS, failures=FAILURES)
    def end_child(self, name, reason, failing, failures):
        row = self.model.row(name)
        if row is None or not row.alive:
            return
        if self.model.row(failing) is not None:
            self.model.failures[failing][:] = failures
            self.real[failing][:] = failures
        pid = self.rt.whereis(name)

        async def main():
            if reason == "kill":
                self.rt.exit(pid, "kill")
            else:
                self.rt.cast(pid, ("stop", reason))

        self.run(main())
        self.model.ended(row, reason)

    @precondition(up)
    @rule(name=IDS)
    def terminate_child(self, name):
        row = self.model.row(name)
        got = self.ask(Supervisor.terminate_child, name)
        if row is None:
            assert got is ChildNotFound
            return
        self.model.stop(row)
        if row.restart == "temporary":
            self.model.rows.remove(row)

    @precondition(up)
    @rule(name=IDS)
    def restart_child(self, name):
        row = self.model.row(name)
        got = self.ask(Supervisor.restart_child, name)
        if row is None:
            assert got is ChildNotFound
        elif row.alive:
            assert got is ChildRunning
        else:
            assert (self.model.start(row) == "no") == (got is StartFailed)

    @precondition(up)
    @rule(name=IDS)
    def delete_child(self, name):
        row = self.model.row(name)
        got = self.ask(Supervisor.delete_child, name)
        if row is None:
            assert got is ChildNotFound
        elif row.alive:
            assert got is ChildRunning
        else:
            self.model.rows.remove(row)

    @rule(seconds=st.sampled_from([1.0, 5.0, 10.0, 10.5]))
    def wait(self, seconds):
        self.run(asyncio.sleep(seconds))

    @invariant()
    def agrees(self):
        if not hasattr(self, "model"):
            return
        assert self.log == self.model.log
        assert self.rt.alive(self.sup) == self.model.up
        if self.model.up:
            children = self.ask(Supervisor.which_children)
            assert [(c.id, c.pid is not None) for c in children] == [
                (r.name, r.alive) for r in self.model.rows
            ]
        alive = [row.name for row in self.model.rows if row.alive]
        assert sorted(name for name in "abcde" if self.rt.whereis(name)) == sorted(alive)
        assert len(self.rt.table) == len(alive) + self.model.up

    def teardown(self):
        if hasattr(self, "model"):
            self.run(self.rt.stop())
            assert not self.rt.table
            assert not self.loop.lost
            self.loop.close()


TestSupervisorAgainstItsModel = SupervisorMachine.TestCase
TestSupervisorAgainstItsModel.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
