"""Programs that run beside the node and belong to it: supervised, of low priority, output in files.

They are Python, started with the interpreter of the node. However the node dies, they die with it
(:class:`~gossamer.supervisor.OsProcess`).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

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

__all__ = ["BROKEN", "RUNS", "Body", "Ended", "Program", "Programs", "Started", "runs_spec"]

RUNS = "runs"
"""Name of the supervisor of all programs."""
GRACE = 20.0
"""Seconds that a program has to clean up, before what is left of it is killed."""
NICE = 10
BROKEN = 8
"""Exit status of a program that found a promise broken."""

# Becomes the program, its output in files and its priority low; what executes this set a death signal.
_STUB = """\
import os, sys
os.nice(int(sys.argv[1]))
for number, name in ((1, sys.argv[2]), (2, sys.argv[3])):
    os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
os.execv(sys.argv[4], sys.argv[4:])
"""


Ended = Callable[[Reason], None]
Body = Callable[[Path], Awaitable[bool]]
"""Works in a directory; whether what it promised was kept."""


class Program(Struct, frozen=True, kw_only=True):
    """What to run; ``{dir}`` in the arguments stands for the directory of the run."""

    arguments: tuple[str, ...] = ()
    files: Mapping[str, bytes] = {}
    """To be there before it starts."""
    body: Body | None = None
    """In place of a program: what the node does itself."""


class Started(Protocol):
    """A program that runs."""

    async def stop(self) -> None:
        """End it, and wait until nothing of it is left."""


class Programs:
    """Starts programs as children of ``runtime``'s supervisor ``RUNS``."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def start(self, arguments: Sequence[str], directory: Path, ended: Ended, label: str) -> Started:
        """Start Python with ``arguments`` in ``directory``.

        Raises:
            StartFailed: it cannot be started.
        """
        # What this node is told by its environment must not come to nodes, or jobs, that are not it.
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
        stub = [sys.executable, "-I", "-S", "-c", _STUB, str(NICE), "out", "err", sys.executable, *arguments]

        async def start() -> Pid:
            return await OsProcess.start_link(stub, env=environ, cwd=directory, grace=GRACE, label=label)

        return await self._start(ChildSpec(label, start, restart="temporary", shutdown=GRACE + 5.0), ended)

    async def watch(self, body: Body, directory: Path, ended: Ended, label: str) -> Started:
        """Run ``body`` as a process of the node itself."""

        async def run() -> None:
            if not await body(directory):
                exit(self_pid(), ("exit_status", BROKEN))

        async def start() -> Pid:
            return spawn_link(run, label=label)

        return await self._start(ChildSpec(label, start, restart="temporary", shutdown=GRACE), ended)

    async def _start(self, spec: ChildSpec, ended: Ended) -> Started:
        pid = await self._runtime.run(DynamicSupervisor.start_child, RUNS, spec)
        assert pid is not None  # noqa: S101 - an OsProcess never ignores
        self._runtime.join(pid).add_done_callback(lambda joined: ended(joined.result()))
        return _Child(self._runtime, pid)


class _Child:
    def __init__(self, runtime: Runtime, pid: Pid) -> None:
        self._runtime = runtime
        self._pid = pid

    async def stop(self) -> None:
        # It may have ended in this moment.
        with contextlib.suppress(ChildNotFound):
            await self._runtime.run(DynamicSupervisor.terminate_child, RUNS, self._pid)


def runs_spec() -> ChildSpec:
    """The supervisor of all programs, for the node."""

    async def start() -> Pid:
        return await DynamicSupervisor.start_link(name=RUNS, label=RUNS)

    return ChildSpec(RUNS, start, type="supervisor", shutdown=GRACE + 10.0)
