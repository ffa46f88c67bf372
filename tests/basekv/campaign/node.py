"""One node: its disc, its replicas and their upkeep, as in a cluster, and the order of its turns.

It does what ``raft.host.server`` does, without processes and links. A node that crashes loses everything
but its disc, and the register, which every node has on disc in a cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gossamer.basekv import RangeInfo, RangeMachine, kind_of, machine_of, number_of
from gossamer.basekv.merging import carry
from gossamer.errors import GossamerError
from gossamer.raft import (
    GroupRow,
    LogWriteError,
    Membership,
    Message,
    NamesMachine,
    NotReadyError,
    Settings,
    Snapshot,
    current,
)
from gossamer.raft.host.disc import GroupDisc
from gossamer.raft.host.group import Group
from gossamer.raft.host.replicas import Replicas
from gossamer.raft.host.upkeep import Upkeep
from gossamer.raft.wal.records import Record, Stored
from gossamer.testing.raft.disc import CrashedError, SimDisc

if TYPE_CHECKING:
    from tests.basekv.campaign.world import RangesWorld

TICK = 0.05
LOOK = 0.5
RETIRED = 6.0
"""More than a request is made again for."""
SETTINGS = Settings(max_inflight=4, idle_heartbeat_ticks=5)


class SmallGroup(Group):
    """A group that takes snapshots often, and keeps little behind them."""

    snapshot_every = 25
    kept = 5


class Register:
    """Groups as one node knows them; the later of two rows counts."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.rows: dict[int, tuple[float, GroupRow]] = {}

    def groups(self) -> Mapping[int, GroupRow]:
        return {group: row for group, (_, row) in self.rows.items()}

    def enter(self, group: int, row: GroupRow) -> None:
        self.rows[group] = self._now(), row

    def merge(self, other: Register) -> None:
        """Take over what another node has later."""
        for group, row in other.rows.items():
            self.rows[group] = max(row, self.rows.get(group, row))

    # -- as gossamer.basekv's Directory

    def ranges(self) -> list[RangeInfo]:
        return [
            RangeInfo(number_of(row.kind) or 0, *row.detail) for _, row in self.rows.values() if row.detail
        ]

    def is_gone(self, number: int) -> bool:
        rows = [row for _, row in self.rows.values() if row.kind == kind_of(number)]
        return bool(rows) and not any(row.voters for row in rows)


class SimThread:
    """Log and snapshots on a simulated disc; what is synced takes time."""

    def __init__(self, disc: SimDisc, delay: Callable[[], float]) -> None:
        self._disc = disc
        self._delay = delay
        self._opened: GroupDisc | None = None

    @property
    def groups(self) -> Mapping[int, Stored]:
        return {} if self._opened is None else self._opened.groups

    async def open(self) -> Mapping[int, Stored]:
        self._opened = GroupDisc(self._disc)
        return self.groups

    async def write(
        self, records: Sequence[Record], snapshots: Iterable[tuple[int, int, bytes]] = (), *, sync: bool
    ) -> None:
        assert self._opened is not None
        if sync:
            await asyncio.sleep(self._delay())
        self._opened.write(records, snapshots, sync=sync)

    async def snapshot(self, group: int, index: int) -> bytes:
        assert self._opened is not None
        return self._opened.snapshot(group, index)

    async def clean(self, in_use: Sequence[tuple[int, Snapshot]]) -> None:
        assert self._opened is not None
        self._opened.clean(in_use)

    async def close(self) -> None:
        """Nothing is open."""


class RangeNode:
    """Node ``name`` of the world."""

    def __init__(self, world: RangesWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.rng = world.sim.rng(f"node {name}")
        self.disc = SimDisc(world.sim.rng(f"disc {name}"))
        self.register = Register(world.sim.loop.time)
        self.replicas: Replicas | None = None
        self.upkeep: Upkeep | None = None
        self.leaders: dict[int, tuple[int, str]] = {}
        """Term and node of the latest leader of each group that was heard of."""
        self._mail: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue(10_000)
        self._scheduled = False
        self._ticks = 0
        self._life = 0
        self._carrying: set[int] = set()
        self._retired: dict[int, float] = {}

    @property
    def groups(self) -> dict[int, Group]:
        return {} if self.replicas is None else self.replicas.groups

    # -- life and death

    async def run(self) -> None:
        """Live, from one start to the next crash."""
        self._life += 1
        life = self._life
        self._mail = asyncio.Queue(10_000)
        self._scheduled = False
        loop = self.world.sim.loop
        thread: Any = SimThread(self.disc, self.world.commit_delay)
        self.replicas = Replicas(
            self.name,
            thread,
            lambda kind: machine_of(kind) or NamesMachine(loop.time),
            rng=self.rng,
            clock=loop.time,
            send=self._send,
            settings=lambda _kind: SETTINGS,
            group=SmallGroup,
        )
        self.upkeep = Upkeep(
            self.name,
            self.replicas,
            register=self.register,
            members=lambda: dict.fromkeys(self.world.members, ""),
            kinds=self.world.kinds,
            wall=loop.time,
            rng=self.rng,
            tell=self.world.tell,
        )
        try:
            await self.replicas.open()
            self._later(TICK, life, self._tick)
            self._later(LOOK, life, self._look)
            self._schedule()
            while True:
                await (await self._mail.get())()
        except CrashedError:
            self.world.note("down", self.name, "within a write")
        except (LogWriteError, OSError) as error:
            # The process ends, and begins again with what the disc has.
            self.world.note("down", self.name, error)
        finally:
            self.replicas = self.upkeep = None

    def _later(self, seconds: float, life: int, work: Callable[[int], Awaitable[None]]) -> None:
        def now() -> None:
            if life == self._life and self.replicas is not None:
                self._mail.put_nowait(lambda: work(life))

        self.world.sim.loop.call_later(seconds * self.rng.uniform(0.9, 1.1), now)

    async def _tick(self, life: int) -> None:
        self._later(TICK, life, self._tick)
        self._ticks += 1
        for group in list(self.groups.values()):
            group.ask_again()
            group.replica.tick(self._ticks)
        await self._turn()

    async def _look(self, life: int) -> None:
        self._later(LOOK, life, self._look)
        upkeep, now = self.upkeep, self.world.sim.loop.time()
        if upkeep is not None:
            upkeep.able = self.world.reached_by(self) - {self.name}
            await upkeep.look(now, 0.0)
            self._keep(now)
        await self._turn()

    # -- mail

    def post(self, work: Callable[[], None]) -> None:
        """Have something done between two turns."""

        async def do() -> None:
            work()
            await self._turn()

        if self.replicas is not None:
            self._mail.put_nowait(do)

    def post_async(self, work: Callable[[], Awaitable[None]]) -> None:
        """Have something done between two turns that waits for the disc."""
        if self.replicas is not None:
            self._mail.put_nowait(work)

    def receive(self, source: str, number: int, message: Message) -> None:
        """Take a message of a replica."""
        group = self.groups.get(number)
        if group is None or message.to > group.replica.id:
            self.world.carry(self.name, source, lambda node: node.gone(self.name, number, message.to))
            return
        group.learned[message.sender] = source
        if self.upkeep is not None:
            self.upkeep.lost.discard((number, message.sender))
        group.replica.step(message)

    def gone(self, node: str, number: int, replica: int) -> None:
        """Hear that a node has not a replica."""
        group = self.groups.get(number)
        if group is not None and self.upkeep is not None and group.node_of(replica) == node:
            self.upkeep.lost.add((number, replica))
            group.gone(replica)

    async def create(self, number: int, replica: int) -> None:
        """Make the replica that a leader has admitted."""
        known = self.groups.get(number)
        if self.replicas is not None and (known is None or known.replica.id < replica):
            await self.replicas.begin(number, replica, Membership())

    def removed(self, number: int, replica: int) -> None:
        """Drop a replica that a leader calls no member any more."""
        if self.upkeep is not None:
            self.upkeep.removed(number, replica)

    # -- turns

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._mail.put_nowait(self._turn)

    async def _turn(self) -> None:
        self._scheduled = False
        replicas, upkeep = self.replicas, self.upkeep
        if replicas is None or upkeep is None:
            return
        more = await replicas.take_turn()
        for number in [one for one in upkeep.leading if one not in self.groups or not self.groups[one].leads]:
            del upkeep.leading[number]
        for group in self.groups.values():
            if group.leads and group.number not in upkeep.leading:
                upkeep.leading[group.number] = self.world.sim.loop.time()
                if group.state.began and group.state.nodes:
                    upkeep.enter(group)
                self.world.led(self.name, group)
        if more:
            self._schedule()

    def _send(self, work: list[tuple[Group, list[Message]]]) -> None:
        for group, messages in work:
            for message in messages:
                if node := group.node_of(message.to):
                    self.world.send(self.name, node, group.number, message)

    # -- ranges

    def _keep(self, now: float) -> None:
        """Do what the keeper of ranges does."""
        for group in list(self.groups.values()):
            machine = group.state.machine
            if not (group.leads and isinstance(machine, RangeMachine) and group.state.nodes):
                continue
            number, merging = machine.range.number, machine.merging
            if machine.sealed is not None and machine.sealed.by is not None:
                if now - self._retired.setdefault(number, now) > RETIRED and self.upkeep is not None:
                    self.upkeep.give_up(group.state.kind)
                continue
            row = self.register.groups().get(group.number)
            detail = (machine.range.start, machine.range.end, machine.range.version)
            if row is not None and tuple(row.detail) != detail:
                self.register.enter(group.number, row._replace(detail=detail))
            if merging is not None and number not in self._carrying:
                self._carrying.add(number)
                self.world.spawn(self._carry(machine.range))

    async def _carry(self, left: RangeInfo) -> None:
        group = self.groups.get(current(self.register, kind_of(left.number)))
        machine = None if group is None else group.state.machine
        try:
            if isinstance(machine, RangeMachine) and machine.merging is not None:
                ask = self.world.asker(self)
                done = await carry(machine.range, machine.merging, ask, gone=self.register.is_gone)
                self.world.note("merged" if done else "merge undone", left.number)
        except GossamerError:
            pass
        finally:
            self._carrying.discard(left.number)

    # -- clients

    def request(self, number: int, data: bytes, answer: Callable[[object], object], *, read: bool) -> None:
        """Have a request or a question answered here, or with the error in its place."""
        group = self.groups.get(number)
        if group is None:
            answer(NotReadyError("request", "no replica here"))
            return
        try:
            (group.read if read else group.request)(data, answer)
        except NotReadyError as error:
            answer(error)
