"""How a behaviour starts: a process that says when it is ready, to whoever started it.

Rules (OTP's ``proc_lib``): 1. ``start`` and ``start_link`` come back once ``init`` is done; then the
process is registered, linked and ready.  2. When ``init`` fails, the process is gone and its name is free
*before* the starter hears of it, and no exit signal of it reaches a linked starter as well.  3.
``terminate`` is not run after a failed ``init``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from gossamer.supervisor.entry import current
from gossamer.supervisor.errors import ExitProcess, Ignore, NotInProcess, StopInit
from gossamer.supervisor.process import Process
from gossamer.supervisor.values import Pid

if TYPE_CHECKING:
    from gossamer.supervisor.runtime import Runtime

__all__ = ["Behaviour"]


class Behaviour:
    """What GenServer, Supervisor and StateMachine have in common."""

    kind = "worker"
    """What ``gossamer ps`` shows as type."""

    process: Process
    """The process that runs this instance; set before ``init``."""

    @classmethod
    async def start(cls, *args: Any, **options: Any) -> Pid:
        """Start unlinked. ``name`` and ``label`` are options of the process; all else goes to ``init``.

        Raises:
            StartFailed: ``init`` ended the process.
            Ignore: ``init`` does not want to run.
            NameTaken: another process holds the name.
        """
        me = current.get(None)
        if me is None:
            raise NotInProcess(f"{cls.__name__}.start")
        return await cls.launch(me.runtime, None, args, options)

    @classmethod
    async def start_link(cls, *args: Any, **options: Any) -> Pid:
        """As ``start``, linked to the running process."""
        me = current.get(None)
        if me is None:
            raise NotInProcess(f"{cls.__name__}.start_link")
        return await cls.launch(me.runtime, me.pid, args, options)

    @classmethod
    async def launch(
        cls, runtime: Runtime, link_to: Pid | None, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Pid:
        """Start in ``runtime``, linked to ``link_to`` if given."""
        name = options.pop("name", None)
        label = options.pop("label", None) or cls.__qualname__
        parent = current.get(None)
        process = runtime.make(
            cls._enter,
            (args, options),
            name=name,
            label=label,
            parent=parent.pid if parent is not None and parent.runtime is runtime else link_to,
        )
        process.started = started = runtime.loop.create_future()
        if link_to is not None:
            process.link(link_to)
        failure = await started
        if failure is not None:
            raise failure
        return process.pid

    @classmethod
    async def _enter(cls, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        process = cast("Process", current.get())
        server = cls()
        server.process = process
        process.behaviour = server
        try:
            then = await server.setup(args, options)
        except Ignore:
            process.status = "ignored"
            return
        except StopInit as stop:
            raise ExitProcess(stop.reason) from None
        started = process.started
        process.started = None
        if started is not None and not started.done():
            started.set_result(None)
        await server.serve(then)

    async def setup(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Everything before the starter is told; what it gives back goes to ``serve``."""
        raise NotImplementedError

    async def serve(self, then: Any) -> None:
        """Live."""
        raise NotImplementedError
