"""Does what a script says, on real nodes, and sees whether all is as before.

A full disc is the kernel's file size limit of the node's process (RLIMIT_FSIZE, by prlimit): every write to
a file fails, without rights and without filling anybody's disc. It differs from a full disc in the error
(EFBIG for ENOSPC), and in that bytes that are there already cannot be written again either.
"""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import Callable, Sequence

import httpx

from gossamer.drill.load.load import Load
from gossamer.drill.record import Mark, MarkKind
from gossamer.drill.run.script import (
    Apply,
    Await,
    Clock,
    Conflict,
    Disk,
    End,
    KillCoordinator,
    Lift,
    Pause,
    Resume,
    Start,
    Step,
    Wait,
)
from gossamer.drill.run.watch import Watch
from gossamer.drill.stage.backend import BackEnd, BackEndError
from gossamer.errors import UnavailableError

__all__ = ["Executor", "NotWholeError", "limit_files"]

_READY = 60.0
"""Seconds for the cluster to be whole after a restart."""
_PLAN = 60.0
"""Seconds for a heal to begin."""
_LOOK = 0.5
CONFLICTS = 5
"""Retained messages that each side writes."""

Routes = frozenset[tuple[str, frozenset[str]]]


class NotWholeError(UnavailableError):
    """What a drill waits for does not come."""

    def __init__(self, *, wanted: str, seconds: float, missing: str) -> None:
        self.missing = missing
        super().__init__(
            f"expected {wanted} within {seconds:g} s; {missing}; the logs of the nodes say more (--keep)"
        )


class Executor:
    """``tell`` hears of what was done; ``down`` are the nodes that the script ended."""

    def __init__(
        self,
        backend: BackEnd,
        watch: Watch,
        load: Load,
        *,
        now: Callable[[], float],
        tell: Callable[[Mark], None],
    ) -> None:
        self.down: set[str] = set()
        self.conflicts = 0
        """Rows that were written at more than one node."""
        self._backend = backend
        self._watch = watch
        self._load = load
        self._now = now
        self._tell = tell
        self._routes: Routes = frozenset()
        self.coordinator = ""
        """The node that was killed while it healed."""

    async def learn_routes(self) -> None:
        """What all nodes know while all is well.

        Raises:
            NotWholeError: they do not come to know the same.
        """
        names = [node.name for node in self._backend.nodes()]
        wanted = {client_filter for client in self._load.subscribers for client_filter, _ in client.filters}
        try:
            async with asyncio.timeout(_READY):
                while True:
                    found = set(await asyncio.gather(*map(self._watch.routes, names)))
                    [one, *others] = found
                    if not others and one is not None and wanted <= {topic for topic, _ in one}:
                        self._routes = one
                        return
                    await asyncio.sleep(_LOOK)
        except TimeoutError:
            missing = "nodes do not know the same routes"
            raise NotWholeError(wanted="all routes at all nodes", seconds=_READY, missing=missing) from None

    async def perform(self, steps: Sequence[Step]) -> None:
        """One after another."""
        for step in steps:
            await self._perform(step)

    async def _perform(self, step: Step) -> None:
        match step:
            case Wait(seconds):
                await asyncio.sleep(seconds)
            case Apply(faults, seconds, text):
                await self._backend.apply(faults, seconds=seconds)
                self._note("", "fault applied", text)
            case Lift():
                await self._backend.lift()
                self._note("", "fault lifted")
            case Await():
                await self._until_ready()
            case End(name, kill):
                await self._end(name, kill=kill)
            case Start(name):
                await self._start(name or self.coordinator)
            case Pause(name):
                await self._backend.signal(name, signal.SIGSTOP)
                self._note(name, "process paused")
            case Resume(name):
                await self._backend.signal(name, signal.SIGCONT)
                self._note(name, "process resumed")
            case Clock(name, offset):
                await self._set_clock(name, offset)
            case Disk(name, full):
                self._limit_files(name, full=full)
            case Conflict(names):
                self._write(names)
            case KillCoordinator():
                await self._kill_coordinator()

    # -- is all as before?

    async def until_whole(self, *, quiet: float) -> None:
        """Wait until every node is ready, has the routes it had, and knows of nothing to heal."""
        await self._watch.until_routes(self._routes)
        self._note("", "routes equal")
        loop = asyncio.get_running_loop()
        since = loop.time()
        while loop.time() - since < quiet:
            if await self.missing():
                since = loop.time()
            await asyncio.sleep(_LOOK)

    async def missing(self) -> str:
        """What is not as before, in words; empty when all is."""
        names = [node.name for node in self._backend.nodes()]
        lacks = await asyncio.gather(*map(self._lack, names))
        return "; ".join(f"{name} {lack}" for name, lack in zip(names, lacks, strict=True) if lack)

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

    async def _until_ready(self) -> None:
        names = {node.name for node in self._backend.nodes()}
        try:
            async with asyncio.timeout(_READY):
                while names:
                    for name in list(names):
                        ready = await self._watch.get(name, "/ready")
                        if ready is not None and len(ready["members"]) == len(self._backend.nodes()):
                            names.discard(name)
                    await asyncio.sleep(0.1)
        except TimeoutError:
            missing = f"not so: {', '.join(sorted(names))}"
            raise NotWholeError(wanted="all nodes ready", seconds=_READY, missing=missing) from None

    # -- nodes

    async def _end(self, name: str, *, kill: bool) -> None:
        self.down.add(name)
        await self._watch.look()
        await self._backend.stop(name, kill=kill)
        self._note(name, "process killed" if kill else "process stopped")

    async def _start(self, name: str) -> None:
        node = await self._backend.restart(name)
        self._watch.readdress(node)
        self._load.readdress(node)
        self._note(name, "process started")
        self.down.discard(name)

    async def _kill_coordinator(self) -> None:
        """Kill the node that carries a heal out, as soon as there is one."""
        try:
            async with asyncio.timeout(_PLAN):
                while not self.coordinator:
                    for status in await self._watch.get_all("/api/v1/autoheal"):
                        if status is not None and status["plan"]:
                            self.coordinator = status["plan"]["coordinator"]
                    await asyncio.sleep(0.02)
        except TimeoutError:
            missing = "no node has a plan; the cut was too short to be seen, or autoheal is off"
            raise NotWholeError(wanted="a heal to begin", seconds=_PLAN, missing=missing) from None
        await self._end(self.coordinator, kill=True)

    async def _set_clock(self, name: str, offset: float) -> None:
        node = next(node for node in self._backend.nodes() if node.name == name)
        try:
            async with httpx.AsyncClient(timeout=5.0, trust_env=False) as client:
                answer = await client.put(node.api + "/api/v1/drill/clock", json={"offset": offset})
            refusal = "" if answer.status_code == 200 else f"answered {answer.status_code}"
        except httpx.TransportError as error:
            refusal = f"did not answer ({type(error).__name__})"
        if refusal:
            raise self._unwilling(name, f"{refusal} when its clock was to be set")
        self._note(name, "clock set", f"{offset:+g} s")

    def _write(self, names: Sequence[str]) -> None:
        """Retained messages of the same topics, and of other contents, at each of the nodes."""
        writers = [next(client for client in self._load.publishers if client.node == name) for name in names]
        for number in range(CONFLICTS):
            topic = f"drill-conflict/{number}".encode()
            wrote = sum(client.retain(topic, client.node.encode()) for client in writers)
            self.conflicts += wrote > 1
        self._note("", "rows written on all sides", f"{self.conflicts}")

    def _limit_files(self, name: str, *, full: bool) -> None:
        node = next(node for node in self._backend.nodes() if node.name == name)
        try:
            limit_files(node.pid, full=full)
        except OSError as error:
            raise self._unwilling(name, f"could not be limited: {error.strerror}") from error
        self._note(name, "disk full" if full else "disk free")

    def _unwilling(self, name: str, reason: str) -> BackEndError:
        return BackEndError(
            backend=self._backend.name,
            reason=f"{name} {reason}",
            remedy="see its node.log (--keep keeps it)",
        )

    def _note(self, node: str, kind: MarkKind, detail: str = "") -> None:
        self._tell(Mark(round(self._now(), 4), node, kind, detail=detail))


def limit_files(pid: int, *, full: bool) -> None:
    """Let no file of a process grow, or let them again. Raises OSError where it is gone or not ours."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0 if full else hard, hard))
