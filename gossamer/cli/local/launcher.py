"""Launcher of ``gossamer up``: a one_for_one tree of operating-system processes, and its output.

Rules: 1. Until the cluster is ready, a node that ends ends the whole, with the end of its log.  2. From then
on it is restarted and said so; too many restarts end the whole.  3. A signal stops the tree in order, last
node first, each waited for; a second signal kills.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any

from gossamer.cli.errors import ExitCode
from gossamer.cli.local.interrupt import interruptible
from gossamer.cli.render.output import note
from gossamer.errors import UnavailableError
from gossamer.launch import (
    STOP_LIMIT,
    ClusterPlan,
    NodeEndedError,
    NodePlan,
    NodeProcess,
    Workspace,
    cluster_facts,
    describe_end,
    node_environment,
    wait_until_ready,
)
from gossamer.supervisor import ChildSpec, Reason, Runtime, Supervisor, describe

if TYPE_CHECKING:
    from gossamer.cli.local.up import Screen


class Launcher:
    """Run of ``gossamer up``; ``timeout`` bounds the wait for readiness, at first and after restarts."""

    def __init__(self, plan: ClusterPlan, workspace: Workspace, screen: Screen, *, timeout: float) -> None:
        self._plan = plan
        self._workspace = workspace
        self._screen = screen
        self._timeout = timeout
        self._runtime = Runtime(node="up@localhost")
        self._ended: asyncio.Queue[tuple[NodePlan, Reason]] = asyncio.Queue(maxsize=1024)

    async def run(self) -> ExitCode:
        """Start, wait, print, watch, stop."""
        main = asyncio.current_task()

        def on_signal(count: int) -> None:
            if count > 1 and main is not None:
                main.cancel()

        code = ExitCode.DONE
        try:
            with interruptible(on_signal):
                code = await self._run()
        finally:
            await self._runtime.stop()
        return code

    async def _run(self) -> ExitCode:
        self._workspace.prepare(self._plan)
        logged = {node.name: _size(node) for node in self._plan.nodes}
        supervisor = await self._runtime.start(
            Supervisor,
            [self._spec(node) for node in self._plan.nodes],
            strategy="one_for_one",
            intensity=len(self._plan.nodes) * 3,
            period=60.0,
            name="nodes",
        )
        over = self._runtime.join(supervisor)
        try:
            if ended := await self._first_end():
                node, reason = ended
                raise NodeEndedError(node, reason, logged[node.name])
            return await self._watch(over)
        finally:
            self._runtime.exit(supervisor, "shutdown")
            await asyncio.wait({over})

    def _spec(self, node: NodePlan) -> ChildSpec:
        start = functools.partial(
            NodeProcess.start_link, node, environ=node_environment(), on_end=self._on_end, name=node.name
        )
        return ChildSpec(node.name, start, shutdown=STOP_LIMIT + 2.0)

    def _on_end(self, node: NodePlan, reason: Reason) -> None:
        try:
            self._ended.put_nowait((node, reason))
        except asyncio.QueueFull:
            # Nodes restart faster than they can be reported; a missing line does no harm.
            pass

    async def _first_end(self) -> tuple[NodePlan, Reason] | None:
        """Wait until the cluster is ready, or return the node that ended before."""
        getting_ready = asyncio.create_task(self._come_up(), name="come up")
        try:
            ended = await self._end_before(getting_ready)
        finally:
            getting_ready.cancel()
            await asyncio.wait({getting_ready})
        if not getting_ready.cancelled():
            # Not in a task group, which would wrap its exception.
            getting_ready.result()
        return ended

    async def _end_before(self, other: asyncio.Future[Any]) -> tuple[NodePlan, Reason] | None:
        """Wait for the next end of a node, or until ``other`` is done: None."""
        ended = asyncio.create_task(self._ended.get(), name="node end")
        try:
            await asyncio.wait({other, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
        return ended.result() if ended.done() else None

    async def _come_up(self) -> None:
        await wait_until_ready(self._plan, seconds=self._timeout, progress=self._screen.progress)
        self._screen.ready(await self._publish())

    async def _publish(self) -> dict[str, object]:
        pids = {node.name: await self._runtime.call(node.name, "pid") for node in self._plan.nodes}
        facts = cluster_facts(self._plan, pids)
        self._workspace.write_facts(facts)
        return facts

    async def _watch(self, over: asyncio.Future[Reason]) -> ExitCode:
        back: asyncio.Task[None] | None = None
        try:
            while ended := await self._end_before(over):
                node, reason = ended
                note(f"{node.name} ended ({describe_end(reason)}); restarting it")
                if back is not None:
                    back.cancel()
                back = asyncio.create_task(self._tell_when_back(), name="back")
            note(f"gave up: {describe(over.result())}; see node.log of each node")
            return ExitCode.NODE_ENDED
        finally:
            if back is not None:
                back.cancel()

    async def _tell_when_back(self) -> None:
        try:
            await wait_until_ready(self._plan, seconds=self._timeout, progress=lambda _: None)
            await self._publish()
        except UnavailableError as error:
            note(str(error))
        else:
            note("ready again")


def _size(node: NodePlan) -> int:
    try:
        return node.log_file.stat().st_size
    except FileNotFoundError:
        return 0
