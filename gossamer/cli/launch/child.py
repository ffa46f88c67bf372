"""A node as a child: one operating-system process behind a process of the supervision tree.

Rules: 1. The GenServer lives as long as the operating-system process: when one ends, so does the other, and
the supervisor above decides what then.  2. Stopped in order, it terminates the node, waits, and kills it
after a limit; the supervisor gives it more time than that.  3. Killed, it takes the node along.  4. The node
is in a session of its own, so that Ctrl-C reaches the launcher alone; it dies with the launcher by a signal
from the kernel (``gossamer start --parent``).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

from gossamer.cli.launch.plan import NodePlan
from gossamer.supervisor import Continue, GenServer, Reply, Runtime, Stop, trap_exit

__all__ = ["STOP_LIMIT", "NodeProcess", "describe_exit"]

STOP_LIMIT = 10.0
"""Seconds between SIGTERM and SIGKILL."""


class _Ended:
    def __init__(self, code: int) -> None:
        self.code = code


class NodeProcess(GenServer):
    """Runs ``gossamer start`` for one node; a call gives the pid of its process.

    ``on_end(plan, code)`` hears of an end that nobody asked for, before the supervisor does.
    """

    async def init(
        self,
        plan: NodePlan,
        *,
        environ: Mapping[str, str],
        on_end: Callable[[NodePlan, int], None],
    ) -> Continue | None:
        trap_exit(True)
        self._plan = plan
        self._on_end = on_end
        self._stopping = False
        command = [sys.executable, "-m", "gossamer.cli", "start", "-c", str(plan.config_file)]
        with plan.log_file.open("ab") as log:
            self._child = await asyncio.create_subprocess_exec(
                *command,
                "--parent",
                str(os.getpid()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(environ),
                start_new_session=True,
            )
        runtime, me, child = Runtime.current(), self.process.pid, self._child

        async def watch() -> None:
            runtime.send(me, _Ended(await child.wait()))

        self._watcher = asyncio.create_task(watch(), name=f"watch {plan.name}")
        self.process.on_release(lambda _entry: self._cut())
        return None

    async def handle_call(self, request: Any, caller: Any) -> Reply:
        return Reply(self._child.pid)

    async def handle_info(self, message: Any) -> Stop | None:
        if isinstance(message, _Ended):
            if not self._stopping:
                self._on_end(self._plan, message.code)
            return Stop(("node_ended", describe_exit(message.code)))
        return None

    async def terminate(self, reason: object) -> None:
        self._stopping = True
        if self._child.returncode is not None:
            return
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_LIMIT):
                await self._child.wait()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self._child.wait()

    def _cut(self) -> None:
        """The process ended, killed perhaps: take the node along."""
        if self._child.returncode is None:
            self._signal(signal.SIGKILL)
        self._watcher.cancel()

    def _signal(self, number: signal.Signals) -> None:
        try:
            self._child.send_signal(number)
        except ProcessLookupError:
            pass


def describe_exit(code: int) -> str:
    """How a process ended, in words."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"
