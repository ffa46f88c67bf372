"""What a supervisor decides; it starts and stops nothing itself.

Every decision is a *plan*: a generator that yields one action at a time (``StartChild``, ``StopChild``,
``Report``, ``TryAgain``) and is sent the outcome of each, the pid or the reason why not. A plan ends with
True when the supervisor must stop. So the rules read from top to bottom, in OTP's own order, and a test
can drive them without a process. Rejected: explicit states for "in the middle of a sweep", which bury the
rules.

Rules (``supervisor.erl``): 1. Children start in order of their specifications and stop in reverse, one
after another.  2. A sweep counts once against the intensity, and every failed attempt once more.  3. A
restart that fails leaves the child "restarting" and ``TryAgain`` puts the next attempt behind what waits
in the mailbox, so the supervisor keeps answering.  4. Temporary children are never restarted, not even as
bystanders of a sweep. 5. Only an end of its own lets a significant child shut its supervisor down: never
``terminate_child``, never a sweep.

With back-off (``backoff``; off by default) a restart waits.  6. It counts against the intensity when the
child fails, not when the wait ends, so a supervisor that gives up does so at once.  7. ``rest_for_one`` and
``one_for_all`` stop the others at once, in reverse order, and start them in order when the wait is over;
until then all of them are "restarting".  8. A child that fails while one waits that starts before it, or with
it, joins that wait: no child starts before those it follows.  9. ``terminate_child`` of the child that failed
ends the wait, and what was stopped with it stays stopped.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable
from typing import Literal

from msgspec import Struct

from gossamer.supervisor.supervise.backoff import Delays
from gossamer.supervisor.supervise.intensity import RestartWindow
from gossamer.supervisor.supervise.spec import ChildCounts, ChildInfo, ChildSpec, Flags
from gossamer.supervisor.values import Pid, Reason, is_clean

__all__ = ["Action", "Child", "Failed", "Plan", "Policy", "Report", "StartChild", "StopChild", "TryAgain"]

RESTARTING: Literal["restarting"] = "restarting"


class Child:
    """A specification and what became of it."""

    __slots__ = ("attempt", "delays", "leader", "pid", "restarts", "spec")

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.pid: Pid | Literal["restarting"] | None = None
        self.restarts = 0
        self.delays: Delays | None = None
        self.leader: Child | None = None
        """While it waits by back-off: the child whose wait it is, itself or the one it was stopped with."""
        self.attempt = 0
        """Numbers its waits; an order that comes from an earlier one is stale."""


class StartChild(Struct, frozen=True):
    """Start it. Outcome: its pid, None when it ignores, or ``Failed(reason)``."""

    child: Child


class StopChild(Struct, frozen=True):
    """Stop it as its specification says and wait for the end. Outcome: None."""

    child: Child
    pid: Pid


class Report(Struct, frozen=True):
    """Tell the log. Context: start_error, child_terminated or shutdown. Outcome: None."""

    context: str
    reason: Reason
    child: Child
    pid: Pid | Literal["restarting"] | None = None


class TryAgain(Struct, frozen=True):
    """Come back with ``try_again`` in ``delay`` seconds; 0: once the messages that wait now are served.

    Outcome: None.
    """

    id: str
    attempt: int = 0
    delay: float = 0.0


class Failed(Struct, frozen=True):
    """A child did not start."""

    reason: Reason
    id: str = ""


Action = StartChild | StopChild | Report | TryAgain
Plan = Generator[Action, object, bool]


class Policy:
    """The state of one supervisor."""

    def __init__(self, flags: Flags, rng: random.Random | None = None) -> None:
        self.flags = flags
        self._rng = rng or random.Random()
        self.children: dict[str, Child] = {}
        self.restarts = 0
        self._window = RestartWindow(intensity=flags.intensity, period=flags.period)
        self._pids: dict[Pid, Child] = {}

    # Plans.

    def boot(self, specs: Iterable[ChildSpec]) -> Generator[Action, object, Failed | None]:
        """Start the first children; when one fails, stop those before it and give back why."""
        for spec in specs:
            self.children[spec.id] = Child(spec)
        failed = yield from self._start_all(list(self.children.values()))
        if failed is not None:
            yield from self.stop()
        return failed

    def stop(self) -> Plan:
        """Stop every child, last started first."""
        yield from self._stop_all(list(self.children.values()))
        return True

    def exited(self, pid: Pid, reason: Reason, now: float) -> Plan:
        """A linked process ended."""
        child = self._pids.pop(pid, None)
        if child is None:
            return False
        clean = is_clean(reason)
        if child.spec.restart == "permanent" or (child.spec.restart == "transient" and not clean):
            yield Report("child_terminated", reason, child, pid)
            return (yield from self._restart(child, now))
        if not clean:
            yield Report("child_terminated", reason, child, pid)
        self._drop(child)
        return self._shuts_down(child)

    def try_again(self, child_id: str, now: float, attempt: int = 0) -> Plan:
        """Make the next attempt for a child whose restart failed or waits, unless somebody stopped it."""
        child = self.children.get(child_id)
        if child is None or child.pid != RESTARTING:
            return False
        if child.leader is None:
            return (yield from self._restart(child, now))
        if child.leader is not child or child.attempt != attempt:
            return False
        return (yield from self._sweep(child, now))

    def start_child(self, spec: ChildSpec) -> Generator[Action, object, Failed | Pid | None]:
        """Start one more; it is forgotten again when it fails, and when it ignores and is temporary."""
        child = self.children[spec.id] = Child(spec)
        outcome = yield from self._start(child)
        if isinstance(outcome, Failed) or (outcome is None and spec.restart == "temporary"):
            del self.children[spec.id]
        return outcome

    def restart_child(self, child: Child) -> Generator[Action, object, Failed | Pid | None]:
        """Start a child that was terminated; the specification stays when that fails."""
        return (yield from self._start(child))

    def terminate_child(self, child: Child) -> Plan:
        """Stop one child, or its attempts to restart."""
        led = [other for other in self.children.values() if other.leader is child]
        yield from self._stop_all([child])
        for other in led:
            other.pid = other.leader = None
        return False

    # Reads.

    def find(self, pid: Pid) -> Child | None:
        """The child that runs as ``pid``."""
        return self._pids.get(pid)

    def which(self) -> list[ChildInfo]:
        """Every specification with its pid, in start order."""
        return [ChildInfo(c.spec.id, c.pid, c.spec.type) for c in self.children.values()]

    def count(self) -> ChildCounts:
        """How many there are of what; a restarting child is not active."""
        children = self.children.values()
        supervisors = sum(child.spec.type == "supervisor" for child in children)
        return ChildCounts(
            specs=len(children),
            active=len(self._pids),
            supervisors=supervisors,
            workers=len(children) - supervisors,
        )

    # Parts of plans.

    def _restart(self, child: Child, now: float) -> Plan:
        self.restarts += 1
        child.restarts += 1
        if not self._window.admit(now):
            yield Report("shutdown", "reached_max_restart_intensity", child, child.pid)
            self._drop(child)
            return True
        backoff = child.spec.backoff or self.flags.backoff
        if backoff is None:
            return (yield from self._sweep(child, now))
        if child.delays is None:
            child.delays = Delays(backoff, self._rng)
        delay = child.delays.next(now)
        child.pid = None
        swept = self._swept(child)
        leader = self._waiting_elder(child) or child
        yield from self._stop_all(swept)
        # A temporary child that was stopped is forgotten.
        for other in swept:
            if self.children.get(other.spec.id) is other:
                other.pid, other.leader = RESTARTING, leader
        if leader is child:
            child.attempt += 1
            yield TryAgain(child.spec.id, child.attempt, delay)
        return False

    def _sweep(self, child: Child, now: float) -> Plan:
        """Restart a child, and those that its strategy restarts with it."""
        child.pid = RESTARTING
        child.leader = None
        if self.flags.strategy == "one_for_one":
            outcome = yield from self._start(child)
            failed = outcome if isinstance(outcome, Failed) else None
        else:
            child.pid = None
            swept = self._swept(child)
            yield from self._stop_all(swept)
            failed = yield from self._start_all([c for c in swept if c.spec.id in self.children])
        if failed is None:
            return False
        child = self.children[failed.id]
        child.pid = RESTARTING
        if child.spec.backoff is not None or self.flags.backoff is not None:
            return (yield from self._restart(child, now))
        yield TryAgain(failed.id)
        return False

    def _swept(self, child: Child) -> list[Child]:
        """The children that restart with ``child``, in start order."""
        if self.flags.strategy == "one_for_one":
            return [child]
        children = list(self.children.values())
        return children[children.index(child) :] if self.flags.strategy == "rest_for_one" else children

    def _waiting_elder(self, child: Child) -> Child | None:
        """The child whose wait ``child`` has to join: one that the strategy starts before it, or with it."""
        if self.flags.strategy == "one_for_one":
            return None
        children = list(self.children.values())
        if self.flags.strategy == "rest_for_one":
            children = children[: children.index(child)]
        return next((c.leader for c in children if c.leader is not None and c.leader is not child), None)

    def _start_all(self, children: list[Child]) -> Generator[Action, object, Failed | None]:
        for child in children:
            outcome = yield from self._start(child)
            if isinstance(outcome, Failed):
                return outcome
            if outcome is None and child.spec.restart == "temporary":
                del self.children[child.spec.id]
        return None

    def _start(self, child: Child) -> Generator[Action, object, Failed | Pid | None]:
        outcome = yield StartChild(child)
        if isinstance(outcome, Failed):
            yield Report("start_error", outcome.reason, child)
            child.pid = None
            return Failed(outcome.reason, child.spec.id)
        if isinstance(outcome, Pid):
            child.pid = outcome
            self._pids[outcome] = child
            return outcome
        child.pid = None
        return None

    def _stop_all(self, children: list[Child]) -> Generator[Action, object, None]:
        for child in reversed(children):
            pid, child.pid, child.leader = child.pid, None, None
            if isinstance(pid, Pid):
                del self._pids[pid]
                yield StopChild(child, pid)
            if child.spec.restart == "temporary":
                self.children.pop(child.spec.id, None)

    def _drop(self, child: Child) -> None:
        """Take a child as ended; a temporary one is forgotten."""
        child.pid = child.leader = None
        if child.spec.restart == "temporary":
            del self.children[child.spec.id]

    def _shuts_down(self, child: Child) -> bool:
        if not child.spec.significant:
            return False
        if self.flags.auto_shutdown == "all_significant":
            return not any(c.spec.significant and c.pid is not None for c in self.children.values())
        return self.flags.auto_shutdown == "any_significant"
