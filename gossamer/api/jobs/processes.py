"""Background programs of a node: supervised, of low priority, output in files.

They are Python, started with the interpreter of the node. However the node dies, they die with it
(:class:`~gossamer.supervisor.OsProcess`).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from msgspec import Struct

from gossamer.supervisor import (
    ChildNotFound,
    ChildSpec,
    DynamicSupervisor,
    OsProcess,
    Pid,
    Reason,
    Runtime,
    exit,  # noqa: A004 - Erlang's name for it
    self_pid,
    spawn_link,
)

RUNS = "runs"
"""Name of the supervisor of all programs."""
GRACE = 20.0
"""Seconds that a program has to clean up, before what is left of it is killed."""
NICE = 10
BROKEN = 8
"""Exit status of a program that found a broken promise."""

# Becomes the program, its output in files and its priority low; what executes this set a death signal.
_STUB = """\
import os, sys
os.nice(int(sys.argv[1]))
for number, name in ((1, sys.argv[2]), (2, sys.argv[3])):
    os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
os.execv(sys.argv[4], sys.argv[4:])
"""

Stop = Callable[[], Awaitable[None]]
"""Ends a program, and waits until nothing of it is left."""


class Program(Struct, frozen=True, kw_only=True):
    """A program to run: Python with ``arguments``, in which ``{dir}`` stands for the directory of the run."""

    arguments: tuple[str, ...] = ()
    files: Mapping[str, bytes] = {}
    """Written before it starts, by name."""
    body: Callable[[Path], Awaitable[bool]] | None = None
    """A coroutine of the node in place of a program; returns whether promises were kept."""


class Programs:
    """Starts programs as children of ``runtime``'s supervisor ``RUNS``."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def start(
        self, program: Program, directory: Path, ended: Callable[[Reason], None], label: str
    ) -> Stop:
        """Start ``program`` in ``directory`` and return what ends it.

        Raises:
            StartFailed: it cannot be started.
        """
        # This node's environment variables must not reach other nodes, or jobs.
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
        arguments = [argument.replace("{dir}", str(directory)) for argument in program.arguments]
        stub = [sys.executable, "-I", "-S", "-c", _STUB, str(NICE), "out", "err", sys.executable, *arguments]
        body = program.body

        async def run() -> None:
            if body is not None and not await body(directory):
                exit(self_pid(), ("exit_status", BROKEN))

        async def start() -> Pid:
            if body is not None:
                return spawn_link(run, label=label)
            return await OsProcess.start_link(stub, env=environ, cwd=directory, grace=GRACE, label=label)

        spec = ChildSpec(label, start, restart="temporary", shutdown=GRACE + 5.0)
        child = await self._runtime.run(DynamicSupervisor.start_child, RUNS, spec)
        assert child is not None  # noqa: S101 - an OsProcess never ignores
        pid = child
        self._runtime.join(pid).add_done_callback(lambda joined: ended(joined.result()))

        async def stop() -> None:
            # It may have ended in this moment.
            with contextlib.suppress(ChildNotFound):
                await self._runtime.run(DynamicSupervisor.terminate_child, RUNS, pid)

        return stop


def runs_spec() -> ChildSpec:
    """The supervisor of all programs, for the node."""

    async def start() -> Pid:
        return await DynamicSupervisor.start_link(name=RUNS, label=RUNS)

    return ChildSpec(RUNS, start, type="supervisor", shutdown=GRACE + 10.0)
