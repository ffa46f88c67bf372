"""DynamicSupervisor: any number of independent children added at run time (``one_for_one``).

Children have no ids; their pid addresses them. A child that is restarted gets a new pid, one that is not
is removed. Stopping is in parallel, on one shared timer: the longest ``shutdown`` among the
children.

A port is a child like any other. A connection opens in a synchronous callback, so ``adopt`` adds an open
port without a call: link it to the supervisor first, ``port.open(link_to=supervisor)``. For a child that was
never restarted only its specification is kept: there may be hundreds of thousands.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Literal

import structlog
from msgspec import Struct

from gossamer.supervisor.errors import BadChildSpec, ChildNotFound, MaxChildren, StartFailed
from gossamer.supervisor.process.functions import cast
from gossamer.supervisor.server.genserver import NoReply, Stop
from gossamer.supervisor.supervise.children import (
    Child,
    ChildKeeper,
    Failed,
    TryAgain,
    ask,
    expected_end,
    reap,
)
from gossamer.supervisor.supervise.spec import Backoff, ChildSpec, Flags, check, check_is_spec
from gossamer.supervisor.values import SHUTDOWN, Destination, Pid, Reason, describe

log = structlog.get_logger(__name__)


class _Adopt(Struct, frozen=True):
    pid: Pid
    spec: ChildSpec


class DynamicSupervisor(ChildKeeper):
    """Starts, restarts and stops children that are added while it runs, addressed by pid."""

    async def init(
        self,
        max_children: int | None = None,
        intensity: int = 1,
        period: float = 5.0,
        strategy: Literal["one_for_one"] = "one_for_one",
        backoff: Backoff | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Start without children; ``max_children`` None: no limit.

        More than ``intensity`` restarts in ``period`` seconds end the supervisor. ``backoff`` delays
        restarts, as in ``Supervisor``; a child that waits counts against ``max_children``.

        Raises:
            BadChildSpec: a flag is invalid.
        """
        where = "DynamicSupervisor"
        check(strategy == "one_for_one", where, "strategy", strategy, "'one_for_one'")
        counts = max_children is None or (isinstance(max_children, int) and max_children >= 0)
        check(counts, where, "max_children", max_children, "a number or None")
        self._begin(Flags(intensity=intensity, period=period, backoff=backoff), rng)
        self.max_children = max_children
        self._children: dict[Pid, ChildSpec] = {}
        self._restarted: dict[Pid, Child] = {}
        self._waiting: dict[Child, None] = {}

    def restarts_of(self, pid: Pid) -> int:
        """Return how often the child that runs as ``pid`` was restarted."""
        child = self._restarted.get(pid)
        return 0 if child is None else child.restarts

    # Administration.

    @staticmethod
    async def start_child(
        supervisor: Destination, spec: ChildSpec, timeout: float | None = None
    ) -> Pid | None:
        """Start one more child; return None if it raised ``Ignore``.

        Raises:
            MaxChildren: the supervisor is at its limit.
            StartFailed: it did not start.
        """
        return await ask(supervisor, timeout, DynamicSupervisor._start_child, spec)

    @staticmethod
    def adopt(supervisor: Destination, pid: Pid, spec: ChildSpec) -> None:
        """Add an open port, already linked to the supervisor, as a temporary child, without waiting.

        ``spec`` may be one object for all of them. Above ``max_children`` the port is shut down.
        """
        cast(supervisor, _Adopt(pid, spec))

    @staticmethod
    async def terminate_child(supervisor: Destination, pid: Pid, timeout: float | None = None) -> None:
        """Stop a child and remove it.

        Raises:
            ChildNotFound: no child runs as ``pid``.
        """
        await ask(supervisor, timeout, DynamicSupervisor._terminate_child, pid)

    async def _start_child(self, spec: ChildSpec) -> Pid | None:
        check_is_spec("DynamicSupervisor", spec)
        if spec.significant:
            raise BadChildSpec("DynamicSupervisor", "significant", True, "False: it has no auto_shutdown")
        self._check_room()
        outcome = await self._launch(spec)
        if isinstance(outcome, Failed):
            raise StartFailed(f"child {spec.id!r}", outcome.reason)
        if outcome is not None:
            self._children[outcome] = spec
        return outcome

    async def _terminate_child(self, pid: Pid) -> None:
        spec = self._children.pop(pid, None)
        if spec is None:
            raise ChildNotFound(pid)
        self._restarted.pop(pid, None)
        await self._stop(spec, pid)

    async def handle_cast(self, request: object) -> NoReply | Stop | None:
        if type(request) is not _Adopt:
            return await super().handle_cast(request)
        runtime = self._otp_process.runtime
        if not runtime.alive(request.pid):
            return None
        try:
            self._check_room()
        except MaxChildren:
            runtime.exit(request.pid, (SHUTDOWN, "max_children"))
        else:
            self._children[request.pid] = request.spec
        return None

    def _check_room(self) -> None:
        limit = self.max_children
        if limit is not None and len(self._children) + len(self._waiting) >= limit:
            raise MaxChildren(limit)

    # Ends and restarts.

    def _members(self) -> Iterator[tuple[ChildSpec, Pid | Literal["restarting"] | None]]:
        yield from ((spec, pid) for pid, spec in self._children.items())
        yield from ((child.spec, "restarting") for child in self._waiting)

    async def _exited(self, pid: Pid, reason: Reason) -> Stop | None:
        spec = self._children.pop(pid, None)
        if spec is None:
            return None
        child = self._restarted.pop(pid, None)
        if not self._restarts_again(spec, pid, reason, 0 if child is None else child.restarts):
            return None
        return await self._restart(child or Child(spec))

    async def _try_again(self, order: TryAgain) -> Stop | None:
        del self._waiting[order.child]
        # With back-off the failure counted when the wait began.
        counted = self._backoff(order.child) is not None
        return await (self._attempt(order.child) if counted else self._restart(order.child))

    async def _restart(self, child: Child) -> Stop | None:
        """Count a failure; then restart the child, now or after its wait."""
        if not self._admit(child):
            return Stop(SHUTDOWN)
        delay = self._delay(child)
        if not delay:
            return await self._attempt(child)
        self._waiting[child] = None
        await self._try_later(child, delay)
        return None

    async def _attempt(self, child: Child) -> Stop | None:
        outcome = await self._launch(child.spec, child.restarts)
        if isinstance(outcome, Pid):
            self._children[outcome] = child.spec
            self._restarted[outcome] = child
        elif outcome is not None:
            if self._backoff(child) is not None:
                return await self._restart(child)
            self._waiting[child] = None
            await self._try_later(child)
        return None

    async def terminate(self, reason: Reason) -> None:
        children, self._children = self._children, {}
        self._waiting.clear()
        reasons = await reap(self._otp_process, {pid: spec.shutdown for pid, spec in children.items()})
        errors = Counter(
            describe(reason) for pid, reason in reasons.items() if not expected_end(reason, children[pid])
        )
        for text, number in errors.items():
            log.error("shutdown_error", supervisor=self._name(), reason=text, children=number)
