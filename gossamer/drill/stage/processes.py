"""The nodes of a drill as processes: started as ``gossamer up`` starts them, killed and paused as drills do.

Rules: 1. A node that ends is not restarted; the drill decides. An end that nobody ordered is told.  2. All of
them die with this process, however it ends.  3. In the end they are killed, not stopped: what they hold is
thrown away, and a node that is paused or cut off would take its time.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gossamer.drill.stage.backend import DrillNode
from gossamer.errors import UnavailableError, UsageError
from gossamer.launch import (
    ClusterPlan,
    NodePlan,
    NodeProcess,
    Workspace,
    describe_end,
    node_environment,
    wait_until_ready,
)
from gossamer.supervisor import Pid, Reason, Runtime

__all__ = ["EndedAtStartError", "NodeProcesses", "ProcessBackEnd", "UnknownNodeError"]

_LOG_LINES = 12

Ended = Callable[[str, str], None]


class EndedAtStartError(UnavailableError):
    """A node ended before the cluster was whole; its log is quoted, since it goes with the drill."""

    def __init__(self, *, name: str, how: str, tail: str) -> None:
        self.name = name
        self.how = how
        super().__init__(f"{name} ended at start ({how}); its log ends with:\n{tail}")


class UnknownNodeError(UsageError):
    """No such node, or it does not run."""

    def __init__(self, *, name: str, running: Sequence[str]) -> None:
        self.name = name
        super().__init__(f"got node {name}, expected one that runs: {', '.join(running) or 'none does'}")


class NodeProcesses:
    """``prefix`` gives the command that a node is run by; ``ended(name, how)`` hears of unordered ends."""

    def __init__(
        self,
        plan: ClusterPlan,
        *,
        settings: Mapping[str, str],
        ended: Ended,
        prefix: Callable[[NodePlan], Sequence[str]] = lambda _: (),
    ) -> None:
        self.plan = plan
        self._plans = {node.name: node for node in plan.nodes}
        self._environ = {**node_environment(), **settings}
        self._ended = ended
        self._prefix = prefix
        self._runtime = Runtime(node="drill@localhost")
        self._running: dict[str, Pid] = {}
        self._pids: dict[str, int] = {}
        self._workspace: Workspace | None = None
        self._first_end: asyncio.Future[EndedAtStartError] | None = None
        """While all are started: set by the first that ends."""

    async def start_all(self, *, patience: float) -> None:
        """Start all, and wait until every node is ready and sees every other.

        Raises:
            EndedAtStartError: one of them ended.
            NotReadyError: with what each lacks.
        """
        self._workspace = Workspace(self.plan.directory)
        self._workspace.prepare(self.plan)
        first_end = self._first_end = asyncio.get_running_loop().create_future()
        for node in self.plan.nodes:
            await self.start(node.name)
        ready = asyncio.create_task(self.ready(patience=patience), name="ready")
        either: set[asyncio.Future[Any]] = {ready, first_end}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if first_end.done():
                raise first_end.result()
            await ready
        finally:
            self._first_end = None
            ready.cancel()
            await asyncio.wait({ready})

    async def ready(self, *, patience: float) -> None:
        """Wait until every node is ready and sees every other.

        Raises:
            NotReadyError: with what each lacks.
        """
        await wait_until_ready(self.plan, seconds=patience, progress=lambda _: None)

    def nodes(self) -> tuple[DrillNode, ...]:
        """All, in order; ``pid`` is 0 before the first start."""
        return tuple(self._shown(number, node) for number, node in enumerate(self.plan.nodes, 1))

    def _shown(self, number: int, node: NodePlan) -> DrillNode:
        return DrillNode(
            name=node.name,
            number=number,
            host=node.host,
            ports=dict(node.ports),
            pid=self._pids.get(node.name, 0),
            data_dir=node.directory,
        )

    async def start(self, name: str) -> DrillNode:
        """Start one that does not run; back once its process is there."""
        node = self._plans[name]
        pid = await self._runtime.start(
            NodeProcess,
            node,
            environ=self._environ,
            on_end=self._on_end,
            prefix=tuple(self._prefix(node)),
            label=name,
        )
        self._running[name] = pid
        self._pids[name] = await self._runtime.call(pid, "pid")
        return next(shown for shown in self.nodes() if shown.name == name)

    async def stop(self, name: str, *, kill: bool) -> None:
        """End one, in order or by SIGKILL, and wait until it is gone."""
        pid = self._find(name)
        gone = self._runtime.join(pid)
        del self._running[name]
        if kill:
            self._signal(name, signal.SIGKILL)
        else:
            self._runtime.exit(pid, "shutdown")
        await asyncio.wait({gone})

    def signal(self, name: str, number: int) -> None:
        """Send a signal to one and all that it started."""
        self._find(name)
        self._signal(name, number)

    async def close(self) -> None:
        """Kill all that run. May be called again."""
        gone = {self._runtime.join(pid) for pid in self._running.values()}
        names = list(self._running)
        self._running.clear()
        for name in names:
            self._signal(name, signal.SIGKILL)
        if gone:
            await asyncio.wait(gone)
        await self._runtime.stop()
        if self._workspace is not None:
            self._workspace.__exit__(None, None, None)
            self._workspace = None

    def _find(self, name: str) -> Pid:
        if name not in self._running:
            raise UnknownNodeError(name=name, running=list(self._running))
        return self._running[name]

    def _signal(self, name: str, number: int) -> None:
        try:
            os.killpg(self._pids[name], number)
        except ProcessLookupError:
            # It ended by itself in this moment, which is told on its own.
            pass

    def _on_end(self, node: NodePlan, reason: Reason) -> None:
        if self._running.pop(node.name, None) is None:
            return
        how = describe_end(reason)
        if self._first_end is not None and not self._first_end.done():
            self._first_end.set_result(EndedAtStartError(name=node.name, how=how, tail=_tail(node)))
        self._ended(node.name, how)


class ProcessBackEnd:
    """The part of a back end that is about processes: the same wherever they run."""

    def __init__(self, *, ended: Ended) -> None:
        self._ended = ended
        self._processes: NodeProcesses | None = None

    def nodes(self) -> tuple[DrillNode, ...]:
        return self._need().nodes()

    async def signal(self, name: str, number: int) -> None:
        self._need().signal(name, number)

    async def stop(self, name: str, *, kill: bool) -> None:
        await self._need().stop(name, kill=kill)

    async def restart(self, name: str) -> DrillNode:
        return await self._need().start(name)

    async def close(self) -> None:
        if self._processes is not None:
            await self._processes.close()

    def _need(self) -> NodeProcesses:
        if self._processes is None:
            raise RuntimeError("the back end has not been started")
        return self._processes


def _tail(node: NodePlan) -> str:
    try:
        text = node.log_file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return "\n".join(f"  {line}" for line in text.splitlines()[-_LOG_LINES:]) or "  (nothing)"
