"""Runs the cluster of ``gossamer up``: a one_for_one tree of operating-system processes, and what it prints.

Rules: 1. Until the cluster is ready, a node that ends ends the whole, with the end of its log.  2. From then
on it is restarted and said so; too many restarts end the whole.  3. A signal stops the tree in order, last
node first, each waited for; a second signal kills.
"""

from __future__ import annotations

import asyncio
import functools
import signal
from collections.abc import Callable, Mapping
from typing import Any

from gossamer.cli.exits import ExitCode
from gossamer.errors import UnavailableError
from gossamer.launch import (
    STOP_LIMIT,
    ClusterPlan,
    NodePlan,
    NodeProcess,
    Workspace,
    cluster_facts,
    describe_end,
    node_environment,
    wait_until_ready,
)
from gossamer.supervisor import ChildSpec, Pid, Reason, Runtime, Supervisor, describe

__all__ = ["Launcher", "NodeEndedError"]

_LOG_LINES = 12


class NodeEndedError(UnavailableError):
    """A node ended before the cluster was ready."""

    def __init__(self, *, name: str, how: str, log_file: str, tail: str) -> None:
        self.name = name
        self.how = how
        super().__init__(f"{name} ended at start ({how}); its log, {log_file}, ends with:\n{tail}")


class Launcher:
    """One run of ``gossamer up``."""

    def __init__(
        self,
        plan: ClusterPlan,
        workspace: Workspace,
        *,
        patience: float,
        on_ready: Callable[[Mapping[str, Any]], None],
        say: Callable[[str], None],
        progress: Callable[[Mapping[str, str]], None],
    ) -> None:
        self._plan = plan
        self._workspace = workspace
        self._patience = patience
        self._on_ready = on_ready
        self._say = say
        self._progress = progress
        self._runtime = Runtime(node="up@localhost")
        self._ended: asyncio.Queue[tuple[NodePlan, Reason]] = asyncio.Queue(maxsize=1024)

    async def run(self) -> ExitCode:
        """Start, wait, print, watch, stop."""
        stop = asyncio.Event()
        main = asyncio.current_task()
        loop = asyncio.get_running_loop()

        def on_signal() -> None:
            if stop.is_set() and main is not None:
                main.cancel()
            stop.set()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, on_signal)
        try:
            return await self._run(stop)
        finally:
            await self._runtime.stop()

    async def _run(self, stop: asyncio.Event) -> ExitCode:
        self._workspace.prepare(self._plan)
        logs = {node.name: _size(node) for node in self._plan.nodes}
        supervisor = await self._runtime.start(
            Supervisor,
            [self._spec(node) for node in self._plan.nodes],
            strategy="one_for_one",
            intensity=len(self._plan.nodes) * 3,
            period=60.0,
            name="nodes",
        )
        over = self._runtime.join(supervisor)
        stopping = asyncio.create_task(stop.wait(), name="signal")
        try:
            getting_ready = asyncio.create_task(self._come_up(), name="come up")
            first_end = asyncio.create_task(self._ended.get(), name="first end")
            try:
                await asyncio.wait({getting_ready, first_end, stopping}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                getting_ready.cancel()
                first_end.cancel()
                await asyncio.wait({getting_ready, first_end})
            if not getting_ready.cancelled():
                # Not in a task group, which would wrap what it has to say.
                getting_ready.result()
            if not first_end.cancelled():
                raise _ended_error(*first_end.result(), logs)
            if stop.is_set():
                return ExitCode.DONE
            return await self._watch(over, stopping)
        finally:
            stopping.cancel()
            await self._stop(supervisor, over)

    def _spec(self, node: NodePlan) -> ChildSpec:
        start = functools.partial(
            NodeProcess.start_link, node, environ=node_environment(), on_end=self._on_end, name=node.name
        )
        return ChildSpec(node.name, start, shutdown=STOP_LIMIT + 2.0)

    def _on_end(self, node: NodePlan, reason: Reason) -> None:
        try:
            self._ended.put_nowait((node, reason))
        except asyncio.QueueFull:
            # Somebody restarts nodes faster than they can be told of; one line less does no harm.
            pass

    async def _come_up(self) -> None:
        await wait_until_ready(self._plan, seconds=self._patience, progress=self._progress)
        facts = await self._publish()
        self._on_ready(facts)

    async def _publish(self) -> dict[str, Any]:
        pids = {}
        for node in self._plan.nodes:
            pids[node.name] = await self._runtime.call(node.name, "pid")
        facts = cluster_facts(self._plan, pids)
        self._workspace.write_facts(facts)
        return facts

    async def _watch(self, over: asyncio.Future[object], stopping: asyncio.Task[Any]) -> ExitCode:
        back: asyncio.Task[None] | None = None
        try:
            while True:
                ended = asyncio.create_task(self._ended.get(), name="node end")
                await asyncio.wait({over, stopping, ended}, return_when=asyncio.FIRST_COMPLETED)
                if not ended.done():
                    ended.cancel()
                    if stopping.done():
                        return ExitCode.DONE
                    self._say(f"gave up: {describe(over.result())}; see node.log of each node")
                    return ExitCode.NODE_ENDED
                node, reason = ended.result()
                self._say(f"{node.name} ended ({describe_end(reason)}); restarting it")
                if back is not None:
                    back.cancel()
                back = asyncio.create_task(self._tell_when_back(), name="back")
        finally:
            if back is not None:
                back.cancel()

    async def _tell_when_back(self) -> None:
        try:
            await wait_until_ready(self._plan, seconds=self._patience, progress=lambda _: None)
            await self._publish()
        except UnavailableError as error:
            self._say(str(error))
        else:
            self._say("ready again")

    async def _stop(self, supervisor: Pid, over: asyncio.Future[object]) -> None:
        self._runtime.exit(supervisor, "shutdown")
        await asyncio.wait({over})


def _size(node: NodePlan) -> int:
    try:
        return node.log_file.stat().st_size
    except FileNotFoundError:
        return 0


def _ended_error(node: NodePlan, reason: Reason, logs: Mapping[str, int]) -> NodeEndedError:
    with node.log_file.open("rb") as log:
        log.seek(logs[node.name])
        lines = log.read().decode("utf-8", "replace").splitlines()
    tail = "\n".join(f"  {line}" for line in lines[-_LOG_LINES:]) or "  (nothing)"
    return NodeEndedError(name=node.name, how=describe_end(reason), log_file=str(node.log_file), tail=tail)
