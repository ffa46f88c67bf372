"""What a supervisor is told: child specifications and its own flags, checked before anything starts.

Defaults are OTP's: permanent, not significant, shutdown 5 s for a worker and infinity for a supervisor;
``one_for_one``, one restart in 5 s, no automatic shutdown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from gossamer.supervisor.errors import BadChildSpec
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
]

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
    of ``type``.
    """

    id: str
    start: Start
    restart: Restart = "permanent"
    shutdown: Shutdown | None = None
    type: Literal["worker", "supervisor"] = "worker"
    significant: bool = False

    def __post_init__(self) -> None:
        where = f"child {self.id!r}"
        if not callable(self.start):
            raise BadChildSpec(where, "start", self.start, "an async function without arguments")
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


@dataclass(frozen=True, slots=True)
class Flags:
    """How a supervisor behaves."""

    strategy: Strategy = "one_for_one"
    intensity: int = 1
    period: float = 5.0
    auto_shutdown: AutoShutdown = "never"

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

    def check(self, spec: object) -> None:
        """A significant child needs a supervisor that looks at it.

        Raises:
            BadChildSpec: it does not.
        """
        if not isinstance(spec, ChildSpec):
            raise BadChildSpec("supervisor", "child", spec, "a ChildSpec")
        if spec.significant and self.auto_shutdown == "never":
            raise BadChildSpec(
                f"child {spec.id!r}",
                "significant",
                True,
                "False, or a supervisor whose auto_shutdown is not 'never'",
            )


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
    """Specifications, live children, and how many of the specified are supervisors or workers."""

    specs: int
    active: int
    supervisors: int
    workers: int
