"""The process that carries out what a node asks of queues, and sees that its consumers have what is theirs.

::

    port.Queues ── operations ──> batches ──> Raft group ──> results ──> callbacks
                <── deliveries ── replica of this node, or the leader's (Forward)
 Rules: 1. Deliveries are messages between processes and may be lost, with a link or a leader: every
:data:`SYNC` seconds a node that has consumers asks what they have, gives them what they lack, joins again
what was taken out, and takes out what it does not know.  2. Consumers of a node that is down are taken out by
every node that saw it go, and, where that failed, by the leader at its next look.  3. A queue that the
configuration declares is made or changed once, when the node starts; while it is in another group than that
says, this is tried again every :data:`~.declaring.ELSEWHERE` seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import structlog
from msgspec import Struct

from gossamer.config import DEFAULT_GROUP, RaftConfig, RaftGroupConfig
from gossamer.distribution import Distribution, NodeDown, register_message
from gossamer.errors import GossamerError, UsageError
from gossamer.queues.declaring import declare
from gossamer.queues.errands import (
    Answered,
    Listed,
    Resolved,
    Synced,
    ask_held,
    list_all,
    resolve,
    send_batch,
)
from gossamer.queues.errors import NotDoneError, NotHeldError
from gossamer.queues.moving.carry import carry
from gossamer.queues.port import KIND, LocalConsumer, Queues, ignore, kind_of
from gossamer.queues.replicated.state import Move
from gossamer.queues.values import (
    QUEUES,
    Assigned,
    Job,
    Leave,
    NodeGone,
    Operation,
    Outcome,
    batch,
    decode_assigned,
    decode_results,
    encode,
)
from gossamer.raft import PATIENCE, RaftStatus
from gossamer.supervisor import (
    Caller,
    Down,
    GenServer,
    NoReply,
    Pid,
    Ref,
    Reply,
    call,
    cast,
    monitor,
    reply,
    self_pid,
    send,
    send_after,
    spawn_link,
)

log = structlog.get_logger(__name__)

SYNC = 2.0
_SYNC, _WORK = "sync", "work"


class Ask(Struct, frozen=True):
    """Call: do an operation; the answer is its result, or an error. ``group``: unless its queue is known."""

    operation: Operation
    group: str = ""


class Consume(Struct, frozen=True):
    """Call: send a process of this node :class:`~.values.Job` messages; the answer is the consumer's name, or
    an error."""

    pid: Pid
    queue: str
    group: str
    limit: int
    start: str
    single: bool = False


class Conclude(Struct, frozen=True):
    """Call: say what became of a job, as :meth:`Queues.settle` has it; the answer is 0, or an error."""

    consumer: str
    offset: int
    outcome: Outcome
    more: dict[str, Any] = {}


class _SendJob(Struct, frozen=True):
    """Gives messages to a process."""

    pid: Pid

    def __call__(self, one: Assigned) -> None:
        message = one.message
        told = (one.queue, one.group, one.consumer, message.offset, one.attempt)
        send(self.pid, Job(*told, message.key, message.payload, message.note))


class Told(Struct, frozen=True):
    """To itself, from a replica of this node: what an entry of a group gave."""

    group: str
    index: int
    given: list[Assigned]


class Forward(Struct, frozen=True):
    """From a leader: messages for consumers of a node without a replica, as ``encode`` has them."""

    given: bytes


class _Due(Struct, frozen=True):
    """To itself: some requests to a group may have waited for too long."""

    group: str


class _Carried(Struct, frozen=True):
    """To itself: a move is done, or goes on elsewhere."""

    move: str


register_message(Forward, "queues.Forward")


class QueueServer(GenServer):
    """Start it under the name :data:`QUEUES`, on every node."""

    async def init(
        self, queues: Queues, distribution: Distribution, status: RaftStatus, raft: RaftConfig
    ) -> None:
        self._queues = queues
        self._distribution = distribution
        self._status = status
        self._raft = raft
        self._due: set[str] = set()
        """Groups whose requests are looked at when the oldest has waited for long."""
        self._working = self._listing = False
        self._watched: dict[Ref, LocalConsumer] = {}
        """Consumers that are processes, by what watches these."""
        self._resolving: set[str] = set()
        self._syncing: set[str] = set()
        self._carrying: set[str] = set()
        """Moves of queues to other groups."""
        for group, outbox in queues.outboxes.items():
            # Of a server before this one.
            _fail(outbox.take_sent(self.process.loop.time()), f"the server of group {group} was restarted")
        queues.wake = self._wake
        queues.has_replica = self._delivers_here
        queues.refused_for = self._refused_for
        distribution.subscribe(self.process.pid)
        for name in queues.declared:
            told = partial(queues.resolve, error=None)
            spawn_link(declare, name, queues.declared.get, ask, told, label=f"declare queue {name}")
        # Consumers that are processes were watched by that server, and go on; who had no answer asks again.
        for consumer in list(queues.consumers.values()):
            if isinstance(consumer.give, _SendJob) and consumer.joined:
                self._watched[monitor(consumer.give.pid)] = consumer
            elif isinstance(consumer.give, _SendJob):
                queues.leave(consumer)
        # Consumers of this node's life before are gone.
        for group in sorted({DEFAULT_GROUP, *queues.groups.values()}):
            queues.ask(NodeGone(queues.node, list(queues.consumers)), ignore, group=group)
        send_after(SYNC, self_pid(), _SYNC)
        self._wake()

    def _settings(self, group: str) -> RaftGroupConfig:
        return self._raft.groups.get(group, self._raft)

    def _delivers_here(self, group: str) -> bool:
        forward = self._settings(group).distribution_mode == "forward"
        return not forward and kind_of(group) in self._status.replicas

    def _refused_for(self, group: str) -> str | None:
        if self._settings(group).write_policy == "forward" or kind_of(group) in self._status.leading:
            return None
        return self._status.leader_of(kind_of(group))

    def _wake(self) -> None:
        if not self._working:
            self._working = True
            send(self.process.pid, _WORK)

    async def handle_call(self, asked: object, caller: Caller) -> Reply | NoReply:
        match asked:
            case "provisions":
                return Reply(self._raft.auto_provision_groups)
            case Ask(operation, group):
                self._queues.do(operation, partial(reply, caller), group=group)
                return NoReply()
            case Consume():
                self._consume(asked, caller)
                return NoReply()
            case Conclude(name, offset, outcome, more):
                consumer = self._queues.consumers.get(name)
                if consumer is None:
                    return Reply(NotHeldError("of a consumer that is none any more"))
                self._queues.settle(consumer, [offset], outcome, partial(reply, caller), **more)
                return NoReply()
        return Reply(UsageError(f"queues got {type(asked).__name__}; use the functions of gossamer.queues"))

    async def handle_cast(self, told: object) -> None:
        if isinstance(told, Forward):
            self._queues.deliver(decode_assigned(told.given))

    async def handle_info(self, message: object) -> None:
        match message:
            case "work":
                self._working = False
                self._work()
            case "sync":
                send_after(SYNC, self_pid(), _SYNC)
                self._sync()
            case Told(group, index, given):
                self._told(group, index, given)
            case Answered():
                self._answered(message)
            case _Due(group):
                self._due.discard(group)
                self._expire(group)
            case Resolved(queue, group, error):
                self._resolving.discard(queue)
                self._queues.resolve(queue, group, error)
            case Listed(groups):
                self._listing = False
                for group, found in groups.items():
                    self._queues.learn(group, found)
            case Synced():
                self._syncing.discard(message.group)
                self._synced(message)
            case _Carried(move):
                self._carrying.discard(move)
            case Down(ref, _, _):
                if (gone := self._watched.pop(ref, None)) is not None:
                    self._queues.leave(gone)
            case NodeDown(node, _, _):
                self._take_out(node, self._known_groups())

    def _consume(self, asked: Consume, caller: Caller) -> None:
        more: dict[str, Any] = {"limit": asked.limit, "start": asked.start, "single": asked.single}
        give = _SendJob(asked.pid)
        consumer = LocalConsumer(asked.queue, asked.group, client=str(asked.pid), give=give, **more)
        # Before it asks: a process that ends meanwhile leaves behind its own request.
        self._watched[ref := monitor(asked.pid)] = consumer

        def joined(result: int | GossamerError) -> None:
            if isinstance(result, GossamerError) and self._watched.pop(ref, None) is not None:
                self.process.demonitor(ref)
            reply(caller, result if isinstance(result, GossamerError) else consumer.name)

        self._queues.join(consumer, joined)

    # -- requests

    def _work(self) -> None:
        now, later = self.process.loop.time(), 0.0
        for group, outbox in self._queues.outboxes.items():
            later = max(later, outbox.gathers(now))
            if operations := outbox.next_batch(now):
                data = batch(self._queues.writer, outbox.number, operations)
                label = f"request to {kind_of(group)}"
                spawn_link(
                    send_batch, self_pid(), group, data, self._settings(group).ack_timeout, label=label
                )
                if group not in self._due:
                    self._expire(group)
        if later:
            send_after(later, self_pid(), _WORK)
        for queue in self._queues.unresolved.keys() - self._resolving:
            self._resolving.add(queue)
            spawn_link(resolve, self_pid(), queue, self._queues, label=f"find queue {queue}")

    def _answered(self, got: Answered) -> None:
        sent = self._queues.outboxes[got.group].take_sent(self.process.loop.time())
        results = None if got.answer is None else decode_results(got.answer)
        if results is None or results.late:
            _fail(sent, got.why or "another answer was expected")
        else:
            for (_, answered), result in zip(sent, results.results, strict=True):
                answered(result)
            self._queues.follow(got.group)
        self._work()

    def _expire(self, group: str) -> None:
        """Answer what has not been acknowledged in time, and look again when the next will be due."""
        now, timeout = self.process.loop.time(), self._settings(group).ack_timeout
        why = f"no quorum has said within ack_timeout, {timeout:g} s, that it has it"
        oldest = self._queues.outboxes[group].expire(now - timeout, lambda: NotDoneError(why, unknown=True))
        if oldest is not None:
            self._due.add(group)
            send_after(max(oldest + timeout - now, 0.001), self_pid(), _Due(group))

    def _known_groups(self) -> Iterable[str]:
        return {*self._queues.groups.values(), *self._queues.outboxes}

    def _take_out(self, node: str, groups: Iterable[str]) -> None:
        for group in groups:
            self._queues.ask(NodeGone(node), ignore, group=group)

    # -- deliveries

    def _told(self, group: str, index: int, given: list[Assigned]) -> None:
        leads = kind_of(group) in self._status.leading
        self._queues.told(group, index, [one for one in given if one.replica or leads])
        if not leads:
            return
        away: dict[str, list[Assigned]] = {}
        for one in given:
            if not one.replica and one.node != self._queues.node:
                away.setdefault(one.node, []).append(one)
        for node, theirs in away.items():
            cast((QUEUES, node), Forward(encode(theirs)))

    def _sync(self) -> None:
        if not self._listing:
            self._listing = True
            spawn_link(list_all, self_pid(), label="list queues")
        leading = {kind.removeprefix(KIND) for kind in self._status.leading if kind.startswith(KIND)}
        for group in {*self._queues.local_groups(), *leading} - {"", *self._syncing}:
            self._syncing.add(group)
            for consumer in self._queues.local_groups().get(group, []):
                consumer.settled.clear()
            spawn_link(ask_held, self_pid(), group, self._queues, label=f"look at {kind_of(group)}")

    def _synced(self, got: Synced) -> None:
        queues = self._queues
        if got.seen is None:
            return
        answer = got.seen.answer
        there = {name for _, _, name in answer.consumers}
        for queue, has in got.seen.moved.items():
            queues.resolve(queue, has, None)
        for queue, group, name in answer.consumers:
            if name not in queues.consumers:
                queues.ask(Leave(queue, group, name), ignore, group=got.group)
        for consumer in queues.local_groups().get(got.group, []):
            stale = consumer.replica != queues.has_replica(got.group)
            if not consumer.joined:
                continue
            if consumer.name not in there:
                # Nor has it anything there: the queue may be another one of the same name.
                consumer.held.clear()
                consumer.settled.clear()
            if stale or consumer.name not in there:
                queues.ask(queues.join_request(consumer), ignore, group=got.group)
        for name, group, attempt, message in got.seen.missing:
            mine = queues.consumers.get(name)
            if mine is not None:
                one = Assigned(mine.queue, group, name, queues.node, False, attempt, message)
                queues.deliver([one])
        queues.caught_up(got.group, answer.index)
        if kind_of(got.group) in self._status.leading:
            for move in [Move(*one) for one in answer.moves if one[0] not in self._carrying]:
                self._carrying.add(move.id)
                spawn_link(_carry, self_pid(), got.group, move, label=f"move queue {move.queue}")
            up = {queues.node, *self._distribution.nodes()}
            for node in answer.nodes:
                if node not in up:
                    self._take_out(node, [got.group])


def _fail(sent: list[tuple[Operation, Callable[[object], object]]], why: str) -> None:
    for _, answered in sent:
        answered(NotDoneError(why, unknown=True))


async def ask(operation: Operation, group: str) -> int:
    """Have a replication group do an operation; return its result. Raises GossamerError."""
    answer: int | GossamerError = await call(QUEUES, Ask(operation, group), 2 * PATIENCE)
    if isinstance(answer, GossamerError):
        raise answer
    return answer


async def _carry(server: Pid, group: str, move: Move) -> None:
    await carry(group, move, ask)
    send(server, _Carried(move.id))
