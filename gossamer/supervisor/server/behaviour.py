"""Start of a behaviour: a process that reports to its starter when it is ready.

Rules (OTP's ``proc_lib``): 1. ``start`` and ``start_link`` return once ``init`` is done; then the
process is registered, linked and ready.  2. When ``init`` fails, the process is gone and its name is free
*before* the starter gets the error, and a linked starter gets no exit signal in addition.  3.
``terminate`` is not run after a failed ``init``.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Generic, ParamSpec, cast, overload

import structlog

from gossamer.supervisor.errors import ExitProcess, Ignore, NotAsync, StopInit
from gossamer.supervisor.process.entry import current
from gossamer.supervisor.process.process import Process
from gossamer.supervisor.process.reports import where_is
from gossamer.supervisor.process.runtime import Initialised, Runtime, current_runtime
from gossamer.supervisor.values import KILL, NORMAL, Pid, Reason

log = structlog.get_logger(__name__)

P = ParamSpec("P")

CALLBACKS = (
    "init",
    "handle_call",
    "handle_cast",
    "handle_info",
    "handle_continue",
    "handle_event",
    "terminate",
)
"""Callbacks that a behaviour awaits."""

TERMINATE_TIMEOUT = 10.0
"""Seconds after which a ``terminate`` that is still running is reported."""


class Named(Generic[P]):
    """Behaviour with a name and label for its process, returned by ``Behaviour.named``."""

    __slots__ = ("_behaviour", "_options")

    def __init__(self, behaviour: type[Any], options: dict[str, str]) -> None:
        self._behaviour = behaviour
        self._options = options

    async def start(self, *args: P.args, **options: P.kwargs) -> Pid:
        """Start as ``Behaviour.start``; all arguments go to ``init``."""
        pid: Pid = await self._behaviour.start(*args, **self._options, **options)
        return pid

    async def start_link(self, *args: P.args, **options: P.kwargs) -> Pid:
        """Start as ``Behaviour.start_link``; all arguments go to ``init``."""
        pid: Pid = await self._behaviour.start_link(*args, **self._options, **options)
        return pid


class Behaviour:
    """Common base of GenServer, Supervisor and StateMachine: start and end.

    A type checker compares the arguments of ``start`` and ``start_link`` with those of ``init``. It cannot do
    so with ``name`` or ``label`` among them; ``named`` separates these two:
    ``await Account.named("account").start_link(10)``.
    """

    kind = "worker"
    """Type in ``gossamer ps``."""

    # Names with this prefix are the framework's; all others are free for subclasses.
    _otp_process: Process

    @property
    def process(self) -> Process:
        """Process that runs this instance, available from ``init`` on."""
        return self._otp_process

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        for name in CALLBACKS:
            callback = inspect.getattr_static(cls, name, None)
            # A plain function may return an awaitable, which only its call shows. An ``async def`` is not
            # wrapped, so that this costs nothing.
            if inspect.isfunction(callback) and not inspect.iscoroutinefunction(callback):
                setattr(cls, name, _awaited(callback))

    @classmethod
    def named(cls: type[Initialised[P]], name: str | None = None, *, label: str | None = None) -> Named[P]:
        """Return this behaviour with a registered name, to be started with only ``init``'s arguments."""
        given = {"name": name, "label": label}
        return Named(cls, {key: value for key, value in given.items() if value is not None})

    @overload
    @classmethod
    async def start(cls: type[Initialised[P]], *args: P.args, **options: P.kwargs) -> Pid: ...
    @overload
    @classmethod
    async def start(
        cls, *args: object, name: str | None, label: str | None = None, **options: object
    ) -> Pid: ...
    @overload
    @classmethod
    async def start(cls, *args: object, label: str | None, **options: object) -> Pid: ...
    @classmethod
    async def start(cls, *args: object, **options: object) -> Pid:
        """Start unlinked. ``name`` and ``label`` are options of the process; all else goes to ``init``.

        Raises:
            StartFailed: ``init`` ended the process.
            Ignore: ``init`` declined to run.
            NameTaken: another process has the name.
        """
        runtime = current_runtime(f"{cls.__name__}.start")
        return await cls._otp_launch(runtime, None, args, options)

    @overload
    @classmethod
    async def start_link(cls: type[Initialised[P]], *args: P.args, **options: P.kwargs) -> Pid: ...
    @overload
    @classmethod
    async def start_link(
        cls, *args: object, name: str | None, label: str | None = None, **options: object
    ) -> Pid: ...
    @overload
    @classmethod
    async def start_link(cls, *args: object, label: str | None, **options: object) -> Pid: ...
    @classmethod
    async def start_link(cls, *args: object, **options: object) -> Pid:
        """Start as ``start``, linked to the running process."""
        runtime, me = current_runtime(f"{cls.__name__}.start_link"), current.get()
        return await cls._otp_launch(runtime, me.pid, args, options)

    @classmethod
    async def _otp_launch(
        cls, runtime: Runtime, link_to: Pid | None, args: tuple[object, ...], options: dict[str, Any]
    ) -> Pid:
        """Start in ``runtime``, linked to ``link_to`` if given."""
        name = options.pop("name", None)
        label = options.pop("label", None) or cls.__qualname__
        parent = current.get(None)
        process = runtime.make(
            cls._otp_enter,
            (args, options),
            name=name,
            label=label,
            parent=parent.pid if parent is not None and parent.runtime is runtime else link_to,
        )
        process.started = started = runtime.loop.create_future()
        if link_to is not None:
            process.link(link_to)
        try:
            failure = await started
        except asyncio.CancelledError:
            # There is no waiter any more, and it may hang in its init for ever.
            if link_to is not None:
                process.unlink(link_to)
            runtime.exit(process.pid, KILL)
            raise
        if failure is not None:
            raise failure
        return process.pid

    @classmethod
    async def _otp_enter(cls, args: tuple[object, ...], options: dict[str, object]) -> Any:
        """Run ``init`` as the start of the process; its ``main`` continues with ``_otp_live``."""
        process = cast("Process", current.get())
        server = cls()
        server._otp_process = process
        process.behaviour = server
        try:
            then = await server._otp_begin(args, options)
        except Ignore:
            process.status = "ignored"
            raise ExitProcess(NORMAL) from None
        except StopInit as stop:
            raise ExitProcess(stop.reason) from None
        started = process.started
        process.started = None
        if started is not None and not started.done():
            started.set_result(None)
        return then

    async def _otp_begin(self, args: tuple[object, ...], options: dict[str, object]) -> Any:
        """Prepare, before the starter is informed; the result is passed to ``_otp_live``."""
        raise NotImplementedError

    async def _otp_live(self, then: Any) -> None:
        """Serve until stopped."""
        raise NotImplementedError

    async def terminate(self, reason: Reason) -> None:
        """Clean up; the process ends when this is done.

        Runs on a stop, on an exception or a bad return in a callback, and when the parent exits while this
        process traps exits; not after ``kill``, an untrapped signal or a failed ``init``.
        """

    async def _otp_terminate(self, reason: Reason) -> None:
        """Run ``terminate``, if there is one, and report it if it does not end."""
        if type(self).terminate is Behaviour.terminate:
            return
        process = self._otp_process
        process.status = "terminating"
        if self.kind == "supervisor":
            # It waits for its children, as long as their specifications say; each reports itself.
            await self.terminate(reason)
            return
        late = process.loop.call_later(TERMINATE_TIMEOUT, _hanging, process)
        try:
            await self.terminate(reason)
        finally:
            late.cancel()


def _awaited(callback: Callable[P, object]) -> Callable[P, Coroutine[object, None, object]]:
    """Wrap a callback that is no ``async def``, and raise NotAsync unless its result is awaitable."""

    @functools.wraps(callback)
    async def awaited(*args: P.args, **options: P.kwargs) -> object:
        given = callback(*args, **options)
        if not inspect.isawaitable(given):
            raise NotAsync.of(callback, given)
        return await given

    return awaited


def _hanging(process: Process) -> None:
    log.warning(
        "terminate_hangs",
        pid=str(process.pid),
        label=process.label,
        seconds=TERMINATE_TIMEOUT,
        where=where_is(process.task),
        advice="a supervisor kills it when its shutdown time is over; end it by hand with exit(pid, 'kill')",
    )
