"""Executor of a script on real nodes; afterwards it checks that the cluster is as before.

A full disc is simulated by the file size limit of the node's process (RLIMIT_FSIZE, by prlimit): every write
to a file fails, without privileges and without filling a disc. It differs from a full disc in the error
(EFBIG for ENOSPC), and in that existing bytes cannot be overwritten either.

A log of replicas is damaged while its node is down: one bit in the middle of the newest segment, in the first
byte of a sector, which belongs to a frame and never to the padding behind one.
"""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from gossamer.drill.record import Mark, MarkKind, Said
from gossamer.drill.report.copies import COMMITS, DAMAGED
from gossamer.drill.run.client import TrafficClient
from gossamer.drill.run.load import Load
from gossamer.drill.run.script import Step
from gossamer.drill.run.watch import Routes, Watch
from gossamer.drill.stage.backend import BackEnd, BackEndError
from gossamer.errors import UnavailableError

_TIMEOUT = 60.0
"""Timeout in seconds for the cluster to be whole after a restart, and for a heal to begin."""
_LOOK = 0.5
SECTOR = 512
CONFLICTS = 5
"""Number of retained messages that each side writes."""


_Replica = tuple[str, str, int]
"""Group, node and number."""


class Note(Protocol):
    """Recorder of an event now; without a node: an action on all nodes."""

    def __call__(self, kind: MarkKind, node: str = "", *, detail: str = "") -> Mark: ...


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
        self.said: list[Said] = []
        """What nodes said of faults."""
        self.moved: list[str] = []
        """Clients that went on at another node."""
        self._replicas: set[_Replica] = set()
        """Those of the whole cluster."""
        self._stale: set[_Replica] = set()
        """Those whose log was damaged."""
        self._commits = 0.0, 0.0
        """Seconds and number of commits before the disc was slow."""

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
            case "await copies":
                await self._until(self._not_copied, "copies of all sessions at whole replicas")
                self._note("copies whole")
            case "leave":
                await self._leave(*step.nodes)
            case "arrive":
                self._arrive(*step.nodes)
            case "go home":
                await self._go_home(name)
            case "await alarms":
                await self._await_alarms(name, step.seconds)
            case "slow disc":
                await self._slow_disc(name, step.seconds)
            case "flip bit":
                self._flip_bit(name)
            case "read log":
                self._read_log(name)

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

    # -- copies of sessions, and the clients that rest on them

    async def _not_copied(self) -> str:
        groups = next(filter(None, await self._watch.get_all("/api/v1/raft")), ())
        ranges = [group for group in groups if group["kind"].startswith("basekv/")]
        if not ranges:
            return "no ranges of keys were founded"
        for group in groups:
            members = group["members"]
            whole = [one for one in members if one["voter"] and one["flow"] == "replicate"]
            if group["changing"] or not group["leader"] or not len(whole) == len(members) >= 3:
                return f"{group['kind']} has {len(whole)} whole voters"
            if self._stale & _replicas(group):
                return f"{group['kind']} still has a replica whose log was damaged"
        wanted = sum(client.persistent for client in self._load.subscribers)
        self._replicas = set().union(*map(_replicas, groups))
        copied, behind = await self._watch.copies()
        return "" if copied >= wanted and not behind else f"{copied} of {wanted} copied, {behind} behind"

    def _at_home(self, name: str) -> list[TrafficClient]:
        everybody = (*self._load.subscribers, *self._load.publishers)
        return [client for client in everybody if client.home.name == name]

    async def _leave(self, name: str, other: str) -> None:
        for client in self._at_home(name):
            client.elsewhere = self._backend.node(other)
        away = [client for client in self._at_home(name) if client.persistent]
        self.moved = [client.client_id for client in away]
        await asyncio.gather(*(client.leave() for client in away))
        self._note("clients moved", name, detail=f"{len(away)} went away")

    def _arrive(self, home: str, other: str) -> None:
        for client in self._at_home(home):
            if client.client_id in self.moved:
                client.come(self._backend.node(other))
        self._note("clients moved", other, detail="come here")

    async def _go_home(self, name: str) -> None:
        clients = self._at_home(name)
        await asyncio.gather(*(client.leave() for client in clients))
        for client in clients:
            client.elsewhere = None
            client.come(client.home)
        self._note("clients moved", name, detail="come home")

    # -- what nodes say

    def _say(self, node: str, name: str, text: str, value: float = 0.0) -> None:
        found = self._note("said", node, detail=f"{name}: {text}")
        self.said.append(Said(found.at, node, name, text, value))

    async def _await_alarms(self, name: str, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            page: Any = await self._watch.get(name, "/api/v1/alarms")
            known = {said.name for said in self.said}
            for alarm in () if page is None else page["items"]:
                if alarm["active"] and alarm["name"] not in known:
                    known.add(alarm["name"])
                    self._say(name, alarm["name"], alarm["text"])
            await asyncio.sleep(min(_LOOK, max(0.0, end - loop.time())))

    def _read_log(self, name: str) -> None:
        for line in self._backend.node(name).log_file.read_bytes().splitlines():
            if DAMAGED.encode() in line:
                self._say(name, DAMAGED, str(msgspec.json.decode(line)["error"]))

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

    async def _slow_disc(self, name: str, seconds: float) -> None:
        before, self._commits = self._commits, await self._watch.commits(name)
        if not seconds:
            took, count = (now - then for now, then in zip(self._commits, before, strict=True))
            mean = took / max(count, 1.0)
            self._say(name, COMMITS, f"{count:.0f} commits took {mean:.2f} s each", mean)
        await self._backend.put(name, "/api/v1/drill/disc", {"delay": seconds})
        self._note("disk slow" if seconds else "disk fast", name, detail=f"+{seconds:g} s" * bool(seconds))

    def _flip_bit(self, name: str) -> None:
        """Damage the log of a node that is down, and remember the replicas that it had."""
        segment, place = flip_bit(self._backend.node(name).directory / "raft")
        self._stale |= {found for found in self._replicas if found[1] == name}
        self._note("bit flipped", name, detail=f"{segment}, byte {place}")

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


def flip_bit(directory: Path) -> tuple[str, int]:
    """Flip a bit in the middle of a write-ahead log; return the name of the segment and the byte.

    Raises BackEndError if nothing was written there.
    """
    segment = max(directory.glob("*.wal"), default=None)
    size = 0 if segment is None else segment.stat().st_size
    if segment is None or size < 2 * SECTOR:
        raise BackEndError(backend="gate", reason=f"{directory} has no log that could be damaged")
    place = size // 2 // SECTOR * SECTOR
    with segment.open("r+b") as file:
        file.seek(place)
        [byte] = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1]))
    return segment.name, place


def _replicas(group: dict[str, Any]) -> set[_Replica]:
    return {(group["kind"], one["node"], one["replica"]) for one in group["members"]}
