"""DynamicSupervisor: any number of children that come and go, each on its own (``one_for_one``).

Children have no ids; their pid addresses them. A child that is restarted gets a new pid, one that ends
for good is forgotten. Stopping is in parallel, on one shared timer: the longest ``shutdown`` among the
children.

A port is a child like any other. A connection opens in a synchronous callback, so ``adopt`` takes an open
port without a call: link it to the supervisor first, ``port.open(link_to=supervisor)``.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any, Literal

import structlog
from msgspec import Struct

from gossamer.supervisor.errors import BadChildSpec, ChildNotFound, MaxChildren, StartFailed
from gossamer.supervisor.process.calls import Caller
from gossamer.supervisor.process.functions import cast, send_after, trap_exit
from gossamer.supervisor.server.genserver import GenServer, NoReply, Reply, Stop
from gossamer.supervisor.supervise.backoff import Backoff, Delays
from gossamer.supervisor.supervise.children import (
    ask,
    expected_end,
    flush_exit,
    killed_late,
    offender,
    reap,
    start_unless_told,
)
from gossamer.supervisor.supervise.intensity import RestartWindow
from gossamer.supervisor.supervise.policy import Failed
from gossamer.supervisor.supervise.spec import ChildCounts, ChildInfo, ChildSpec, Flags, check_is_spec
from gossamer.supervisor.values import (
    KILL,
    SHUTDOWN,
    Cast,
    Destination,
    Exit,
    Pid,
    Reason,
    describe,
    is_clean,
)

__all__ = ["DynamicSupervisor"]

log = structlog.get_logger(__name__)


class _StartChild(Struct, frozen=True):
    spec: ChildSpec


class _Terminate(Struct, frozen=True):
    pid: Pid


class _Adopt(Struct, frozen=True):
    pid: Pid
    spec: ChildSpec


class _About(Struct, frozen=True):
    what: str


class _TryAgain(Struct, frozen=True):
    number: int


class _Past(Struct):
    """What a child that was restarted takes along."""

    restarts: int = 0
    delays: Delays | None = None


class DynamicSupervisor(GenServer):
    """Starts, restarts and stops children that are added while it runs; a pid names each of them."""

    kind = "supervisor"

    async def init(
        self,
        max_children: int | None = None,
        intensity: int = 1,
        period: float = 5.0,
        strategy: Literal["one_for_one"] = "one_for_one",
        backoff: Backoff | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Begin without children; ``max_children`` None is any number.

        More than ``intensity`` restarts in ``period`` seconds end the supervisor. ``backoff`` makes restarts
        wait, as in ``Supervisor``; a child that waits counts against ``max_children``.

        Raises:
            BadChildSpec: a flag makes no sense.
        """
        if strategy != "one_for_one":
            raise BadChildSpec("DynamicSupervisor", "strategy", strategy, "'one_for_one'")
        if max_children is not None and (not isinstance(max_children, int) or max_children < 0):
            raise BadChildSpec("DynamicSupervisor", "max_children", max_children, "a number or None")
        self._flags = Flags(intensity=intensity, period=period, backoff=backoff)
        self._rng = rng or random.Random()
        trap_exit(True)
        self.max_children = max_children
        self.restarts = 0
        self._window = RestartWindow(intensity=intensity, period=period)
        self._children: dict[Pid, ChildSpec] = {}
        self._restarted: dict[Pid, _Past] = {}
        self._pending: dict[int, tuple[ChildSpec, _Past]] = {}
        self._next = 0

    def restarts_of(self, pid: Pid) -> int:
        """Return how often the child that runs as ``pid`` was restarted."""
        past = self._restarted.get(pid)
        return 0 if past is None else past.restarts

    # Administration.

    @staticmethod
    async def start_child(
        supervisor: Destination, spec: ChildSpec, timeout: float | None = None
    ) -> Pid | None:
        """Start one more child; None when it ignores.

        Raises:
            MaxChildren: the supervisor holds as many as it may.
            StartFailed: it did not start.
        """
        answer: Pid | None = await ask(supervisor, _StartChild(spec), timeout)
        return answer

    @staticmethod
    def adopt(supervisor: Destination, pid: Pid, spec: ChildSpec) -> None:
        """Make an open port, linked to the supervisor already, its temporary child; without waiting.

        ``spec`` may be one object for all of them. Above ``max_children`` the port is shut down.
        """
        cast(supervisor, _Adopt(pid, spec))

    @staticmethod
    async def terminate_child(supervisor: Destination, pid: Pid, timeout: float | None = None) -> None:
        """Stop a child and forget it.

        Raises:
            ChildNotFound: no child runs as ``pid``.
        """
        await ask(supervisor, _Terminate(pid), timeout)

    @staticmethod
    async def which_children(supervisor: Destination, timeout: float | None = None) -> list[ChildInfo]:
        """Return every child, oldest first; those between attempts to restart come last."""
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
        if isinstance(request, _Terminate):
            return Reply(await self._terminate_child(request.pid))
        if isinstance(request, _About):
            return Reply(self._which() if request.what == "which" else self._count())
        return await super().handle_call(request, caller)

    async def handle_cast(self, request: Any) -> NoReply | Stop | None:
        if isinstance(request, _Adopt):
            self._adopt(request)
            return None
        if isinstance(request, _TryAgain):
            spec, past = self._pending.pop(request.number)
            return await (self._attempt(spec, past) if self._backoff(spec) else self._restart(spec, past))
        return await super().handle_cast(request)

    async def handle_info(self, message: Any) -> NoReply | Stop | None:
        if isinstance(message, Exit):
            return await self._exited(message.source, message.reason)
        return await super().handle_info(message)

    async def terminate(self, reason: Reason) -> None:
        await self._stop_all()

    # The shell.

    async def _start_child(self, spec: object) -> Any:
        try:
            check_is_spec("DynamicSupervisor", spec)
        except BadChildSpec as error:
            return error
        assert isinstance(spec, ChildSpec)  # noqa: S101
        if spec.significant:
            return BadChildSpec("DynamicSupervisor", "significant", True, "False: it has no auto_shutdown")
        if self.max_children is not None and self._size() >= self.max_children:
            return MaxChildren(self.max_children)
        outcome = await start_unless_told(self._otp_process, spec)
        if isinstance(outcome, Failed):
            self._report("start_error", outcome.reason, spec, None)
            return StartFailed(f"child {spec.id!r}", outcome.reason)
        if outcome is not None:
            self._children[outcome] = spec
        return outcome

    def _size(self) -> int:
        return len(self._children) + len(self._pending)

    def _adopt(self, request: _Adopt) -> None:
        runtime = self._otp_process.runtime
        if not runtime.alive(request.pid):
            return
        if self.max_children is not None and self._size() >= self.max_children:
            runtime.exit(request.pid, (SHUTDOWN, "max_children"))
            return
        self._children[request.pid] = request.spec

    async def _terminate_child(self, pid: Pid) -> Any:
        spec = self._children.pop(pid, None)
        if spec is None:
            return ChildNotFound(pid)
        self._restarted.pop(pid, None)
        reason = await reap(self._otp_process.runtime, pid, spec.shutdown)
        flush_exit(self._otp_process, pid)
        if not expected_end(reason, spec):
            self._report("shutdown_error", reason, spec, pid)
        return None

    async def _exited(self, pid: Pid, reason: Reason) -> Stop | None:
        spec = self._children.pop(pid, None)
        if spec is None:
            return None
        past = self._restarted.pop(pid, None) or _Past()
        clean = is_clean(reason)
        again = spec.restart == "permanent" or (spec.restart == "transient" and not clean)
        if again or not clean:
            self._report("child_terminated", reason, spec, pid, past.restarts)
        return await self._restart(spec, past) if again else None

    async def _restart(self, spec: ChildSpec, past: _Past) -> Stop | None:
        """Count a failure; then restart the child, now or when its wait is over."""
        self.restarts += 1
        past.restarts += 1
        now = self._otp_process.loop.time()
        self._otp_process.runtime.restarts[self._otp_process.name or ""] += 1
        if not self._window.admit(now):
            self._report("shutdown", "reached_max_restart_intensity", spec, None, past.restarts)
            return Stop(SHUTDOWN)
        backoff = self._backoff(spec)
        if backoff is None:
            return await self._attempt(spec, past)
        if past.delays is None:
            past.delays = Delays(backoff, self._rng)
        self._put_off(spec, past, past.delays.next(now))
        return None

    async def _attempt(self, spec: ChildSpec, past: _Past) -> Stop | None:
        outcome = await start_unless_told(self._otp_process, spec)
        if isinstance(outcome, Failed):
            self._report("start_error", outcome.reason, spec, None, past.restarts)
            if self._backoff(spec) is not None:
                return await self._restart(spec, past)
            self._put_off(spec, past, 0.0)
            # Attempts that fail at once must not hold the loop.
            await asyncio.sleep(0)
        elif outcome is not None:
            self._children[outcome] = spec
            self._restarted[outcome] = past
        return None

    def _put_off(self, spec: ChildSpec, past: _Past, delay: float) -> None:
        self._next += 1
        self._pending[self._next] = (spec, past)
        order = _TryAgain(self._next)
        if delay:
            send_after(delay, self._otp_process.pid, Cast(order))
        else:
            self._otp_process.runtime.cast(self._otp_process.pid, order)

    def _backoff(self, spec: ChildSpec) -> Backoff | None:
        return spec.backoff or self._flags.backoff

    async def _stop_all(self) -> None:
        runtime = self._otp_process.runtime
        children, self._children = self._children, {}
        self._pending.clear()
        limits: list[float] = [0.0]
        ends: dict[Pid, asyncio.Future[Reason]] = {}
        for pid, spec in children.items():
            ends[pid] = runtime.join(pid)
            if spec.shutdown == "infinity":
                limits.append(float("inf"))
            elif isinstance(spec.shutdown, int | float):
                limits.append(spec.shutdown)
            runtime.exit(pid, KILL if spec.shutdown == "brutal_kill" else SHUTDOWN)
        waiting = [end for end in ends.values() if not end.done()]
        if waiting:
            limit = max(limits)
            await asyncio.wait(waiting, timeout=None if limit == float("inf") else limit)
        late = [pid for pid, end in ends.items() if not end.done()]
        for pid in late:
            runtime.exit(pid, KILL)
        errors: Counter[str] = Counter()
        for pid, end in ends.items():
            reason = await end
            if not expected_end(reason, children[pid]):
                errors[describe(reason)] += 1
        for text, number in errors.items():
            log.error("shutdown_error", supervisor=self._name(), reason=text, children=number)

    def _which(self) -> list[ChildInfo]:
        running = [ChildInfo(spec.id, pid, spec.type) for pid, spec in self._children.items()]
        return running + [ChildInfo(spec.id, "restarting", spec.type) for spec, _ in self._pending.values()]

    def _count(self) -> ChildCounts:
        specs = [*self._children.values(), *(spec for spec, _ in self._pending.values())]
        supervisors = sum(spec.type == "supervisor" for spec in specs)
        return ChildCounts(len(specs), len(self._children), supervisors, len(specs) - supervisors)

    def _report(
        self, context: str, reason: Reason, spec: ChildSpec, pid: Pid | None, restarts: int = 0
    ) -> None:
        log.error(
            context,
            supervisor=self._name(),
            reason=describe(reason),
            **killed_late(context, reason, spec),
            offender=offender(spec, pid, restarts),
        )

    def _name(self) -> str:
        return self._otp_process.name or f"{self._otp_process.label} {self._otp_process.pid}"
