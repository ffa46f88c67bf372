"""Runs a test as a process of a fresh runtime on virtual time, and checks that nothing is left behind."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from gossamer.supervisor import Crash, GenServer, Reply, Runtime, Stop, is_clean
from gossamer.testing.loop import VirtualTimeLoop


class VirtualLoop(VirtualTimeLoop):
    """Keeps what would vanish in the loop's exception handler."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: list[dict[str, Any]] = []
        self.set_exception_handler(lambda loop, context: self.lost.append(context))


def virtual(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """The test gets the runtime as its first argument and runs as one of its processes."""

    def run(*args: object, **options: object) -> None:
        async def main() -> None:
            runtime = Runtime("test@host", 7)
            await runtime.run(test, runtime, *args, **options)
            await runtime.stop()
            assert not runtime.table
            assert not runtime.names
            assert not runtime.graves
            leftover = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
            assert not leftover, leftover

        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(main())
            assert not runner.get_loop().lost  # type: ignore[attr-defined]

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    run.__module__ = test.__module__
    signature = inspect.signature(test)
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=list(signature.parameters.values())[1:], return_annotation=None
    )
    if hasattr(test, "pytestmark"):
        run.pytestmark = test.pytestmark  # type: ignore[attr-defined]
    return run


async def settle(turns: int = 20) -> None:
    """Let everything that can run, run; no time passes."""
    for _ in range(turns):
        await asyncio.sleep(0)


class Worker(GenServer):
    """Does as it is told, and remembers what it got."""

    async def init(self, *args: Any, **options: Any) -> None:
        self.args = args
        self.options = options
        self.got: list[Any] = []

    async def handle_call(self, request: Any, caller: Any) -> Any:
        match request:
            case ("echo", value):
                return Reply(value)
            case ("stop", reason):
                return Stop(reason, reply="stopping")
            case ("raise", error):
                raise error
            case "got":
                return Reply(list(self.got))
            case "args":
                return Reply(self.args)
        return Reply(request)

    async def handle_cast(self, request: Any) -> Any:
        self.got.append(("cast", request))
        match request:
            case ("stop", reason):
                return Stop(reason)
            case ("raise", error):
                raise error
        return None

    async def handle_info(self, message: Any) -> Any:
        self.got.append(message)


def crashed(reason: object, error: str) -> bool:
    return isinstance(reason, Crash) and reason.error == error and not is_clean(reason)
