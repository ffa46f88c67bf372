"""Base of all supervisors: start, stop, counting and reports of children.

Rules: 1. Any error in a start function is the child's failure.  2. Stopping waits for the end by the table
row, not by a link, so a child that unlinked cannot block its supervisor.  3. A child that hangs in its start
does not keep the tree above it from stopping.  4. With back-off a restart counts against the intensity when
the child fails, not when the wait ends, so a supervisor gives up at once.  5. A wait is never zero: a child
with back-off is never restarted in the same turn. Rejected: a first restart at once; a failure common to all
nodes would still restart on all of them together.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, TypeVar, TypeVarTuple

import structlog
from msgspec import Struct

from gossamer.errors import GossamerError
from gossamer.supervisor.errors import Ignore, NotAsync, StartFailed
from gossamer.supervisor.process.calls import Caller
from gossamer.supervisor.process.functions import call, send_after, trap_exit
from gossamer.supervisor.process.process import Process, reason_of
from gossamer.supervisor.server.genserver import GenServer, NoReply, Reply, Stop
from gossamer.supervisor.supervise.spec import Backoff, ChildCounts, ChildInfo, ChildSpec, Flags, Shutdown
from gossamer.supervisor.values import (
    KILL,
    KILLED,
    NOPROC,
    SHUTDOWN,
    Cast,
    Destination,
    Exit,
    Pid,
    Reason,
    describe,
    is_clean,
)

log = structlog.get_logger(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class RestartWindow:
    """Counts restarts in the last ``period`` seconds."""

    __slots__ = ("_intensity", "_period", "_stamps")

    def __init__(self, *, intensity: int, period: float) -> None:
        self._intensity = intensity
        self._period = period
        self._stamps: deque[float] = deque()

    def admit(self, now: float) -> bool:
        """Record a restart; False means give up."""
        self._stamps.append(now)
        # A stamp exactly one period old still counts, as in OTP.
        while self._stamps[0] < now - self._period:
            self._stamps.popleft()
        return len(self._stamps) <= self._intensity


class Delays:
    """Back-off state of one child."""

    __slots__ = ("_backoff", "_failures", "_rng", "_tried_at")

    def __init__(self, backoff: Backoff, rng: random.Random) -> None:
        self._backoff = backoff
        self._rng = rng
        self._failures = 0
        self._tried_at = 0.0

    def next(self, now: float) -> float:
        """Return the seconds to wait after a failure at ``now``."""
        backoff = self._backoff
        if now - self._tried_at >= backoff.reset_after:
            self._failures = 0
        delay = backoff.initial
        # The exponent is bounded: a child may fail for weeks, and floats overflow.
        if self._failures:
            delay = min(backoff.maximum, delay * backoff.factor ** min(self._failures, 64))
        self._failures += 1
        delay *= 1 - backoff.jitter * self._rng.random()
        self._tried_at = now + delay
        return delay


class Failed(Struct, frozen=True):
    """The child ``id`` did not start."""

    id: str
    reason: Reason


class Child(Struct, eq=False):
    """Specification of a child and its state.

    ``leader``: while it waits by back-off, the child whose wait it is, itself or the one it was stopped with.
    ``attempt`` numbers its waits; an order of an earlier one is stale.
    """

    spec: ChildSpec
    pid: Pid | Literal["restarting"] | None = None
    restarts: int = 0
    delays: Delays | None = None
    leader: Child | None = None
    attempt: int = 0


class TryAgain(Struct, frozen=True):
    """The supervisor's message to itself to make the next attempt for a child."""

    child: Child
    attempt: int


class _Order(Struct, frozen=True):
    """Administrator's request: a method of the server, by name, and its arguments."""

    method: str
    arguments: tuple[object, ...]


class Administered(GenServer):
    """Server whose administrators call its methods; an error in one is raised at the caller."""

    async def handle_call(self, request: object, caller: Caller) -> Reply | NoReply | Stop:
        if not isinstance(request, _Order) or not hasattr(self, request.method):
            return await super().handle_call(request, caller)
        try:
            return Reply(await getattr(self, request.method)(*request.arguments))
        except GossamerError as error:
            return Reply(error)


async def ask(
    server: Destination,
    timeout: float | None,
    method: Callable[[Any, *Ts], Awaitable[T]],
    *args: *Ts,
) -> T:
    """Call a method of an ``Administered`` server in its process."""
    answer: T | GossamerError = await call(server, _Order(method.__name__, args), timeout)
    if isinstance(answer, GossamerError):
        raise answer
    return answer


class ChildKeeper(Administered):
    """Base of ``Supervisor`` and ``DynamicSupervisor``."""

    kind = "supervisor"

    def _begin(self, flags: Flags, rng: random.Random | None) -> None:
        trap_exit(True)
        self._flags = flags
        self._rng = rng or random.Random()
        self._window = RestartWindow(intensity=flags.intensity, period=flags.period)
        self._restarts = 0

    @property
    def restarts(self) -> int:
        """Number of restarts of children so far, failed attempts included."""
        return self._restarts

    @staticmethod
    async def which_children(supervisor: Destination, timeout: float | None = None) -> list[ChildInfo]:
        """Return every child, in start order; a ``DynamicSupervisor`` lists restarting ones last."""
        return await ask(supervisor, timeout, ChildKeeper._which)

    @staticmethod
    async def count_children(supervisor: Destination, timeout: float | None = None) -> ChildCounts:
        """Return how many children there are of each kind."""
        return await ask(supervisor, timeout, ChildKeeper._count)

    async def _which(self) -> list[ChildInfo]:
        return [ChildInfo(spec.id, pid, spec.type) for spec, pid in self._members()]

    async def _count(self) -> ChildCounts:
        members = list(self._members())
        supervisors = sum(spec.type == "supervisor" for spec, _ in members)
        active = sum(isinstance(pid, Pid) for _, pid in members)
        return ChildCounts(len(members), active, supervisors, len(members) - supervisors)

    async def handle_cast(self, request: object) -> NoReply | Stop | None:
        if type(request) is TryAgain:
            return await self._try_again(request)
        return await super().handle_cast(request)

    async def handle_info(self, message: object) -> NoReply | Stop | None:
        if isinstance(message, Exit):
            return await self._exited(message.source, message.reason)
        return await super().handle_info(message)

    # Implemented by the kinds.

    def _members(self) -> Iterable[tuple[ChildSpec, Pid | Literal["restarting"] | None]]:
        """Yield every child with its pid as in ``ChildInfo``."""
        raise NotImplementedError

    async def _exited(self, pid: Pid, reason: Reason) -> Stop | None:
        """Handle the end of a linked process."""
        raise NotImplementedError

    async def _try_again(self, order: TryAgain) -> Stop | None:
        """Make the next attempt for a child."""
        raise NotImplementedError

    # Operations on a child.

    async def _launch(
        self, spec: ChildSpec, restarts: int = 0, *, report: bool = True
    ) -> Pid | Failed | None:
        """Start a child, and ``report`` a failure. It is aborted when the parent stops this process.

        The parent's exit signal stays in the mailbox and is handled next.
        """
        process, told = self._otp_process, False

        def interrupt() -> None:
            nonlocal told
            if not told:
                told = True
                process.task.cancel()

        process.interrupt = interrupt
        try:
            outcome = await start_one(spec)
        except asyncio.CancelledError:
            if not told or process.reason is not None:
                raise
            process.task.uncancel()
            outcome = Failed(spec.id, (SHUTDOWN, "told to end while it started"))
        finally:
            process.interrupt = None
        if report and isinstance(outcome, Failed):
            self._report("start_error", outcome.reason, spec, None, restarts)
        return outcome

    async def _stop(self, spec: ChildSpec, pid: Pid, restarts: int = 0) -> None:
        """Stop a child as its specification says and wait for the end."""
        reason = (await reap(self._otp_process, {pid: spec.shutdown}))[pid]
        if not expected_end(reason, spec):
            self._report("shutdown_error", reason, spec, pid, restarts)

    def _restarts_again(self, spec: ChildSpec, pid: Pid, reason: Reason, restarts: int) -> bool:
        """Return True if a child that ended restarts; an abnormal end is reported."""
        clean = is_clean(reason)
        again = spec.restart == "permanent" or (spec.restart == "transient" and not clean)
        if again or not clean:
            self._report("child_terminated", reason, spec, pid, restarts)
        return again

    def _admit(self, child: Child) -> bool:
        """Count one restart; False means give up."""
        self._restarts += 1
        child.restarts += 1
        process = self._otp_process
        process.runtime.restarts[process.name or ""] += 1
        if self._window.admit(process.loop.time()):
            return True
        self._report("shutdown", "reached_max_restart_intensity", child.spec, child.pid, child.restarts)
        return False

    def _backoff(self, child: Child) -> Backoff | None:
        return child.spec.backoff or self._flags.backoff

    def _delay(self, child: Child) -> float:
        """Return the seconds until the next attempt for a child that failed; 0 without back-off."""
        backoff = self._backoff(child)
        if backoff is None:
            return 0.0
        if child.delays is None:
            child.delays = Delays(backoff, self._rng)
        return child.delays.next(self._otp_process.loop.time())

    async def _try_later(self, child: Child, delay: float = 0.0) -> None:
        """Schedule the next attempt in ``delay`` seconds; 0: after the messages that are queued now."""
        order, process = Cast(TryAgain(child, child.attempt)), self._otp_process
        if delay:
            send_after(delay, process.pid, order)
        else:
            process.runtime.send(process.pid, order)
            # Attempts that fail at once must not block the loop.
            await asyncio.sleep(0)

    # Reports.

    def _report(self, context: str, reason: Reason, spec: ChildSpec, pid: object, restarts: int) -> None:
        log.error(
            context,
            supervisor=self._name(),
            reason=describe(reason),
            **_killed_late(context, reason, spec),
            offender={
                "pid": None if pid is None else str(pid),
                "id": spec.id,
                "start": _named(spec.start.func if isinstance(spec.start, partial) else spec.start),
                "restart": spec.restart,
                "significant": spec.significant,
                "shutdown": spec.shutdown,
                "type": spec.type,
                "restarts": restarts,
            },
        )

    def _name(self) -> str:
        return self._otp_process.name or f"{self._otp_process.label} {self._otp_process.pid}"


async def start_one(spec: ChildSpec) -> Pid | Failed | None:
    """Run a start function; any error in it is the child's failure."""
    try:
        started: object = spec.start()
        if not inspect.isawaitable(started):
            raise NotAsync.of(spec.start, started)
        pid: object = await started
    except Ignore:
        return None
    except StartFailed as error:
        return Failed(spec.id, error.reason)
    except Exception as error:  # noqa: BLE001 - a start function is the user's code
        return Failed(spec.id, reason_of(error))
    if pid is None or isinstance(pid, Pid):
        return pid
    wrong = f"start of {spec.id} gave {type(pid).__name__}, expected a Pid or None"
    return Failed(spec.id, ("bad_return_value", wrong))


async def reap(supervisor: Process, ends: Mapping[Pid, Shutdown | None]) -> dict[Pid, Reason]:
    """Stop processes in parallel and discard their EXITs; return their exit reasons.

    Those that have not ended after the longest shutdown among them are killed.
    """
    runtime, mailbox = supervisor.runtime, supervisor.mailbox
    joined: dict[Pid, asyncio.Future[Reason]] = {}
    for pid, shutdown in ends.items():
        joined[pid] = runtime.join(pid)
        runtime.exit(pid, KILL if shutdown == "brutal_kill" else SHUTDOWN)
    waiting = {pid: end for pid, end in joined.items() if not end.done()}
    if waiting:
        times = [ends[pid] for pid in waiting]
        seconds = max((time for time in times if isinstance(time, int | float)), default=0.0)
        await asyncio.wait(waiting.values(), timeout=None if "infinity" in times else seconds)
        for pid, end in waiting.items():
            if not end.done():
                runtime.exit(pid, KILL)
    reasons = {pid: await end for pid, end in joined.items()}
    if any(type(message) is Exit for message in mailbox):
        kept = [message for message in mailbox if type(message) is not Exit or message.source not in ends]
        mailbox.clear()
        mailbox.extend(kept)
    return reasons


def expected_end(reason: Reason, spec: ChildSpec) -> bool:
    """Return True if a stopped child ended as its specification expects."""
    if reason == NOPROC:
        return True
    if spec.shutdown == "brutal_kill":
        return reason == KILLED
    return reason == SHUTDOWN or (spec.restart != "permanent" and is_clean(reason))


def _killed_late(context: str, reason: Reason, spec: ChildSpec) -> dict[str, str]:
    """Return the advice for a child that had to be killed."""
    if context != "shutdown_error" or reason != KILLED:
        return {}
    if not isinstance(spec.shutdown, int | float):
        return {"advice": "somebody killed it while it was stopping"}
    late = f"it did not end within its shutdown time of {spec.shutdown:g} s and was killed"
    return {"advice": f"{late}; see what its terminate() waits for, or give it more"}


def _named(start: Any) -> str:
    """Return the name of a start function, ``Ledger.start_link``."""
    owner = getattr(start, "__self__", None)
    if isinstance(owner, type):
        return f"{owner.__qualname__}.{start.__name__}"
    return str(getattr(start, "__qualname__", type(start).__qualname__))
