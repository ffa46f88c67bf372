"""Supervisor: carries out what the policy decides, and answers its administrators.

It is a GenServer that traps exits. Every action is awaited before the next, as in OTP: children start and
stop one after another, and requests wait meanwhile. Stopping watches for the child's end by its table
row, not by a link, so a child that unlinked cannot hang its supervisor.

The administrator's functions are static methods that take the supervisor's pid or name, to be called from
any process: ``await Supervisor.start_child(sup, spec)``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Generator, Iterable
from typing import Any, TypeVar

import structlog
from msgspec import Struct

from gossamer.supervisor.errors import (
    AlreadyPresent,
    AlreadyStarted,
    BadChildSpec,
    ChildNotFound,
    ChildRestarting,
    ChildRunning,
    StartFailed,
    StopInit,
)
from gossamer.supervisor.process.calls import Caller
from gossamer.supervisor.process.functions import send_after, trap_exit
from gossamer.supervisor.server.genserver import GenServer, NoReply, Reply, Stop
from gossamer.supervisor.supervise.backoff import Backoff
from gossamer.supervisor.supervise.children import (
    ask,
    expected_end,
    flush_exit,
    killed_late,
    offender,
    reap,
    start_unless_told,
)
from gossamer.supervisor.supervise.policy import (
    RESTARTING,
    Action,
    Child,
    Failed,
    Policy,
    Report,
    StartChild,
    StopChild,
    TryAgain,
)
from gossamer.supervisor.supervise.spec import (
    AutoShutdown,
    ChildCounts,
    ChildInfo,
    ChildSpec,
    Flags,
    Strategy,
    check_children,
)
from gossamer.supervisor.values import SHUTDOWN, Cast, Destination, Exit, Pid, Reason, describe

__all__ = ["Supervisor"]

log = structlog.get_logger(__name__)

T = TypeVar("T")


class _StartChild(Struct, frozen=True):
    spec: ChildSpec


class _OfChild(Struct, frozen=True):
    operation: str
    id: str


class _About(Struct, frozen=True):
    what: str


class Supervisor(GenServer):
    """Starts, restarts and stops the children it is given."""

    kind = "supervisor"

    policy: Policy

    @property
    def restarts(self) -> int:
        """Restarts of children so far, failed attempts included."""
        return self.policy.restarts

    def restarts_of(self, pid: Pid) -> int:
        """Return how often the child that runs as ``pid`` was restarted."""
        child = self.policy.find(pid)
        return 0 if child is None else child.restarts

    async def init(
        self,
        children: Iterable[ChildSpec] = (),
        strategy: Strategy = "one_for_one",
        intensity: int = 1,
        period: float = 5.0,
        auto_shutdown: AutoShutdown = "never",
        backoff: Backoff | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Start ``children`` left to right; if one fails, stop those before it and fail.

        More than ``intensity`` restarts in ``period`` seconds end the supervisor, and what is above it
        decides. ``backoff`` makes restarts wait, for children whose specification has none of its own; None
        restarts at once, as OTP does. ``rng`` is the source of its jitter.

        Raises:
            BadChildSpec: a specification or a flag makes no sense; nothing was started.
        """
        flags = Flags(
            strategy=strategy,
            intensity=intensity,
            period=period,
            auto_shutdown=auto_shutdown,
            backoff=backoff,
        )
        specs = list(children)
        check_children(flags, specs)
        trap_exit(True)
        self.policy = Policy(flags, rng)
        failed = await self._carry_out(self.policy.boot(specs))
        if failed is not None:
            raise StopInit((SHUTDOWN, ("failed_to_start_child", failed.id, failed.reason)))

    # Administration.

    @staticmethod
    async def start_child(
        supervisor: Destination, spec: ChildSpec, timeout: float | None = None
    ) -> Pid | None:
        """Add a child and start it; None when it ignores.

        Raises:
            AlreadyStarted, AlreadyPresent: the id is taken.
            StartFailed: it did not start, and is forgotten again.
        """
        answer: Pid | None = await ask(supervisor, _StartChild(spec), timeout)
        return answer

    @staticmethod
    async def terminate_child(supervisor: Destination, child_id: str, timeout: float | None = None) -> None:
        """Stop a child, or its attempts to restart; a second time does nothing. A temporary one is forgotten.

        Raises:
            ChildNotFound: no such id.
        """
        await ask(supervisor, _OfChild("terminate", child_id), timeout)

    @staticmethod
    async def restart_child(
        supervisor: Destination, child_id: str, timeout: float | None = None
    ) -> Pid | None:
        """Start a child that was terminated.

        Raises:
            ChildRunning, ChildRestarting, ChildNotFound: it cannot be.
            StartFailed: it did not start.
        """
        answer: Pid | None = await ask(supervisor, _OfChild("restart", child_id), timeout)
        return answer

    @staticmethod
    async def delete_child(supervisor: Destination, child_id: str, timeout: float | None = None) -> None:
        """Forget a child that was terminated.

        Raises:
            ChildRunning, ChildRestarting, ChildNotFound: it cannot be.
        """
        await ask(supervisor, _OfChild("delete", child_id), timeout)

    @staticmethod
    async def get_childspec(
        supervisor: Destination, child_id: str, timeout: float | None = None
    ) -> ChildSpec:
        """Return the specification of a child.

        Raises:
            ChildNotFound: no such id.
        """
        answer: ChildSpec = await ask(supervisor, _OfChild("spec", child_id), timeout)
        return answer

    @staticmethod
    async def which_children(supervisor: Destination, timeout: float | None = None) -> list[ChildInfo]:
        """Return every child, in start order."""
        answer: list[ChildInfo] = await ask(supervisor, _About("which"), timeout)
        return answer

    @staticmethod
    async def count_children(supervisor: Destination, timeout: float | None = None) -> ChildCounts:
        """Return how many children there are of each kind."""
        answer: ChildCounts = await ask(supervisor, _About("count"), timeout)
        return answer

    # Callbacks.

    async def handle_call(self, request: Any, caller: Caller) -> Reply | NoReply | Stop:
        if isinstance(request, _StartChild):
            return Reply(await self._start_child(request.spec))
        if isinstance(request, _OfChild):
            child = self.policy.children.get(request.id)
            if child is None:
                return Reply(ChildNotFound(repr(request.id), list(self.policy.children)))
            return Reply(await self._of_child(request.operation, child))
        if isinstance(request, _About):
            return Reply(self.policy.which() if request.what == "which" else self.policy.count())
        return await super().handle_call(request, caller)

    async def handle_cast(self, request: Any) -> NoReply | Stop | None:
        if isinstance(request, TryAgain):
            now = self._otp_process.loop.time()
            return await self._decide(self.policy.try_again(request.id, now, request.attempt))
        return await super().handle_cast(request)

    async def handle_info(self, message: Any) -> NoReply | Stop | None:
        if isinstance(message, Exit):
            return await self._decide(
                self.policy.exited(message.source, message.reason, self._otp_process.loop.time())
            )
        return await super().handle_info(message)

    async def terminate(self, reason: Reason) -> None:
        await self._carry_out(self.policy.stop())

    # The shell.

    async def _start_child(self, spec: ChildSpec) -> Any:
        try:
            self.policy.flags.check(spec)
        except BadChildSpec as error:
            return error
        present = self.policy.children.get(spec.id)
        if present is not None:
            return AlreadyPresent(spec.id) if present.pid is None else AlreadyStarted(spec.id, present.pid)
        return _as_answer(spec.id, await self._carry_out(self.policy.start_child(spec)))

    async def _of_child(self, operation: str, child: Child) -> Any:
        if operation == "spec":
            return child.spec
        if operation == "terminate":
            await self._carry_out(self.policy.terminate_child(child))
            return None
        if child.pid == RESTARTING:
            return ChildRestarting(child.spec.id)
        if isinstance(child.pid, Pid):
            return ChildRunning(child.spec.id, child.pid)
        if operation == "delete":
            del self.policy.children[child.spec.id]
            return None
        return _as_answer(child.spec.id, await self._carry_out(self.policy.restart_child(child)))

    async def _decide(self, plan: Generator[Action, object, bool]) -> Stop | None:
        before = self.policy.restarts
        over = await self._carry_out(plan)
        again = self.policy.restarts - before
        if again:
            self._otp_process.runtime.restarts[self._otp_process.name or ""] += again
        return Stop(SHUTDOWN) if over else None

    async def _carry_out(self, plan: Generator[Action, object, T]) -> T:
        outcome: object = None
        while True:
            try:
                action = plan.send(outcome)
            except StopIteration as end:
                value: T = end.value
                return value
            outcome = None
            if isinstance(action, StartChild):
                outcome = await start_unless_told(self._otp_process, action.child.spec)
                self._note_start(action.child, outcome)
            elif isinstance(action, StopChild):
                reason = await reap(self._otp_process.runtime, action.pid, action.child.spec.shutdown)
                flush_exit(self._otp_process, action.pid)
                if not expected_end(reason, action.child.spec):
                    self._report(Report("shutdown_error", reason, action.child, action.pid))
            elif isinstance(action, Report):
                self._report(action)
            elif action.delay:
                send_after(action.delay, self._otp_process.pid, Cast(action))
            else:
                self._otp_process.runtime.cast(self._otp_process.pid, action)
                # Attempts that fail at once must not hold the loop.
                await asyncio.sleep(0)

    def _note_start(self, child: Child, outcome: object) -> None:
        if isinstance(outcome, Pid):
            log.debug("progress", supervisor=self._name(), child=child.spec.id, pid=str(outcome))

    def _report(self, report: Report) -> None:
        spec = report.child.spec
        log.error(
            report.context,
            supervisor=self._name(),
            reason=describe(report.reason),
            **killed_late(report.context, report.reason, spec),
            offender=offender(spec, report.pid, report.child.restarts),
        )

    def _name(self) -> str:
        return self._otp_process.name or f"{self._otp_process.label} {self._otp_process.pid}"


def _as_answer(child_id: str, outcome: Failed | Pid | None) -> Any:
    return StartFailed(f"child {child_id!r}", outcome.reason) if isinstance(outcome, Failed) else outcome
