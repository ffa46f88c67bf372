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

import gossamer.supervisor as otp
from gossamer.testing.loop import VirtualTimeLoop
from tests.supervisor.harness import lost_in, settle
from tests.supervisor.supervise.children import probe

IDS = st.sampled_from("abcde")
WHICH = st.integers(0, 9)
"""One of those that are there, whoever they are."""
TYPES = st.sampled_from(["permanent", "transient", "temporary"])
REASONS = st.sampled_from(["normal", "shutdown", ("shutdown", 1), "bad", "kill"])
AUTO = st.sampled_from(["never", "never", "any_significant", "all_significant"])
FAILURES = st.lists(st.sampled_from(["no", "ignore"]), max_size=3)


class Row:
    def __init__(self, name, restart, significant=False):
        self.name, self.restart, self.significant = name, restart, significant
        self.alive = False
        self.exit = None
        """Why it ended, while the supervisor has not looked at that yet."""
        self.restarting = False


class Model:
    """What OTP's rules say."""

    def __init__(self, strategy, intensity, period, auto_shutdown="never"):
        self.strategy, self.intensity, self.period = strategy, intensity, period
        self.auto_shutdown = auto_shutdown
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
        # Its exit, if it waits to be looked at, is forgotten.
        row.exit = None
        row.restarting = False
        if row.alive:
            row.alive = False
            self.log.append("-" + row.name)

    def ended(self, *ends):
        """Children ended by themselves, in this order, before the supervisor looks at the first."""
        for row, reason in ends:
            row.alive = False
            row.exit = reason
            if reason != "kill":
                self.log.append("-" + row.name)
        self.mailbox = [("exit", row) for row, _ in ends]
        while self.mailbox and self.up:
            # An exit, or the supervisor's order to itself to try again, behind what waited before it.
            what, row = self.mailbox.pop(0)
            if what == "exit" and row.exit is not None:
                self.look_at(row)
            elif what == "again" and row.restarting:
                self.restart(row)

    def look_at(self, row):
        reason, row.exit = row.exit, None
        if row.restart == "permanent" or (row.restart == "transient" and not otp.is_clean(reason)):
            self.restart(row)
            return
        if row.restart == "temporary":
            self.rows.remove(row)
        # One that ended and is not looked at yet still counts as running.
        left = any(
            other.significant and (other.alive or other.restarting or other.exit is not None)
            for other in self.rows
        )
        if row.significant and (self.auto_shutdown == "any_significant" or not left):
            self.give_up()

    def give_up(self):
        for other in reversed(self.rows):
            self.stop(other)
        self.up = False

    def restart(self, row):
        now = self.now()
        self.stamps = [stamp for stamp in [*self.stamps, now] if stamp >= now - self.period]
        if len(self.stamps) > self.intensity:
            self.give_up()
            return
        first = {"one_for_one": None, "one_for_all": 0, "rest_for_one": self.rows.index(row)}[self.strategy]
        swept = [row] if first is None else self.rows[first:]
        for other in reversed(swept):
            self.stop(other)
        self.rows = [o for o in self.rows if not (o in swept and o.restart == "temporary")]
        failed = next((o for o in swept if o in self.rows and self.start(o) == "no"), None)
        if failed is not None:
            failed.restarting = True
            self.mailbox.append(("again", failed))

    now = staticmethod(lambda: 0.0)


class SupervisorMachine(RuleBasedStateMachine):
    @initialize(
        strategy=st.sampled_from(["one_for_one", "one_for_all", "rest_for_one"]),
        intensity=st.sampled_from([0, 1, 3, 3, 1000, 1000]),
        auto_shutdown=AUTO,
        types=st.lists(st.tuples(TYPES, st.booleans()), min_size=2, max_size=4),
    )
    def begin(self, strategy, intensity, auto_shutdown, types):
        self.loop = VirtualTimeLoop()
        self.lost = lost_in(self.loop)
        self.rt = otp.Runtime("model@host")
        self.log = []
        self.real = {}
        self.model = Model(strategy, intensity, 10.0, auto_shutdown)
        self.model.now = self.loop.time
        self.sup = self.run(
            self.rt.start(
                otp.Supervisor,
                [],
                strategy=strategy,
                intensity=intensity,
                period=10.0,
                auto_shutdown=auto_shutdown,
            )
        )
        for name, (restart, significant) in zip("abcd", types, strict=False):
            self.start_one(name, restart, significant and restart != "permanent", [])

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
    @rule(name=IDS, restart=TYPES, significant=st.booleans(), failures=FAILURES)
    def start_child(self, name, restart, significant, failures):
        self.start_one(name, restart, significant and restart != "permanent", failures)

    def start_one(self, name, restart, significant, failures):
        model = self.model
        row = model.row(name)
        # A list of its own: what the supervisor's start function pops, the model must pop too.
        mine = list(failures)
        spec = probe(name, self.log, fails=mine, restart=restart, significant=significant)
        got = self.ask(otp.Supervisor.start_child, spec)
        if significant and model.auto_shutdown == "never":
            assert got is otp.BadChildSpec
            return
        if row is not None:
            assert got is (otp.AlreadyStarted if row.alive else otp.AlreadyPresent)
            return
        self.real[name] = mine
        model.failures[name][:] = failures
        row = Row(name, restart, significant)
        model.rows.append(row)
        outcome = model.start(row)
        if outcome == "no" or (outcome == "ignore" and restart == "temporary"):
            model.rows.remove(row)
        if outcome == "no":
            assert got is otp.StartFailed

    @precondition(up)
    @rule(which=WHICH, reason=REASONS, failing=IDS, failures=FAILURES)
    def end_child(self, which, reason, failing, failures):
        alive = [row for row in self.model.rows if row.alive]
        if not alive:
            return
        row = alive[which % len(alive)]
        if self.model.row(failing) is not None:
            self.model.failures[failing][:] = failures
            self.real[failing][:] = failures
        pid = self.rt.whereis(row.name)

        async def main():
            if reason == "kill":
                self.rt.exit(pid, "kill")
            else:
                self.rt.cast(pid, ("stop", reason))

        self.run(main())
        self.model.ended((row, reason))

    @precondition(up)
    @rule(ends=st.lists(st.tuples(IDS, REASONS), min_size=2, max_size=4, unique_by=lambda end: end[0]))
    def end_some_at_once(self, ends):
        ends = [(self.model.row(name), reason) for name, reason in ends]
        ends = [(row, reason) for row, reason in ends if row is not None and row.alive]

        async def main():
            for row, reason in ends:
                # A kill takes one turn, as taking a message does.
                if reason == "kill":
                    self.rt.exit(self.rt.whereis(row.name), "kill")
                else:
                    self.rt.cast(row.name, ("stop", reason))

        self.run(main())
        self.model.ended(*ends)

    @precondition(lambda self: self.model.up and len(self.log) > 12)
    @rule()
    def kill_the_supervisor(self):
        """Its children trap exits, hear of it, and end in the order in which they were linked."""

        async def main():
            self.rt.exit(self.sup, "kill")

        alive = [row for row in self.model.rows if row.alive]
        self.run(main())
        self.model.up = False
        # In whatever order: they end each by itself.
        ended = self.log[len(self.model.log) :]
        assert sorted(ended) == sorted("-" + row.name for row in alive)
        for row in alive:
            row.alive = False
        self.model.log += ended

    @precondition(up)
    @rule(name=IDS)
    def terminate_child(self, name):
        row = self.model.row(name)
        got = self.ask(otp.Supervisor.terminate_child, name)
        if row is None:
            assert got is otp.ChildNotFound
            return
        self.model.stop(row)
        if row.restart == "temporary":
            self.model.rows.remove(row)

    @precondition(up)
    @rule(name=IDS)
    def restart_child(self, name):
        row = self.model.row(name)
        got = self.ask(otp.Supervisor.restart_child, name)
        if row is None:
            assert got is otp.ChildNotFound
        elif row.alive:
            assert got is otp.ChildRunning
        else:
            assert (self.model.start(row) == "no") == (got is otp.StartFailed)

    @precondition(up)
    @rule(name=IDS)
    def delete_child(self, name):
        row = self.model.row(name)
        got = self.ask(otp.Supervisor.delete_child, name)
        if row is None:
            assert got is otp.ChildNotFound
        elif row.alive:
            assert got is otp.ChildRunning
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
            children = self.ask(otp.Supervisor.which_children)
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
            assert not self.lost
            self.loop.close()


TestSupervisorAgainstItsModel = SupervisorMachine.TestCase
TestSupervisorAgainstItsModel.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
