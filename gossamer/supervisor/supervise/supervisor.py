"""Supervisor: starts, restarts and stops children in order, by a strategy.

Every step is awaited before the next, as in OTP: children start and stop one after another, and requests
wait meanwhile. Rules (``supervisor.erl``): 1. Children start in order of their specifications and stop in
reverse.  2. A sweep counts once against the intensity, and every failed attempt once more.  3. A restart that
fails leaves the child "restarting" and queues the next attempt behind the messages in the mailbox, so the
supervisor keeps answering.  4. Temporary children are never restarted, not even as part of a sweep.
5. A significant child shuts its supervisor down only when it ends by itself, never by ``terminate_child`` or
a sweep.

With back-off (off by default) a restart waits.  6. ``rest_for_one`` and ``one_for_all`` stop the others at
once, in reverse order, and start them in order when the wait is over; until then all of them are
"restarting".  7. A child that fails while one waits that starts before it, or with it, joins that wait: no
child starts before those it follows.  8. ``terminate_child`` of the child that failed ends the wait, and what
was stopped with it stays stopped.

The administrator's functions are static methods that take the supervisor's pid or name, to be called from
any process: ``await Supervisor.start_child(sup, spec)``.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Literal

import structlog

from gossamer.supervisor.errors import (
    AlreadyPresent,
    AlreadyStarted,
    ChildNotFound,
    ChildRestarting,
    ChildRunning,
    StartFailed,
    StopInit,
)
from gossamer.supervisor.server.genserver import Stop
from gossamer.supervisor.supervise.children import Child, ChildKeeper, Failed, TryAgain, ask
from gossamer.supervisor.supervise.spec import (
    AutoShutdown,
    Backoff,
    ChildSpec,
    Flags,
    Strategy,
    check_children,
)
from gossamer.supervisor.values import SHUTDOWN, Destination, Pid, Reason

log = structlog.get_logger(__name__)

RESTARTING: Literal["restarting"] = "restarting"


class Supervisor(ChildKeeper):
    """Starts, restarts and stops its children."""

    def restarts_of(self, pid: Pid) -> int:
        """Return how often the child that runs as ``pid`` was restarted."""
        child = self._running.get(pid)
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

        More than ``intensity`` restarts in ``period`` seconds end the supervisor, and its own supervisor
        decides. ``backoff`` delays restarts of children whose specification has none of its own; None
        restarts at once, as OTP does. ``rng`` is the source of its jitter.

        Raises:
            BadChildSpec: a specification or a flag is invalid; nothing was started.
        """
        flags, specs = Flags(strategy, intensity, period, auto_shutdown, backoff), list(children)
        check_children(flags, specs)
        self._begin(flags, rng)
        self._children = {spec.id: Child(spec) for spec in specs}
        self._running: dict[Pid, Child] = {}
        # Whoever starts this supervisor is given the reason, and reports it: once, however deep the child is.
        failed = await self._start_all(list(self._children.values()), report=False)
        if failed is not None:
            await self._stop_all(list(self._children.values()))
            raise StopInit((SHUTDOWN, ("failed_to_start_child", failed.id, failed.reason)))

    # Administration.

    @staticmethod
    async def start_child(
        supervisor: Destination, spec: ChildSpec, timeout: float | None = None
    ) -> Pid | None:
        """Add a child and start it; return None if it raised ``Ignore``.

        Raises:
            AlreadyStarted, AlreadyPresent: the id is taken.
            StartFailed: it did not start, and was removed again.
        """
        return await ask(supervisor, timeout, Supervisor._start_child, spec)

    @staticmethod
    async def terminate_child(supervisor: Destination, child_id: str, timeout: float | None = None) -> None:
        """Stop a child, or its restart attempts; a second time does nothing. A temporary one is removed.

        Raises:
            ChildNotFound: no such id.
        """
        await ask(supervisor, timeout, Supervisor._terminate_child, child_id)

    @staticmethod
    async def restart_child(
        supervisor: Destination, child_id: str, timeout: float | None = None
    ) -> Pid | None:
        """Start a child that was terminated.

        Raises:
            ChildRunning, ChildRestarting, ChildNotFound: it cannot be.
            StartFailed: it did not start.
        """
        return await ask(supervisor, timeout, Supervisor._restart_child, child_id)

    @staticmethod
    async def delete_child(supervisor: Destination, child_id: str, timeout: float | None = None) -> None:
        """Remove a child that was terminated.

        Raises:
            ChildRunning, ChildRestarting, ChildNotFound: it cannot be.
        """
        await ask(supervisor, timeout, Supervisor._delete_child, child_id)

    @staticmethod
    async def get_childspec(
        supervisor: Destination, child_id: str, timeout: float | None = None
    ) -> ChildSpec:
        """Return the specification of a child.

        Raises:
            ChildNotFound: no such id.
        """
        return await ask(supervisor, timeout, Supervisor._get_childspec, child_id)

    async def _start_child(self, spec: ChildSpec) -> Pid | None:
        self._flags.check(spec)
        present = self._children.get(spec.id)
        if present is not None:
            raise AlreadyPresent(spec.id) if present.pid is None else AlreadyStarted(spec.id, present.pid)
        self._children[spec.id] = child = Child(spec)
        try:
            # The caller is given the reason.
            return await self._start_or_raise(child, report=False)
        except StartFailed:
            del self._children[spec.id]
            raise

    async def _terminate_child(self, child_id: str) -> None:
        child = self._find(child_id)
        led = [other for other in self._children.values() if other.leader is child]
        await self._stop_all([child])
        for other in led:
            other.pid = other.leader = None

    async def _restart_child(self, child_id: str) -> Pid | None:
        return await self._start_or_raise(self._find_idle(child_id))

    async def _delete_child(self, child_id: str) -> None:
        del self._children[self._find_idle(child_id).spec.id]

    async def _get_childspec(self, child_id: str) -> ChildSpec:
        return self._find(child_id).spec

    def _find(self, child_id: str) -> Child:
        child = self._children.get(child_id)
        if child is None:
            raise ChildNotFound(repr(child_id), list(self._children))
        return child

    def _find_idle(self, child_id: str) -> Child:
        child = self._find(child_id)
        if child.pid == RESTARTING:
            raise ChildRestarting(child_id)
        if isinstance(child.pid, Pid):
            raise ChildRunning(child_id, child.pid)
        return child

    async def _start_or_raise(self, child: Child, *, report: bool = True) -> Pid | None:
        outcome = await self._start(child, report=report)
        if isinstance(outcome, Failed):
            raise StartFailed(f"child {child.spec.id!r}", outcome.reason)
        return outcome

    # Ends and restarts.

    def _members(self) -> Iterator[tuple[ChildSpec, Pid | Literal["restarting"] | None]]:
        return ((child.spec, child.pid) for child in self._children.values())

    async def terminate(self, reason: Reason) -> None:
        await self._stop_all(list(self._children.values()))

    async def _exited(self, pid: Pid, reason: Reason) -> Stop | None:
        child = self._running.pop(pid, None)
        if child is None:
            return None
        if self._restarts_again(child.spec, pid, reason, child.restarts):
            return await self._restart(child)
        self._drop(child)
        return Stop(SHUTDOWN) if self._shuts_down(child) else None

    async def _try_again(self, order: TryAgain) -> Stop | None:
        child = order.child
        if self._children.get(child.spec.id) is not child or child.pid != RESTARTING:
            # It was stopped by a request.
            return None
        if child.leader is None:
            return await self._restart(child)
        if child.leader is child and child.attempt == order.attempt:
            return await self._sweep(child)
        return None

    async def _restart(self, child: Child) -> Stop | None:
        if not self._admit(child):
            self._drop(child)
            return Stop(SHUTDOWN)
        delay = self._delay(child)
        if not delay:
            return await self._sweep(child)
        child.pid = None
        swept = self._swept(child)
        leader = self._waiting_elder(child) or child
        await self._stop_all(swept)
        # A temporary child that was stopped is removed.
        for other in swept:
            if self._children.get(other.spec.id) is other:
                other.pid, other.leader = RESTARTING, leader
        if leader is child:
            child.attempt += 1
            await self._try_later(child, delay)
        return None

    async def _sweep(self, child: Child) -> Stop | None:
        """Restart a child, and those that its strategy restarts with it."""
        child.pid = None
        swept = self._swept(child)
        await self._stop_all(swept)
        failed = await self._start_all([c for c in swept if c.spec.id in self._children])
        if failed is None:
            return None
        child = self._children[failed.id]
        child.pid = RESTARTING
        if self._backoff(child) is not None:
            return await self._restart(child)
        await self._try_later(child)
        return None

    def _swept(self, child: Child) -> list[Child]:
        """Return the children that restart with ``child``, in start order."""
        if self._flags.strategy == "one_for_one":
            return [child]
        children = list(self._children.values())
        return children[children.index(child) :] if self._flags.strategy == "rest_for_one" else children

    def _waiting_elder(self, child: Child) -> Child | None:
        """Return the child whose wait ``child`` must join: one that the strategy starts before or with it."""
        if self._flags.strategy == "one_for_one":
            return None
        children = list(self._children.values())
        if self._flags.strategy == "rest_for_one":
            children = children[: children.index(child)]
        return next((c.leader for c in children if c.leader is not None and c.leader is not child), None)

    async def _start_all(self, children: list[Child], *, report: bool = True) -> Failed | None:
        for child in children:
            outcome = await self._start(child, report=report)
            if isinstance(outcome, Failed):
                return outcome
        return None

    async def _start(self, child: Child, *, report: bool = True) -> Pid | Failed | None:
        outcome = await self._launch(child.spec, child.restarts, report=report)
        child.pid = None
        if isinstance(outcome, Pid):
            child.pid = outcome
            self._running[outcome] = child
            log.debug("progress", supervisor=self._name(), child=child.spec.id, pid=str(outcome))
        elif outcome is None and child.spec.restart == "temporary":
            del self._children[child.spec.id]
        return outcome

    async def _stop_all(self, children: list[Child]) -> None:
        for child in reversed(children):
            pid, child.pid, child.leader = child.pid, None, None
            if isinstance(pid, Pid):
                del self._running[pid]
                await self._stop(child.spec, pid, child.restarts)
            if child.spec.restart == "temporary":
                self._children.pop(child.spec.id, None)

    def _drop(self, child: Child) -> None:
        """Record the end of a child; a temporary one is removed."""
        child.pid = child.leader = None
        if child.spec.restart == "temporary":
            del self._children[child.spec.id]

    def _shuts_down(self, child: Child) -> bool:
        if not child.spec.significant:
            return False
        if self._flags.auto_shutdown == "all_significant":
            return not any(c.spec.significant and c.pid is not None for c in self._children.values())
        return self._flags.auto_shutdown == "any_significant"
