"""What a supervisor is told: child specifications and its own flags, checked before anything starts.

Defaults are OTP's: permanent, not significant, shutdown 5 s for a worker and infinity for a supervisor;
``one_for_one``, one restart in 5 s, no automatic shutdown, restarts at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal, ParamSpec

from msgspec import Struct

from gossamer.supervisor.errors import BadChildSpec
from gossamer.supervisor.supervise.backoff import Backoff
from gossamer.supervisor.values import Pid

__all__ = [
    "AutoShutdown",
    "ChildCounts",
    "ChildInfo",
    "ChildSpec",
    "Flags",
    "Restart",
    "Shutdown",
    "Start",
    "Strategy",
    "check_children",
    "check_is_spec",
]

P = ParamSpec("P")

Restart = Literal["permanent", "transient", "temporary"]
Shutdown = float | Literal["brutal_kill", "infinity"]
Strategy = Literal["one_for_one", "one_for_all", "rest_for_one"]
AutoShutdown = Literal["never", "any_significant", "all_significant"]
Start = Callable[[], Awaitable[Pid | None]]


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """How to start, restart and stop one child.

    ``start`` is awaited inside the supervisor and gives back the pid of a process linked to it; None means
    that the child is not wanted now. ``shutdown`` is seconds to wait before the kill; None takes the default
    of ``type``. ``backoff`` says how long restarts wait; None takes that of the supervisor.

    Raises:
        BadChildSpec: a field makes no sense; it names the field, what it got and what it takes.
    """

    id: str
    start: Start
    restart: Restart = "permanent"
    shutdown: Shutdown | None = None
    type: Literal["worker", "supervisor"] = "worker"
    significant: bool = False
    backoff: Backoff | None = None

    @classmethod
    def of(
        cls, child: str, start: Callable[P, Awaitable[Pid | None]], /, *args: P.args, **options: P.kwargs
    ) -> ChildSpec:
        """Return the specification of a permanent worker ``child``, started by ``start(*args, **options)``.

        As ``ChildSpec(child, functools.partial(start, *args, **options))``, but a type checker sees arguments
        that ``start`` does not take. For other fields: ``dataclasses.replace(spec, restart="transient")``.
        """
        return cls(child, partial(start, *args, **options))

    def __post_init__(self) -> None:
        where = f"child {self.id!r}"
        if expected := _start_expected(self.start):
            raise BadChildSpec(where, "start", self.start, expected)
        if self.restart not in ("permanent", "transient", "temporary"):
            raise BadChildSpec(where, "restart", self.restart, "'permanent', 'transient' or 'temporary'")
        if self.type not in ("worker", "supervisor"):
            raise BadChildSpec(where, "type", self.type, "'worker' or 'supervisor'")
        if self.significant and self.restart == "permanent":
            raise BadChildSpec(
                where, "significant", True, "False for a permanent child: it never ends for good"
            )
        if self.shutdown is None:
            object.__setattr__(self, "shutdown", "infinity" if self.type == "supervisor" else 5.0)
        elif self.shutdown not in ("brutal_kill", "infinity") and not _is_time(self.shutdown):
            raise BadChildSpec(where, "shutdown", self.shutdown, "seconds, 'brutal_kill' or 'infinity'")
        _check_backoff(where, self.backoff)


def _start_expected(start: object) -> str:
    """What a start function should have been; blank: it can be called."""
    function = start.func if isinstance(start, partial) else start
    if isinstance(function, type) and hasattr(function, "start_link"):
        name = f"{function.__qualname__}.start_link"
        return f"its start function: pass `{name}`, or `partial({name}, …)` with the arguments of init"
    if inspect.iscoroutine(start):
        start.close()
        return "the function and not its call: pass `partial(start, …)` instead of `start(…)`"
    return "" if callable(start) else "an async function without arguments"


def _check_backoff(where: str, backoff: object) -> None:
    if backoff is not None and not isinstance(backoff, Backoff):
        raise BadChildSpec(where, "backoff", backoff, "a Backoff or None")


@dataclass(frozen=True, slots=True)
class Flags:
    """How a supervisor behaves."""

    strategy: Strategy = "one_for_one"
    intensity: int = 1
    period: float = 5.0
    auto_shutdown: AutoShutdown = "never"
    backoff: Backoff | None = None

    def __post_init__(self) -> None:
        if self.strategy not in ("one_for_one", "one_for_all", "rest_for_one"):
            raise BadChildSpec(
                "supervisor", "strategy", self.strategy, "'one_for_one', 'one_for_all' or 'rest_for_one'"
            )
        if not isinstance(self.intensity, int) or isinstance(self.intensity, bool) or self.intensity < 0:
            raise BadChildSpec("supervisor", "intensity", self.intensity, "a number of restarts, 0 or more")
        if not _is_time(self.period) or self.period == 0:
            raise BadChildSpec("supervisor", "period", self.period, "seconds, more than 0")
        if self.auto_shutdown not in ("never", "any_significant", "all_significant"):
            raise BadChildSpec(
                "supervisor",
                "auto_shutdown",
                self.auto_shutdown,
                "'never', 'any_significant' or 'all_significant'",
            )
        _check_backoff("supervisor", self.backoff)

    def check(self, spec: object) -> None:
        """A significant child needs a supervisor that looks at it.

        Raises:
            BadChildSpec: it does not.
        """
        check_is_spec("supervisor", spec)
        assert isinstance(spec, ChildSpec)  # noqa: S101
        if spec.significant and self.auto_shutdown == "never":
            raise BadChildSpec(
                f"child {spec.id!r}",
                "significant",
                True,
                "False, or a supervisor whose auto_shutdown is not 'never'",
            )


def check_is_spec(where: str, spec: object) -> None:
    """Refuse what is no specification, an actor class first of all.

    Raises:
        BadChildSpec: it is none.
    """
    if isinstance(spec, type) and hasattr(spec, "start_link"):
        name = spec.__qualname__
        raise BadChildSpec(where, "child", spec, f"a ChildSpec: pass `ChildSpec('id', {name}.start_link)`")
    if not isinstance(spec, ChildSpec):
        raise BadChildSpec(where, "child", spec, "a ChildSpec")


def check_children(flags: Flags, children: Iterable[ChildSpec]) -> None:
    """Every specification fits the flags, and no id comes twice.

    Raises:
        BadChildSpec: names the first that does not.
    """
    seen: dict[str, None] = {}
    for spec in children:
        flags.check(spec)
        if spec.id in seen:
            raise BadChildSpec("supervisor", "child id", spec.id, "an id that no other child has")
        seen[spec.id] = None


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


class ChildInfo(Struct, frozen=True):
    """One row of ``which_children``; ``pid`` is "restarting" between attempts, None when it does not run."""

    id: str
    pid: Pid | Literal["restarting"] | None
    type: str


class ChildCounts(Struct, frozen=True):
    """How many children are specified, how many live, and how many of the specified are of each type."""

    specs: int
    active: int
    supervisors: int
    workers: int
