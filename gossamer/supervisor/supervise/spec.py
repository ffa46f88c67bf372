"""Child specifications and supervisor flags, checked before anything starts.

Defaults are OTP's: permanent, not significant, shutdown 5 s for a worker and infinity for a supervisor;
``one_for_one``, one restart in 5 s, no automatic shutdown, restarts at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, fields
from functools import partial
from typing import Literal, ParamSpec, get_args

from msgspec import Struct

from gossamer.supervisor.errors import BadChildSpec
from gossamer.supervisor.server.behaviour import Behaviour, Named
from gossamer.supervisor.values import Pid

P = ParamSpec("P")

Restart = Literal["permanent", "transient", "temporary"]
Shutdown = float | Literal["brutal_kill", "infinity"]
Strategy = Literal["one_for_one", "one_for_all", "rest_for_one"]
AutoShutdown = Literal["never", "any_significant", "all_significant"]
Start = Callable[[], Awaitable[Pid | None]]


def check(sound: bool, where: str, key: str, got: object, expected: str) -> None:
    """Refuse an invalid value.

    Raises:
        BadChildSpec: ``sound`` is False.
    """
    if not sound:
        raise BadChildSpec(where, key, got, expected)


def check_choice(where: str, key: str, got: object, choices: object) -> None:
    """Refuse a value that a ``Literal`` does not include, as ``check`` does."""
    *others, last = map(repr, get_args(choices))
    check(got in get_args(choices), where, key, got, f"{', '.join(others)} or {last}")


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off between restarts; times in seconds.

    The n-th wait in a row is ``initial * factor ** (n - 1)``, at most ``maximum``, less a random part of it
    that is at most ``jitter`` (below 1), so that children of many nodes do not restart in step. After
    ``reset_after`` seconds without a restart waits start at ``initial`` again.

    Raises:
        BadChildSpec: a value is invalid.
    """

    initial: float = 0.1
    maximum: float = 30.0
    factor: float = 2.0
    jitter: float = 0.5
    reset_after: float = 60.0

    def __post_init__(self) -> None:
        where = "backoff"
        for field in fields(self):
            value = getattr(self, field.name)
            check(_is_time(value), where, field.name, value, "a number, 0 or more")
        check(self.initial > 0, where, "initial", self.initial, "seconds, more than 0")
        check(self.maximum >= self.initial, where, "maximum", self.maximum, "seconds, not less than initial")
        check(self.factor >= 1, where, "factor", self.factor, "a number, 1 or more")
        check(self.jitter < 1, where, "jitter", self.jitter, "a part from 0 to less than 1")


def _check_backoff(where: str, backoff: object) -> None:
    check(backoff is None or isinstance(backoff, Backoff), where, "backoff", backoff, "a Backoff or None")


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """Specification of how to start, restart and stop one child.

    ``start`` is awaited inside the supervisor and returns the pid of a process linked to it; None means that
    the child declined to run. ``shutdown`` is the seconds before the kill; None: the default of ``type``.
    ``backoff`` delays restarts; None: that of the supervisor.

    Raises:
        BadChildSpec: a field is invalid; the error names the field, its value and the expected one.
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

        Like ``ChildSpec(child, functools.partial(start, *args, **options))``, but a type checker finds
        arguments that ``start`` does not accept. For other fields: ``dataclasses.replace(spec, restart=…)``.
        """
        return cls(child, partial(start, *args, **options))

    def __post_init__(self) -> None:
        where = f"child {self.id!r}"
        expected = _start_expected(self.start)
        check(not expected, where, "start", self.start, expected)
        check_choice(where, "restart", self.restart, Restart)
        check_choice(where, "type", self.type, Literal["worker", "supervisor"])
        lasts = self.significant and self.restart == "permanent"
        check(not lasts, where, "significant", True, "False for a permanent child: it never ends for good")
        if self.shutdown is None:
            object.__setattr__(self, "shutdown", "infinity" if self.type == "supervisor" else 5.0)
        sound = self.shutdown in ("brutal_kill", "infinity") or _is_time(self.shutdown)
        check(sound, where, "shutdown", self.shutdown, "seconds, 'brutal_kill' or 'infinity'")
        _check_backoff(where, self.backoff)


def _start_expected(start: object) -> str:
    """Describe what was expected instead of a start function; empty: it is callable."""
    function = start.func if isinstance(start, partial) else start
    if isinstance(function, type) and hasattr(function, "start_link"):
        name = f"{function.__qualname__}.start_link"
        return f"its start function: pass `{name}`, or `partial({name}, …)` with the arguments of init"
    if getattr(function, "__func__", None) in (vars(Behaviour)["start"].__func__, Named.start):
        return "one that links the child to its supervisor: pass `start_link` instead of `start`"
    if inspect.iscoroutine(start):
        start.close()
        return "the function and not its call: pass `partial(start, …)` instead of `start(…)`"
    return "" if callable(start) else "an async function without arguments"


@dataclass(frozen=True, slots=True)
class Flags:
    """Options of a supervisor."""

    strategy: Strategy = "one_for_one"
    intensity: int = 1
    period: float = 5.0
    auto_shutdown: AutoShutdown = "never"
    backoff: Backoff | None = None

    def __post_init__(self) -> None:
        where = "supervisor"
        check_choice(where, "strategy", self.strategy, Strategy)
        counts = isinstance(self.intensity, int) and _is_time(self.intensity)
        check(counts, where, "intensity", self.intensity, "a number of restarts, 0 or more")
        lasts = _is_time(self.period) and self.period > 0
        check(lasts, where, "period", self.period, "seconds, more than 0")
        check_choice(where, "auto_shutdown", self.auto_shutdown, AutoShutdown)
        _check_backoff(where, self.backoff)

    def check(self, spec: ChildSpec) -> None:
        """Refuse anything but a specification, and a significant child without ``auto_shutdown``.

        Raises:
            BadChildSpec: it is one of these.
        """
        check_is_spec("supervisor", spec)
        unseen = spec.significant and self.auto_shutdown == "never"
        expected = "False, or a supervisor whose auto_shutdown is not 'never'"
        check(not unseen, f"child {spec.id!r}", "significant", True, expected)


def check_is_spec(where: str, spec: object) -> None:
    """Refuse anything but a specification, such as an actor class, as ``check`` does."""
    if isinstance(spec, ChildSpec):
        return
    expected = "a ChildSpec"
    if isinstance(spec, type) and hasattr(spec, "start_link"):
        expected += f": pass `ChildSpec('id', {spec.__qualname__}.start_link)`"
    raise BadChildSpec(where, "child", spec, expected)


def check_children(flags: Flags, children: Iterable[ChildSpec]) -> None:
    """Refuse specifications that do not fit the flags, and duplicate ids, as ``check`` does."""
    seen: set[str] = set()
    for spec in children:
        flags.check(spec)
        check(spec.id not in seen, "supervisor", "child id", spec.id, "an id that no other child has")
        seen.add(spec.id)


class ChildInfo(Struct, frozen=True):
    """Row of ``which_children``; ``pid`` is "restarting" between attempts, None if it does not run."""

    id: str
    pid: Pid | Literal["restarting"] | None
    type: str


class ChildCounts(Struct, frozen=True):
    """Numbers of children specified, live, and specified of each type."""

    specs: int
    active: int
    supervisors: int
    workers: int
