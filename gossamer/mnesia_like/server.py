"""The processes behind the tables: one that replicates, one that writes to disc.

Both are thin: they turn messages into events of the pure core and carry out its actions. What they work on
(the tables, the replication state, the disc queue) belongs to the store and outlives them, so that a crash
and a restart cost readers nothing: Erlang's heirs, without the handing over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import structlog

from gossamer.clock import Clock
from gossamer.mnesia_like.definition import TableDef
from gossamer.mnesia_like.disc.disc import Disc, DiscFile
from gossamer.mnesia_like.disc.queue import DiscQueue
from gossamer.mnesia_like.errors import (
    BackupExistsError,
    BadFrameError,
    CorruptTablesError,
    DiscError,
    TableExistsError,
)
from gossamer.mnesia_like.link import ReplicationLink
from gossamer.mnesia_like.replicate.replication import Action, Replication
from gossamer.supervisor import (
    Caller,
    GenServer,
    Pid,
    Reason,
    Reply,
    Runtime,
    self_pid,
    send_after,
    trap_exit,
)

__all__ = [
    "Catalogue",
    "CopyTo",
    "DiscHandle",
    "DiscServer",
    "Doorbell",
    "Drop",
    "Flush",
    "Load",
    "Replicator",
    "Wiring",
]

T = TypeVar("T")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Flush:
    """Something was written."""


@dataclass(frozen=True, slots=True)
class Load:
    """A call: the rows that the disc holds of a table."""

    definition: TableDef


@dataclass(frozen=True, slots=True)
class Drop:
    """A call: forget a table."""

    table: str


@dataclass(frozen=True, slots=True)
class CopyTo:
    """A call: write all that was written before it to another file; its size."""

    path: Path


@dataclass(frozen=True, slots=True)
class Catalogue:
    """A call: what the disc holds, table by table."""


@dataclass(frozen=True, slots=True)
class _PeerUp:
    name: str
    creation: int
    session: int


@dataclass(frozen=True, slots=True)
class _PeerDown:
    name: str
    left: bool
    renewing: bool


@dataclass(frozen=True, slots=True)
class _Frame:
    peer: str
    payload: bytes
    done: Callable[[], None]


class _Tick:
    """Time passed."""


class _Work:
    """Another slice of background work."""


_TICK = _Tick()
_WORK = _Work()


class Doorbell:
    """Tells a process, once until it has answered, that something was written."""

    def __init__(self) -> None:
        self._runtime: Runtime | None = None
        self._pid: Pid | None = None
        self._rung = False

    @property
    def process(self) -> tuple[Runtime, Pid] | None:
        """Who lives here, if anyone does."""
        if self._runtime is None or self._pid is None or not self._runtime.alive(self._pid):
            return None
        return self._runtime, self._pid

    def attach(self) -> None:
        """The running process lives here now."""
        self._runtime, self._pid = Runtime.current(), self_pid()
        self._rung = False

    def ring(self) -> None:
        """Send one Flush. Nobody there: whoever attaches looks for work of its own accord."""
        if not self._rung and self._runtime is not None and self._pid is not None:
            self._rung = self._runtime.send(self._pid, Flush())

    def answer(self) -> None:
        """The process looks for work now; what is written from here on rings again."""
        self._rung = False


class DiscHandle:
    """The file and the thread. They outlive the process: after a kill, the next one closes what it left open,
    in the same thread, so after whatever that was still doing."""

    def __init__(self, disc: Disc, *, executor: Executor | None = None, retry: float = 1.0) -> None:
        self.disc = disc
        self.retry = retry
        self.file: DiscFile | None = None
        self._own = executor is None
        self._executor = executor

    async def open(self) -> DiscFile:
        """Open the file anew."""
        await self.close()
        self.file = await self.run(self.disc.open)
        return self.file

    async def close(self) -> None:
        """Close it, if it is open."""
        file, self.file = self.file, None
        if file is not None:
            await self.run(file.close)

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call in the writer's thread."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="gossamer-disc")
        # Through the loop, so that one on virtual time can run it at once.
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)

    def abandon(self) -> None:
        """Let go at once, as the kernel does for a killed process: what waits is not committed."""
        if self._own and self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None
        file, self.file = self.file, None
        if file is not None:
            file.close()

    def release(self) -> None:
        """Let the thread end."""
        if self._own and self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None


class Wiring(Protocol):
    """What the processes need of the store."""

    replication: Replication
    clock: Clock
    link: ReplicationLink | None
    queue: DiscQueue
    tick: float
    replicator_bell: Doorbell
    disc_bell: Doorbell

    def perform(self, actions: list[Action]) -> None:
        """Carry out what the core decided."""

    def renew(self) -> None:
        """Begin the sessions with all peers anew: something that they were to be told is lost."""

    def returns(self, peer: str, creation: int) -> None:
        """``peer`` is about to be told up."""

    def leaves(self, peer: str, *, left: bool) -> None:
        """``peer`` is about to be told gone; ``left``: for good."""

    def testify(self) -> None:
        """Tell peers what of their rows is on disc here."""

    def housekeeping(self) -> None:
        """Some time passed."""


class _Inbox:
    """The link's sink: everything becomes a message, so that only the process touches the core."""

    def __init__(self, runtime: Runtime, pid: Pid, link: ReplicationLink) -> None:
        self._runtime = runtime
        self._pid = pid
        self._link = link

    def peer_up(self, name: str, creation: int, session: int) -> None:
        self._tell(name, _PeerUp(name, creation, session))

    def peer_down(self, name: str, *, left: bool, renewing: bool = False) -> None:
        self._runtime.send(self._pid, _PeerDown(name, left, renewing))

    def frame(self, peer: str, payload: bytes, done: Callable[[], None]) -> None:
        self._tell(peer, _Frame(peer, payload, done))

    def _tell(self, peer: str, message: _PeerUp | _Frame) -> None:
        if not self._runtime.send(self._pid, message) and self._runtime.alive(self._pid):
            # Its mailbox is full. A process that has ended has a successor, to whom it is given again.
            self._link.renew(peer)


class Replicator(GenServer):
    """Runs :class:`Replication` for a store."""

    async def init(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._core = wiring.replication
        self._working = False
        wiring.replicator_bell.attach()
        if wiring.link is not None:
            wiring.link.attach(_Inbox(Runtime.current(), self_pid(), wiring.link))
            self._reconcile(wiring.link)
        self._perform(self._core.flush(self._now()))
        send_after(wiring.tick, self_pid(), _TICK)

    async def handle_info(self, message: Any) -> None:
        try:
            await self._handle(message)
        except Exception:
            # Half of it may have taken effect. A frame is done, so that it does not come again for ever.
            self._wiring.renew()
            raise

    async def _handle(self, message: Any) -> None:
        core, now = self._core, self._now()
        match message:
            case _Frame(peer, payload, done):
                try:
                    self._perform(core.receive(peer, payload, now))
                except BadFrameError as error:
                    log.warning("bad_frame", peer=peer, problem=error.problem)
                    # Where nothing of a peer can be read, another session would not help.
                    if self._wiring.link is not None and core.heard(peer):
                        self._wiring.link.renew(peer)
                finally:
                    done()
            case Flush():
                self._wiring.replicator_bell.answer()
                self._wiring.testify()
                self._perform(core.flush(now))
            case _PeerUp(name, creation, session):
                self._wiring.returns(name, creation)
                self._perform(core.peer_up(name, creation, session, now))
            case _PeerDown(name, left, renewing):
                self._wiring.leaves(name, left=left)
                self._perform(core.peer_down(name, now, left=left, renewing=renewing))
            case _Work():
                self._working = False
                self._perform(core.work(now))
            case _Tick():
                send_after(self._wiring.tick, self_pid(), _TICK)
                if self._wiring.link is not None:
                    self._reconcile(self._wiring.link)
                self._perform(core.tick(now))
                self._wiring.housekeeping()
            case _:
                await super().handle_info(message)

    def _reconcile(self, link: ReplicationLink) -> None:
        """Peers came and went while no process listened, or its mailbox was full."""
        now = self._now()
        there = dict(link.peers())
        known = self._core.peers()
        renewing = link.renewing()
        for name in [*known, *self._core.renewing() - renewing]:
            if name not in there:
                self._wiring.leaves(name, left=False)
                self._perform(self._core.peer_down(name, now, renewing=name in renewing))
        for name, (creation, session) in there.items():
            self._wiring.returns(name, creation)
            self._perform(self._core.peer_up(name, creation, session, now))

    def _perform(self, actions: list[Action]) -> None:
        self._wiring.perform(actions)
        if not self._working and self._core.busy:
            self._working = True
            # By a timer, so that everything else of this turn comes before the next slice.
            send_after(0.0, self_pid(), _WORK)

    def _now(self) -> float:
        return self._wiring.clock.monotonic()


class DiscServer(GenServer):
    """Commits whatever waits, batch after batch."""

    async def init(self, wiring: Wiring, handle: DiscHandle) -> None:
        self._queue = wiring.queue
        self._bell = wiring.disc_bell
        self._handle = handle
        self._retrying = False
        # So that the file is closed in order when the supervisor says so.
        trap_exit(True)
        file = self._file = await handle.open()
        if file.rebuilt is not None:
            log.error("disc_copy_rebuilt", path=str(file.path), problem=file.rebuilt)
        self._bell.attach()
        await self._commit()

    async def handle_call(self, request: Any, caller: Caller) -> Reply:
        if not isinstance(request, Load | Drop | Catalogue | CopyTo):
            raise TypeError(f"{type(request).__name__}, expected Load, Drop, Catalogue or CopyTo")
        if isinstance(request, CopyTo) and not self._retrying:
            await self._commit()
        try:
            if isinstance(request, CopyTo):
                if self._queue.failed is not None:
                    return Reply(self._queue.failed)
                return Reply(await self._handle.run(self._file.copy_to, request.path))
            if isinstance(request, Catalogue):
                return Reply(await self._handle.run(self._file.catalogue))
            if isinstance(request, Drop):
                await self._handle.run(self._file.drop, request.table)
                return Reply(None)
            await self._handle.run(self._file.create, request.definition)
            return Reply(await self._handle.run(self._file.load, request.definition.name))
        except (BackupExistsError, DiscError, TableExistsError) as error:
            return Reply(error)

    async def handle_info(self, message: Any) -> None:
        match message:
            case Flush():
                self._bell.answer()
                if not self._retrying:
                    await self._commit()
            case _Tick():
                self._retrying = False
                await self._commit()
            case _:
                await super().handle_info(message)

    async def terminate(self, reason: Reason) -> None:
        if reason == "shutdown":
            await self._commit()
        await self._handle.close()
        self._handle.release()

    async def _commit(self) -> None:
        queue = self._queue
        batch = queue.take()
        if batch is None:
            return
        begun = self.process.loop.time()
        try:
            await self._handle.run(self._file.commit, batch)
        except CorruptTablesError:
            raise
        except DiscError as error:
            if queue.failed is None:
                log.error("disc_copy_failed", path=error.path, problem=error.problem, advice=error.advice)
            queue.fail(error)
            self._retrying = True
            send_after(self._handle.retry, self_pid(), _TICK)
            return
        if queue.failed is not None:
            log.info("disc_copy_recovered", path=str(self._file.path))
        queue.latency.observe(self.process.loop.time() - begun)
        queue.succeed()
