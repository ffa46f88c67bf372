"""One node of the simulation: a disc, a log, a replica and a state machine, and the order of a turn.

A turn's sync takes time, in which messages and ticks come in. A node that crashes loses everything but its
disc. One whose disc is damaged says so, stays down, and waits for a new disc and a new number.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from gossamer.raft import (
    Chunk,
    ChunkWanted,
    DamagedLogError,
    HardState,
    LogWriteError,
    LyingReplicaError,
    Mark,
    Membership,
    Message,
    NotReadyError,
    Ready,
    Record,
    Replica,
    Role,
    Snapshot,
    WriteAheadLog,
)
from gossamer.testing.raft.disc import CrashedError, SimDisc
from gossamer.testing.raft.machine import Command, Machine, encode

if TYPE_CHECKING:
    from gossamer.testing.raft.world import RaftWorld

GROUP = 1
TICK = 0.05
RETRY = 0.1
CHUNK = 700
WAL = {"segment_bytes": 8192, "keep_segments": 2}


class SimNode:
    """Node ``number``, with the replica ``copy`` on its disc."""

    def __init__(self, world: RaftWorld, number: int, copy: int, membership: Membership) -> None:
        self.world = world
        self.number = number
        self.copy = copy
        self.membership = membership
        """The members that a blank disc begins with."""
        self.rng: Random = world.sim.rng(f"node{number}")
        self.disc = SimDisc(world.sim.rng(f"disc{number}"))
        self.replica: Replica | None = None
        self.machine = Machine()
        self.damaged = ""
        self.suspect = False
        """Something was done to its disc, and it has not started since."""
        self._wal: WriteAheadLog | None = None
        self._life = 0
        self._ticks = 0
        self._busy = False
        self._staged = b""
        self._last_hard = HardState()
        self._waiting: dict[tuple[int, int], asyncio.Future[str]] = {}
        """Requests by client and sequence."""
        self._reads: dict[int, tuple[str, asyncio.Future[str]]] = {}
        """Key and reader of each read, by its context."""
        self._ripe: list[tuple[int, int]] = []
        """Reads that wait until an index is applied: index, context."""
        self._tick()

    @property
    def address(self) -> str:
        """Its name in the simulated network."""
        return f"n{self.number}"

    # -- life and death

    def start(self) -> None:
        """Begin with what the disc has; stay down if it is damaged or cannot be written."""
        self._life += 1
        self._busy = False
        try:
            self._load()
        except DamagedLogError as error:
            self._found_damage(error)
        except CrashedError:
            self.crash("recovery")
        except (LogWriteError, OSError) as error:
            self.crash(str(error))

    def _load(self) -> None:
        self._wal = WriteAheadLog(self.disc, **WAL)
        stored = self._wal.groups.get(GROUP)
        if stored is None:
            mark = Mark(Snapshot(0, 0, self.membership), 0, 0)
            self._wal.write([Record(GROUP, None, mark)], sync=True)
            stored = self._wal.groups[GROUP]
        self.machine = Machine()
        index = stored.mark.snapshot.index
        if index:
            name = f"{index}.snapshot"
            if name not in self.disc.names():
                raise DamagedLogError(name, got="no such file", expected="the snapshot of the log's mark")
            self.machine = Machine.restored(self.disc.read(name), name)
        log = stored.log()
        self._last_hard = stored.hard
        self.world.invariants.started(self.copy, stored.hard, log)
        settings = self.world.settings
        self.replica = Replica(
            self.copy, log, stored.hard, random=self.rng, clock=self.clock, settings=settings
        )
        self.world.invariants.stored(self.copy, log.slice(log.base + 1, log.last, 1 << 60), log)
        self.suspect = False
        self.kick()

    def crash(self, why: str) -> None:
        """End the process, or the machine with it; whoever waits is not answered."""
        power = self.rng.random() < 0.5
        self.world.note("down", self.number, why, "power" if power else "kill")
        self.world.went_down(self)
        self.replica = self._wal = None
        self._life += 1
        self._waiting.clear()
        self._reads.clear()
        self._ripe.clear()
        self.disc.crash_in = None
        if power:
            self.disc.lose_power()

    def _found_damage(self, error: DamagedLogError) -> None:
        self.damaged = error.where
        self.crash(f"damaged: {error}")

    def renew(self, copy: int) -> None:
        """Start with a new disc, as another replica that knows nothing."""
        self.disc.wipe()
        self.copy, self.membership, self.damaged = copy, Membership(), ""
        self.start()

    # -- what comes in

    def _tick(self) -> None:
        self.world.sim.loop.call_later(TICK * self.rng.uniform(0.9, 1.1), self._tick)
        self._ticks += 1
        self._do(lambda replica: replica.tick(self._ticks))

    def receive(self, message: Message) -> None:
        """Take a message."""
        self._do(lambda replica: replica.step(message))

    def clock(self) -> float:
        """Return the time by this node's clock, which is no other's."""
        return self.world.sim.loop.time() + 86_400.0 * self.number

    def _do(self, action: Callable[[Replica], None]) -> None:
        if self.replica is None:
            return
        try:
            action(self.replica)
        except DamagedLogError as error:
            self._found_damage(error)
        except LyingReplicaError as error:
            self.world.invariants.problems.append(f"node {self.number}: {error}")
        else:
            self.kick()

    # -- clients

    def submit(self, command: Command) -> asyncio.Future[str] | None:
        """Propose a command; return a future of what it has done once it is applied here, None: not now."""
        if self.replica is None:
            return None
        try:
            self.replica.propose([encode(command)])
        except NotReadyError:
            return None
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[command.client, command.sequence] = future
        self.kick()
        return future

    def read(self, key: str, context: int) -> asyncio.Future[str] | None:
        """Ask for a value as it is now at the group; return a future of it, None: not now."""
        if self.replica is None:
            return None
        try:
            self.replica.read(context)
        except NotReadyError:
            return None
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reads[context] = key, future
        self.kick()
        return future

    def read_here(self, key: str, max_staleness: float) -> str | None:
        """Return a value that is at most so many seconds old; None: it may be older here."""
        replica = self.replica
        if replica is None or replica.as_of(self.machine.applied) < self.clock() - max_staleness:
            return None
        return self.machine.values.get(key, "")

    # -- turns

    def kick(self) -> None:
        """Begin a turn if none is under way and there is something to do."""
        replica = self.replica
        if replica is None or self._busy:
            return
        ready = replica.ready()
        leads = replica.role is Role.LEADER
        if leads and self.world.invariants.leads(self.copy, replica.term, replica.log):
            self.world.elected(self)
        if ready is not None:
            self._busy = True
            self._send(ready.messages)
            delay = self.world.commit_delay() if ready.must_sync else 0.0
            self.world.sim.loop.call_later(delay, self._turn, self._life, ready)

    def _turn(self, life: int, ready: Ready) -> None:
        if life != self._life or self.replica is None:
            return
        try:
            self._store(ready)
            self._finish(self.replica, ready)
        except CrashedError:
            self.crash("within a write")
        except DamagedLogError as error:
            self._found_damage(error)
        except LogWriteError as error:
            self._write_failed(error, ready, full=error.full)
        except OSError as error:
            self._write_failed(error, ready, full=error.errno == errno.ENOSPC)

    def _write_failed(self, error: Exception, ready: Ready, *, full: bool) -> None:
        if full:
            self.world.sim.loop.call_later(RETRY, self._turn, self._life, ready)
        else:
            self.crash(str(error))

    def _store(self, ready: Ready) -> None:
        assert self._wal is not None  # noqa: S101 - it runs
        staged = self._staged
        for chunk in ready.chunks:
            staged = self._stage(staged, chunk)
        mark = None
        if ready.snapshot is not None:
            self._write_snapshot(ready.snapshot.index, staged)
            mark = Mark(ready.snapshot, ready.snapshot.index, ready.snapshot.term)
        if ready.hard or ready.entries or mark:
            whole = mark is not None
            record = Record(GROUP, ready.hard, mark, ready.entries, whole)
            self._wal.write([record], sync=ready.must_sync)
        self._staged = staged

    def _stage(self, staged: bytes, chunk: Chunk) -> bytes:
        before = staged if chunk.offset else b""
        if len(before) != chunk.offset:
            raise AssertionError(f"a chunk at {chunk.offset}, with {len(before)} B before it")
        return before + chunk.data

    def _finish(self, replica: Replica, ready: Ready) -> None:
        """Do what may be done once the disc has it."""
        invariants = self.world.invariants
        invariants.stored(self.copy, ready.entries, replica.log)
        if ready.snapshot is not None:
            self._install(ready.snapshot)
        self._last_hard = ready.hard or self._last_hard
        invariants.promises(self.copy, self._last_hard, ready, replica.log)
        self._send(ready.promises)
        image: tuple[int, bytes] | None = None
        for entry in ready.committed:
            self.machine.apply(entry)
            self._applied(entry.term)
            # At the same entries at all nodes, so that a member may get parts of two nodes' snapshots of one.
            if entry.index % self.world.snapshot_every == 0:
                image = entry.index, self.machine.snapshot(self.rng)
        self._ripe += [(read.index, read.context) for read in ready.reads]
        replica.advance(ready)
        self._answer()
        for wanted in ready.wanted:
            self._send_chunk(replica, wanted)
        if image is not None:
            self._compact(replica, *image)
        self._busy = False
        self.kick()

    def _install(self, snapshot: Snapshot) -> None:
        try:
            self.machine = Machine.restored(self._staged, f"{snapshot.index}.snapshot")
        except DamagedLogError as error:
            if not self.world.at_risk:
                self.world.invariants.problems.append(f"node {self.number} got no snapshot: {error}")
            raise
        self._applied(snapshot.term)

    def _applied(self, term: int) -> None:
        machine = self.machine
        self.world.invariants.applied(self.copy, machine.applied, term, machine.chain)

    def _answer(self) -> None:
        machine = self.machine
        for (client, sequence), future in list(self._waiting.items()):
            last, outcome = machine.last.get(client, (0, ""))
            if future.cancelled():
                del self._waiting[client, sequence]
            elif last == sequence:
                self._waiting.pop((client, sequence)).set_result(outcome)
        ripe, self._ripe = self._ripe, []
        for index, context in ripe:
            if index > machine.applied:
                self._ripe.append((index, context))
            else:
                read = self._reads.pop(context, None)
                # An answer may come twice.
                if read is not None and not read[1].cancelled():
                    read[1].set_result(machine.values.get(read[0], ""))

    # -- snapshots

    def _write_snapshot(self, index: int, data: bytes) -> None:
        file = self.disc.open(f"{index}.snapshot")
        file.truncate(0)
        file.write(0, data)
        file.sync()
        self.disc.sync()

    def _compact(self, replica: Replica, index: int, data: bytes) -> None:
        """Store a snapshot and forget what is before it; a full disc has no room for it."""
        log = replica.log
        assert self._wal is not None  # noqa: S101 - it runs
        try:
            self._write_snapshot(index, data)
            try:
                snapshot = replica.compact(index, keep=self.world.snapshot_keep)
            except NotReadyError:
                # A newer snapshot came from the leader while this turn was being done.
                return
            mark = Mark(snapshot, log.base, log.term(log.base) or 0)
            self._wal.write([Record(GROUP, None, mark)], sync=True)
        except (OSError, LogWriteError) as error:
            if isinstance(error, LogWriteError) and not error.full:
                raise
            if isinstance(error, OSError) and error.errno != errno.ENOSPC:
                raise
            return
        kept = {f"{snapshot.index}.snapshot" for snapshot in replica.snapshots_in_use()}
        for name in self.disc.names():
            if name.endswith(".snapshot") and name not in kept:
                self.disc.remove(name)

    def _send_chunk(self, replica: Replica, wanted: ChunkWanted) -> None:
        name = f"{wanted.snapshot.index}.snapshot"
        if name in self.disc.names():
            data = self.disc.read(name)
            if not wanted.offset:
                Machine.restored(data, name)
            part = data[wanted.offset : wanted.offset + CHUNK]
            replica.chunk(wanted, part, last=wanted.offset + CHUNK >= len(data))

    def _send(self, messages: list[Message]) -> None:
        for message in messages:
            self.world.carry(self, message)
