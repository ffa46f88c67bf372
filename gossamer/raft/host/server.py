"""The process that runs the replicas of a node: their time, their mail, their turns, who asks them.

::

    tick, packet, request ──> replicas ──> turn: send · one write and sync for all groups · send promises ·
                                                 apply · answer

Rules: 1. Only a node with a data directory has replicas; any node may ask.  2. A turn waits for the disc, and
what comes meanwhile waits for the turn: a leader with a disc that stands still is replaced.  3. A full disc
refuses turns, which are tried again; any other error of the disc ends the process, whose next life begins
with what the disc has.  4. A damaged log is put aside; the replicas are replaced by their leaders.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from random import Random

import msgspec
import structlog

from gossamer.distribution import Distribution, NodeDown, NodeUp
from gossamer.raft.errors import DamagedLogError, LyingReplicaError, NotReadyError
from gossamer.raft.host.group import Answer, Group
from gossamer.raft.host.messages import (
    RAFT,
    Ask,
    Create,
    Done,
    GiveUp,
    Gone,
    NotDone,
    Packets,
    Read,
    ReadHere,
    Removed,
    Submit,
    Told,
    Transfer,
    Wanted,
    Where,
    parts,
)
from gossamer.raft.host.reads import Reads
from gossamer.raft.host.replicas import SETTINGS, Replicas
from gossamer.raft.host.replicated import NAMES, Machines
from gossamer.raft.host.status import RaftStatus, ReplicaStatus, status_of
from gossamer.raft.host.thread import DiscThread
from gossamer.raft.host.upkeep import Register, Upkeep, current, kinds_in
from gossamer.raft.messages import Message, decode, encode
from gossamer.raft.replica import Replica
from gossamer.raft.state import Settings
from gossamer.raft.values import Membership
from gossamer.supervisor import (
    Caller,
    GenServer,
    NoReply,
    Reason,
    Reply,
    cast,
    reply,
    self_pid,
    send,
    send_after,
    trap_exit,
)

log = structlog.get_logger(__name__)

TICK = 0.1
UPKEEP = 1.0
RETRY = 1.0
"""Seconds after which a full disc is tried again."""
_TICK, _TURN, _UPKEEP, _GATHERED = "tick", "turn", "upkeep", "gathered"


class RaftServer(GenServer):
    """Runs the replicas of a node; start it under the name :data:`RAFT`, once the register is there."""

    async def init(
        self,
        distribution: Distribution,
        *,
        disc: DiscThread | None,
        register: Register,
        members: Callable[[], dict[str, str]],
        kinds: Callable[[], Mapping[str, int]],
        machines: Machines,
        wall: Callable[[], float],
        rng: Random,
        status: RaftStatus,
        settings: Callable[[str], Settings] = lambda kind: SETTINGS,
    ) -> None:
        """``disc`` is None where the node keeps nothing; ``status`` is kept up to date; ``settings``
        are those of the groups of a kind; the rest is for :class:`Upkeep`."""
        self._distribution = distribution
        self._node = node = distribution.runtime.node
        self._register = register
        self._status = status
        status.leader_of = lambda kind: self._leader_of(current(register, kind))
        self._leaders: dict[int, tuple[int, str]] = {}
        """Term and node of the latest leader of which this node was told, by group."""
        self._reads = Reads()
        self._scheduled = self._gathers = False
        self._ticks = 0
        self._quiet_since = self.process.loop.time()
        self._replicas: Replicas | None = None
        self._upkeep: Upkeep | None = None
        trap_exit(True)
        if disc is not None:
            clock = self.process.loop.time
            replicas = self._replicas = Replicas(
                node, disc, machines, rng=rng, clock=clock, send=self._send, settings=settings
            )
            self._upkeep = Upkeep(
                node, replicas, register=register, members=members, kinds=kinds, wall=wall, rng=rng
            )
            await replicas.open()
            send_after(TICK, self_pid(), _TICK)
            send_after(UPKEEP, self_pid(), _UPKEEP)
        distribution.subscribe(self.process.pid)
        for other in distribution.nodes():
            self._tell(other, answer=True)

    async def terminate(self, reason: Reason) -> None:
        if self._replicas is not None:
            await self._replicas.close()

    @property
    def _groups(self) -> Mapping[int, Group]:
        return {} if self._replicas is None else self._replicas.groups

    # -- what comes in

    async def handle_call(self, request: object, caller: Caller) -> Reply | NoReply:
        match request:
            case Submit(number, data):
                return self._ask(number, lambda group, answer: group.request(data, answer), caller)
            case Read(number, question, more):
                return self._ask(number, lambda group, answer: group.read(question, answer, more), caller)
            case Ask(kind, question):
                number, leader = self._where(kind)
                if leader != self._node:
                    return self._reads.ask(number, leader, question, caller)
                return self._ask(number, lambda group, answer: group.read(question, answer), caller)
            case ReadHere(kind, question, max_staleness):
                here = self._groups.get(current(self._register, kind))
                since = self.process.loop.time() - max_staleness
                return Reply(None if here is None else here.read_here(question, since))
            case Transfer(number, node):
                return Reply(self._transfer(number, node))
            case GiveUp(kind):
                return Reply(self._upkeep is not None and self._upkeep.give_up(kind))
            case "recover":
                return Reply(await self._recover())
            case "kinds":
                return Reply(sorted(kinds_in(self._register)))
            case Wanted():
                for node in (self._node, *self._distribution.nodes()):
                    cast((RAFT, node), request)
                return Reply(None)
            case Where(kind):
                return Reply(self._where(kind))
            case "status":
                return Reply([status_of(group) for group in self._groups.values()])
        return Reply(NotDone(f"raft got {type(request).__name__}, which it does not know"))

    async def handle_cast(self, request: object) -> None:
        match request:
            case Packets(node, messages):
                for number, data in messages:
                    self._receive(number, node, data)
            case Create(number, replica):
                await self._create(number, replica)
            case Gone(number, replica, node):
                group = self._groups.get(number)
                if group is not None and self._upkeep is not None and group.node_of(replica) == node:
                    self._upkeep.lost.add((number, replica))
                    group.gone(replica)
            case Told():
                self._told(request)
            case Wanted(kind) if self._upkeep is not None:
                self._upkeep.want(kind, self.process.loop.time())
            case Removed(number, replica) if self._upkeep is not None:
                self._upkeep.removed(number, replica)

    async def handle_info(self, message: object) -> None:
        match message:
            case "tick":
                send_after(TICK, self_pid(), _TICK)
                self._ticks += 1
                for group in list(self._groups.values()):
                    group.ask_again()
                    self._do(group, lambda replica: replica.tick(self._ticks))
            case "turn":
                self._scheduled = False
                await self._take_turn()
            case "gathered":
                self._gathers = False
                self._schedule()
            case "upkeep":
                send_after(UPKEEP, self_pid(), _UPKEEP)
                if self._upkeep is not None:
                    await self._upkeep.look(self.process.loop.time(), self._quiet_since)
                    self._note()
                    self._schedule()
            case NodeUp(node, _):
                self._quiet_since = self.process.loop.time()
                self._tell(node)
            case NodeDown(node, _, _):
                self._quiet_since = self.process.loop.time()
                if self._upkeep is not None:
                    self._upkeep.able.discard(node)

    def _ask(self, number: int, ask: Callable[[Group, Answer], None], caller: Caller) -> Reply | NoReply:
        group = self._groups.get(number)
        if group is None:
            return Reply(NotDone("this node has no replica of the group", self._leader_of(number)))

        def answer(value: object) -> None:
            reply(caller, NotDone(str(value)) if isinstance(value, Exception) else Done(value))

        try:
            ask(group, answer)
        except NotReadyError as error:
            return Reply(NotDone(error.why, self._leader_of(number)))
        self._schedule()
        return NoReply()

    def _receive(self, number: int, node: str, data: bytes) -> None:
        try:
            message = decode(data)
        except msgspec.MsgspecError as error:
            log.error("raft_message_unreadable", node=node, error=str(error)[:200])
            return
        group = self._groups.get(number)
        if group is None or message.to > group.replica.id:
            cast((RAFT, node), Gone(number, message.to, self._node))
            return
        group.learned[message.sender] = node
        if self._upkeep is not None:
            self._upkeep.lost.discard((number, message.sender))
        self._do(group, lambda replica: replica.step(message))

    def _do(self, group: Group, action: Callable[[Replica], None]) -> None:
        try:
            action(group.replica)
        except DamagedLogError as error:
            if self._replicas is not None:
                self._replicas.drop(group, f"its disc lost what it had acknowledged: {error}")
        except LyingReplicaError as error:
            log.error("raft_message_refused", group=f"{group.number:x}", error=str(error))
        else:
            self._schedule()

    async def _create(self, number: int, replica: int) -> None:
        known = self._groups.get(number)
        if self._replicas is not None and (known is None or known.replica.id < replica):
            await self._replicas.begin(number, replica, Membership())

    # -- turns

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            send(self_pid(), _TURN)

    async def _take_turn(self) -> None:
        if self._replicas is None or self._upkeep is None:
            return
        more = await self._replicas.take_turn()
        if self._replicas.gathers and not self._gathers:
            self._gathers = True
            send_after(self._replicas.gathers, self_pid(), _GATHERED)
        leading, groups = self._upkeep.leading, self._replicas.groups
        over = [number for number in leading if number not in groups or not groups[number].leads]
        for number in over:
            del leading[number]
        for group in groups.values():
            if group.leads and group.number not in leading:
                leading[group.number] = self.process.loop.time()
                if group.state.began and group.state.nodes:
                    self._upkeep.enter(group)
                log.info("raft_leads", group=f"{group.number:x}", term=group.replica.term)
                for node in self._distribution.nodes():
                    self._tell(node)
        if over or len(leading) != len(self._status.leading):
            self._status.leading = frozenset(groups[number].state.kind for number in leading)
        if self._replicas.full:
            self._scheduled = True
            send_after(RETRY, self_pid(), _TURN)
        elif more:
            self._schedule()

    def _send(self, work: list[tuple[Group, list[Message]]]) -> None:
        packets: defaultdict[str, list[tuple[int, bytes]]] = defaultdict(list)
        for group, messages in work:
            for message in messages:
                if node := group.node_of(message.to):
                    packets[node].append((group.number, encode(message)))
        for node, to_node in packets.items():
            for part in parts(to_node):
                cast((RAFT, node), Packets(self._node, part))

    def _note(self) -> None:
        # One that has no entries yet does not know its kind.
        groups = {group.state.kind: group for group in self._groups.values() if group.state.nodes}
        known = self._status.replicas
        self._status.replicas = {kind: self._noted(group, known.get(kind)) for kind, group in groups.items()}
        self._status.disc_full = self._replicas is not None and self._replicas.full

    def _noted(self, group: Group, known: ReplicaStatus | None) -> ReplicaStatus:
        replica, since = group.replica, known and known.leaderless_since
        return ReplicaStatus(
            term=replica.term,
            committed=replica.log.committed,
            applied=replica.log.applied,
            last=replica.log.last,
            elections=replica.elections,
            snapshot_bytes=group.snapshot_bytes,
            behind=group.behind(),
            leads=group.leads,
            machine=group.state.machine,
            leaderless_since=None if replica.leader else since or self.process.loop.time(),
        )

    # -- other nodes

    def _tell(self, node: str, *, answer: bool = False) -> None:
        leads: dict[int, int] = {}
        if self._upkeep is not None:
            leads = {n: self._groups[n].replica.term for n in self._upkeep.leading if n in self._groups}
        cast((RAFT, node), Told(self._node, self._replicas is not None, leads, answer))

    def _told(self, told: Told) -> None:
        if told.answer:
            self._tell(told.node)
        if self._upkeep is not None:
            (self._upkeep.able.add if told.able else self._upkeep.able.discard)(told.node)
        for number, term in told.leads.items():
            if term >= self._leaders.get(number, (0, ""))[0]:
                self._leaders[number] = term, told.node

    def _where(self, kind: str) -> tuple[int, str]:
        number = current(self._register, kind)
        return number, self._leader_of(number)

    def _leader_of(self, number: int) -> str:
        """Return the node that leads a group; blank: not known."""
        group = self._groups.get(number)
        if group is not None and group.leader:
            return group.leader
        return self._leaders.get(number, (0, ""))[1]

    async def _recover(self) -> Done | NotDone:
        """Recover all groups whose last known leader is not up; a node without a replica may not know that
        it leads no more, one with a replica does."""
        if self._upkeep is None:
            return NotDone("this node has no data directory")
        up, problems, done = (self._node, *self._distribution.nodes()), [], False
        # One that is nothing but given up was merged into another range.
        rows = self._register.groups().values()
        for kind in sorted({row.kind for row in rows if row.voters > 0} | {NAMES}):
            lost = current(self._register, kind)
            leader = self._leader_of(lost)
            if leader in up:
                problems.append(f"{leader} is up and led {kind} last; there is nothing to recover here")
            elif lost not in self._groups or not self._groups[lost].state.nodes:
                problems.append(f"this node has no copy of {kind}; try one that has")
            elif problem := await self._upkeep.recover(kind):
                return NotDone(problem)
            else:
                done = True
        self._schedule()
        return Done(None) if done else NotDone("; ".join(problems))

    def _transfer(self, number: int, node: str) -> Done | NotDone:
        group = self._groups.get(number)
        if group is not None:
            for voter in group.replica.membership.voters:
                if group.node_of(voter) == node and group.leads:
                    group.replica.transfer(voter)
                    self._schedule()
                    return Done(None)
        return NotDone("this node does not lead, or the other is no voter", self._leader_of(number))
