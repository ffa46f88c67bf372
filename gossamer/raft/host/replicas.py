"""The replicas of a node, with its disc: they are made, do their turns together, and are dropped.

A turn takes all groups that have something to do: their messages go, one write and one sync store it all,
their promises go, what is committed is applied. One call at a time.

Rule: a group that begins in the log of another is on disc in one frame with the mark of that one's snapshot
behind the beginning. So its replica is made once: no entry is applied again that would make it anew, without
what it has promised, and nothing is promised by it before.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Container
from functools import partial
from random import Random

import structlog

from gossamer.raft.errors import DamagedLogError, LogWriteError
from gossamer.raft.host.group import Group
from gossamer.raft.host.replicated import NAMES, Machines, Offspring, Replicated, sound
from gossamer.raft.host.thread import DiscThread
from gossamer.raft.log import Log
from gossamer.raft.messages import Message
from gossamer.raft.replica import Replica
from gossamer.raft.state import Ready, Settings
from gossamer.raft.values import ChunkWanted, HardState, Membership, Snapshot
from gossamer.raft.wal.records import Mark, Record, Stored

log = structlog.get_logger(__name__)

_FULL = (errno.ENOSPC, errno.EDQUOT)
SETTINGS = Settings(max_inflight=8, idle_heartbeat_ticks=5)
"""What all groups of a node have on their way to one that catches up must fit what its link retains."""


class Replicas:
    """Replicas of ``node`` by group. ``send`` is called with what groups want sent, all of a turn at once."""

    def __init__(
        self,
        node: str,
        disc: DiscThread,
        machines: Machines,
        *,
        rng: Random,
        clock: Callable[[], float],
        send: Callable[[list[tuple[Group, list[Message]]]], None],
        settings: Callable[[str], Settings] = lambda kind: SETTINGS,
        group: type[Group] = Group,
    ) -> None:
        self._group = group
        self._node = node
        self._disc = disc
        self._machines = machines
        self._clock = clock
        self._made = partial(Replica, settings=SETTINGS, random=rng, clock=clock)
        self._send = send
        self._settings = settings
        self.groups: dict[int, Group] = {}
        self._turn: _Turn | None = None
        """The turn that a full disc refused."""
        self.gathers = 0.0
        """For how many seconds requests wait for others, as of the last turn; 0: none does."""

    @property
    def full(self) -> bool:
        """True while the disc has no room for what is to be written."""
        return self._turn is not None

    async def open(self) -> None:
        """Begin with what the disc has, without the groups whose snapshots are damaged. Raises OSError,
        LogWriteError."""
        try:
            found = await self._disc.open()
        except DamagedLogError as error:
            await self._disc.put_aside(error)
            return
        for number, stored in found.items():
            try:
                self.groups[number] = await self._loaded(number, stored)
            except DamagedLogError as error:
                log.error("raft_snapshot_damaged", group=f"{number:x}", error=str(error))

    async def close(self) -> None:
        """Write what waits, and close the disc."""
        await self._disc.close()

    async def _loaded(self, number: int, stored: Stored) -> Group:
        state = Replicated(self._machines)
        index, data = stored.mark.snapshot.index, b""
        if index:
            data = await self._disc.snapshot(number, index)
            state.restore(data, f"snapshot {index} of group {number:x}")
        replica = self._made(stored.replica, stored.log(), stored.hard)
        group = self._group(number, self._node, replica, state)
        group.snapshot_bytes = len(data)
        replica.configure(self._settings(state.kind))
        return group

    async def begin(
        self,
        number: int,
        replica: int,
        membership: Membership,
        *,
        kind: str = NAMES,
        index: int = 0,
        state: bytes = b"",
    ) -> Group | None:
        """Make a replica that has nothing, or what another group's ``state`` machine had, whose entries begin
        behind ``index``; on disc first, None where that is full. Of a group that is not founded here the
        ``kind`` comes with its entries."""
        term = min(index, 1)
        mark = Mark(Snapshot(index, term, membership), index, term)
        replicated = Replicated(self._machines, kind)
        if state:
            replicated.machine.restore(state)
        snapshots = [(number, index, replicated.snapshot())] if index else []
        record = Record(number, HardState(term, 0, index), mark, (), whole=True, replica=replica)
        try:
            await self._disc.write([record], snapshots, sync=True)
        except (LogWriteError, OSError) as error:
            if not _is_full(error):
                raise
            return None
        if (old := self.groups.pop(number, None)) is not None:
            old.give_up()
        log.info("raft_replica", group=f"{number:x}", replica=replica)
        made = self._made(replica, Log(mark.snapshot), HardState(term, 0, index))
        made.configure(self._settings(kind))
        group = self.groups[number] = self._group(number, self._node, made, replicated)
        return group

    def drop(self, group: Group, why: str, *, wanted: bool = True) -> None:
        """Have no replica of a group any more; :meth:`forget` removes it from the disc."""
        tell = log.error if wanted else log.info
        tell("raft_replica_dropped", group=f"{group.number:x}", replica=group.replica.id, why=why)
        del self.groups[group.number]
        group.give_up()

    async def forget(self) -> None:
        """Remove from the disc what was dropped."""
        gone = [number for number in self._disc.groups if number not in self.groups]
        if gone and not self.full:
            await self._disc.write([Record(number, removed=True) for number in gone], sync=True)

    async def take_turn(self) -> bool:
        """Do what is to be done; return whether there was something. Nothing is done while the disc is full,
        but to try the same again."""
        turn, now = self._turn, self._clock()
        for group in self.groups.values():
            group.answer_durable()
        self.gathers = max((group.release(now) for group in self.groups.values()), default=0.0)
        if turn is None:
            work = [(g, r) for g in self.groups.values() if (r := g.replica.ready()) is not None]
            turn = _Turn(work, self.groups)
            self._send([(group, ready.messages) for group, ready in turn.work])
        try:
            await self._disc.write(turn.records, turn.snapshots, sync=turn.must_sync)
        except (LogWriteError, OSError) as error:
            if not _is_full(error):
                raise
            if self._turn is None:
                log.error("raft_disc_full", node=self._node, error=str(error))
            self._turn = turn
            return False
        self._turn = None
        for group, births in turn.births:
            await self._begun(group, births)
        work = [(group, ready) for group, ready in turn.work if self.groups.get(group.number) is group]
        self._send([(group, self._done(group, ready)) for group, ready in work])
        for group, ready in work:
            if self.groups.get(group.number) is group:
                await self._finish(group, ready)
        return bool(turn.work)

    def _done(self, group: Group, ready: Ready) -> list[Message]:
        """Do what may be done once the disc has a turn; return what may be sent."""
        kind = group.state.kind
        try:
            return group.done(ready)
        except DamagedLogError as error:
            self.drop(group, str(error))
            return []
        finally:
            if kind != group.state.kind:
                group.replica.configure(self._settings(group.state.kind))

    async def _finish(self, group: Group, ready: Ready) -> None:
        """Read the parts of snapshots that are wanted, and store one that is due, or in place of one that is
        not as it was stored: no member could use it."""
        try:
            for wanted in ready.wanted:
                group.chunk(wanted, await self._snapshot(group.number, wanted))
        except DamagedLogError as error:
            log.error("raft_snapshot_damaged", group=f"{group.number:x}", error=str(error))
            if await self._compact(group):
                group.replica.send_anew()
        else:
            if group.snapshot_due:
                await self._compact(group)

    async def _snapshot(self, group: int, wanted: ChunkWanted) -> bytes:
        data = await self._disc.snapshot(group, wanted.snapshot.index)
        if not wanted.offset:
            sound(data, f"snapshot {wanted.snapshot.index} of group {group:x}")
        return data

    async def _compact(self, group: Group) -> bool:
        """Store a snapshot, and forget what is before it; False: a full disc has no room for it."""
        index, disc, snapshot = group.replica.log.applied, self._disc, group.state.snapshot()
        births = [one for one in group.unborn if one.group not in self.groups]
        snapshots = [(one.group, one.index, one.snapshot) for one in births]
        try:
            await disc.write((), [(group.number, index, snapshot), *snapshots], sync=True)
            compacted = group.compact(index, len(snapshot))
            await disc.write([compacted, *_first_records(group, births)], sync=True)
            await self._begun(group, births)
            in_use = [(g.number, s) for g in self.groups.values() for s in g.replica.snapshots_in_use()]
            await disc.clean(in_use)
        except (LogWriteError, OSError) as error:
            if not _is_full(error):
                raise
            return False
        return True

    async def _begun(self, group: Group, births: list[Offspring]) -> None:
        """Make the replicas of groups that have begun with a group, as the disc has them."""
        group.unborn = []
        for one in births:
            made = await self._loaded(one.group, self._disc.groups[one.group])
            self.groups[one.group] = made
            log.info("raft_group_begun", group=f"{one.group:x}", kind=made.state.kind, of=f"{group.number:x}")
            if group.leads:
                made.replica.campaign()


class _Turn:
    """Work of one turn of all groups, which is done again where the disc is full."""

    def __init__(self, work: list[tuple[Group, Ready]], known: Container[int]) -> None:
        self.work = work
        self.births: list[tuple[Group, list[Offspring]]] = []
        """Groups that begin with snapshots which are installed."""
        self.snapshots: list[tuple[int, int, bytes]] = []
        self.records = [record for g, r in work if (record := g.record(r)) is not None]
        for group, ready in work:
            data, position = group.stage(ready), ready.snapshot
            if data is not None and position is not None:
                self.snapshots.append((group.number, position.index, data))
                births = [one for one in group.born_with(data, position.index) if one.group not in known]
                self.births.append((group, births))
                self.snapshots += [(one.group, one.index, one.snapshot) for one in births]
                self.records += _first_records(group, births)
        self.must_sync = any(ready.must_sync for _, ready in work)


def _is_full(error: LogWriteError | OSError) -> bool:
    return error.full if isinstance(error, LogWriteError) else error.errno in _FULL


def _first_records(group: Group, births: list[Offspring]) -> list[Record]:
    """Return what the log has first of groups that begin with a group, under this replica's number."""
    # No term is over: it has promised nothing, and may vote at once.
    hard = [HardState(0, 0, one.index) for one in births]
    marks = [Mark(Snapshot(one.index, 0, one.membership), one.index, 0) for one in births]
    return [
        Record(one.group, first, mark, (), whole=True, replica=group.replica.id)
        for one, first, mark in zip(births, hard, marks, strict=True)
    ]
