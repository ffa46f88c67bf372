"""Executor of a script on real nodes; afterwards it checks that the cluster is as before.

A full disc is simulated by the file size limit of the node's process (RLIMIT_FSIZE, by prlimit): every write
to a file fails, without privileges and without filling a disc. It differs from a full disc in the error
(EFBIG for ENOSPC), and in that existing bytes cannot be overwritten either.
"""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from gossamer.drill.record import MarkKind
from gossamer.drill.run.load import Load
from gossamer.drill.run.script import Step
from gossamer.drill.run.watch import Routes, Watch
from gossamer.drill.stage.backend import BackEnd, BackEndError
from gossamer.errors import UnavailableError

_TIMEOUT = 60.0
"""Timeout in seconds for the cluster to be whole after a restart, and for a heal to begin."""
_LOOK = 0.5
CONFLICTS = 5
"""Number of retained messages that each side writes."""


class Note(Protocol):
    """Recorder of an event now; without a node: an action on all nodes."""

    def __call__(self, kind: MarkKind, node: str = "", *, detail: str = "") -> None: ...


class Executor:
    """Performs steps one after another, and records its actions."""

    def __init__(self, backend: BackEnd, watch: Watch, load: Load, *, note: Note) -> None:
        self.down: set[str] = set()
        """Nodes that the script ended."""
        self.conflicts = 0
        """Number of rows written at more than one node."""
        self.coordinator = ""
        """Node that was killed while it coordinated a heal."""
        self._backend = backend
        self._watch = watch
        self._load = load
        self._note = note
        self._routes: Routes = frozenset()

    @property
    def _names(self) -> list[str]:
        return [node.name for node in self._backend.nodes]

    async def learn_routes(self) -> None:
        """Store the routes of all nodes while the cluster is whole.

        Raises:
            UnavailableError: their routes do not become equal.
        """
        wanted = {client_filter for client in self._load.subscribers for client_filter, _ in client.filters}

        async def lack() -> str:
            one, *others = set(await asyncio.gather(*map(self._watch.routes, self._names)))
            if others or one is None or not wanted <= {topic for topic, _ in one}:
                return "nodes do not know the same routes"
            self._routes = one
            return ""

        await self._until(lack, "all routes at all nodes")

    async def perform(self, steps: Sequence[Step]) -> None:
        """Perform steps one after another."""
        for step in steps:
            await self._perform(step, next(iter(step.nodes), self.coordinator))

    async def _perform(self, step: Step, name: str) -> None:
        match step.action:
            case "wait":
                await asyncio.sleep(step.seconds)
            case "apply":
                await self._backend.apply(step.faults, seconds=step.seconds)
                self._note("fault applied" if step.faults else "fault lifted", detail=step.text)
            case "await cluster":
                await self._backend.ready(seconds=_TIMEOUT)
            case "kill" | "stop" as how:
                await self._end(name, kill=how == "kill")
            case "start":
                await self._backend.restart(name)
                self._note("process started", name)
                self.down.discard(name)
            case "pause":
                self._backend.signal(name, signal.SIGSTOP)
                self._note("process paused", name)
            case "resume":
                self._backend.signal(name, signal.SIGCONT)
                self._note("process resumed", name)
            case "set clock":
                await self._backend.put(name, "/api/v1/drill/clock", {"offset": step.seconds})
                self._note("clock set", name, detail=f"{step.seconds:+g} s")
            case "fill disk" | "free disk" as how:
                self._limit_files(name, full=how == "fill disk")
            case "write conflict":
                self._write(step.nodes)
            case "kill coordinator":
                await self._until(self._no_plan, "a heal to begin", every=0.02)
                await self._end(self.coordinator, kill=True)

    # -- checks that the cluster is as before

    async def until_whole(self, *, quiet: float) -> None:
        """Wait until every node is ready, has its earlier routes, and has nothing to heal."""
        await self._watch.until_routes(self._routes)
        self._note("routes equal")
        loop = asyncio.get_running_loop()
        since = loop.time()
        while loop.time() - since < quiet:
            if await self.missing():
                since = loop.time()
            await asyncio.sleep(_LOOK)

    async def missing(self) -> str:
        """Describe what is not as before; empty if everything is."""
        lacks = await asyncio.gather(*map(self._lack, self._names))
        return "; ".join(f"{name} {lack}" for name, lack in zip(self._names, lacks, strict=True) if lack)

    async def _lack(self, name: str) -> str:
        routes = await self._watch.routes(name)
        if routes is None:
            return "is not ready, or has no link to some"
        if routes != self._routes:
            return "has other routes"
        status = await self._watch.get(name, "/api/v1/autoheal")
        if status is None:
            return "does not answer"
        if status["open"] or status["phase"] != "idle":
            return f"has {len(status['open'])} splits open, and is {status['phase']}"
        return ""

    async def _until(self, lack: Callable[[], Awaitable[str]], wanted: str, *, every: float = _LOOK) -> None:
        """Wait until ``lack`` returns nothing. Raises UnavailableError at the timeout."""
        missing = "no node answered"
        try:
            async with asyncio.timeout(_TIMEOUT):
                while missing := await lack():  # noqa: ASYNC110 - nodes are asked
                    await asyncio.sleep(every)
        except TimeoutError:
            what = f"expected {wanted} within {_TIMEOUT:g} s; {missing}"
            raise UnavailableError(f"{what}; the logs of the nodes say more (--keep)") from None

    async def _no_plan(self) -> str:
        for status in await self._watch.get_all("/api/v1/autoheal"):
            if status is not None and status["plan"]:
                self.coordinator = status["plan"]["coordinator"]
                return ""
        return "no node has a plan; the cut was too short to be seen, or autoheal is off"

    # -- nodes

    async def _end(self, name: str, *, kill: bool) -> None:
        self.down.add(name)
        await self._watch.look()
        await self._backend.stop(name, kill=kill)
        self._note("process killed" if kill else "process stopped", name)

    def _write(self, names: Sequence[str]) -> None:
        """Publish retained messages to the same topics with different contents at each of the nodes."""
        writers = [next(one for one in self._load.publishers if one.node.name == name) for name in names]
        for number in range(CONFLICTS):
            topic = f"drill-conflict/{number}".encode()
            wrote = sum(one.publish(topic, one.node.name.encode(), retain=True) for one in writers)
            self.conflicts += wrote > 1
        self._note("rows written on all sides", detail=f"{self.conflicts}")

    def _limit_files(self, name: str, *, full: bool) -> None:
        try:
            limit_files(self._backend.pids[name], full=full)
        except OSError as error:
            reason = f"{name} could not be limited: {error.strerror}"
            raise BackEndError(backend=self._backend.name, reason=reason) from error
        self._note("disk full" if full else "disk free", name)


def limit_files(pid: int, *, full: bool) -> None:
    """Forbid or allow file growth of a process. Raises OSError if it is gone or not ours."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0 if full else hard, hard))
