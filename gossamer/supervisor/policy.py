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
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Literal

from msgspec import Struct

from gossamer.supervisor.intensity import RestartWindow
from gossamer.supervisor.spec import ChildCounts, ChildInfo, ChildSpec, Flags
from gossamer.supervisor.values import Pid, Reason, is_clean

__all__ = ["Action", "Child", "Failed", "Plan", "Policy", "Report", "StartChild", "StopChild", "TryAgain"]

RESTARTING: Literal["restarting"] = "restarting"


class Child:
    """A specification and what became of it."""

    __slots__ = ("pid", "restarts", "spec")

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.pid: Pid | Literal["restarting"] | None = None
        self.restarts = 0


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
    """Come back with ``try_again(id)`` once the messages that wait now are served. Outcome: None."""

    id: str


class Failed(Struct, frozen=True):
    """A child did not start."""

    reason: Reason
    id: str = ""


Action = StartChild | StopChild | Report | TryAgain
Plan = Generator[Action, object, bool]


class Policy:
    """The state of one supervisor."""

    def __init__(self, flags: Flags) -> None:
        self.flags = flags
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

    def try_again(self, child_id: str, now: float) -> Plan:
        """The next attempt for a child whose restart failed, unless somebody stopped it meanwhile."""
        child = self.children.get(child_id)
        if child is None or child.pid != RESTARTING:
            return False
        return (yield from self._restart(child, now))

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
        yield from self._stop_all([child])
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
        child.pid = RESTARTING
        strategy = self.flags.strategy
        if strategy == "one_for_one":
            outcome = yield from self._start(child)
            if isinstance(outcome, Failed):
                child.pid = RESTARTING
                yield TryAgain(child.spec.id)
            return False
        swept = list(self.children.values())
        if strategy == "rest_for_one":
            swept = swept[swept.index(child) :]
        child.pid = None
        yield from self._stop_all(swept)
        failed = yield from self._start_all([c for c in swept if c.spec.id in self.children])
        if failed is not None:
            self.children[failed.id].pid = RESTARTING
            yield TryAgain(failed.id)
        return False

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
            pid, child.pid = child.pid, None
            if isinstance(pid, Pid):
                del self._pids[pid]
                yield StopChild(child, pid)
            if child.spec.restart == "temporary":
                self.children.pop(child.spec.id, None)

    def _drop(self, child: Child) -> None:
        """It runs no more, for good; a temporary one is forgotten."""
        child.pid = None
        if child.spec.restart == "temporary":
            del self.children[child.spec.id]

    def _shuts_down(self, child: Child) -> bool:
        if not child.spec.significant:
            return False
        if self.flags.auto_shutdown == "all_significant":
            return not any(c.spec.significant and c.pid is not None for c in self.children.values())
        return self.flags.auto_shutdown == "any_significant"
