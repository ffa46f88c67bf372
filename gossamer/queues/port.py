"""What the parts of a node use queues by: requests with callbacks, and this node's consumers.

It belongs to the node and outlives its server (``server``), which carries the requests out. Everything is
called in the node's loop and returns at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random

from gossamer.config import QueueDeclaration
from gossamer.errors import GossamerError
from gossamer.queues.errors import (
    NotDoneError,
    NotHeldError,
    NotLeaderError,
    StaleCheckpointError,
    error_of,
)
from gossamer.queues.moving.values import MoveIn, MoveOver
from gossamer.queues.replicated.fates import QueueRecorderLike, outcome_of
from gossamer.queues.stats import Trouble
from gossamer.queues.values import (
    Append,
    Assigned,
    Define,
    Join,
    Leave,
    Operation,
    Outcome,
    Refused,
    Result,
    Settle,
    Why,
)
from gossamer.raft import MAX_WAITING, PATIENCE, Outbox

KIND = "queues/"
"""Beginning of the kinds of replication groups."""

UNKNOWN_FOR = 1.0
_OF_A_GROUP = (Define, MoveIn, MoveOver)
"""Operations that are for one replication group, whichever has the queue."""
_MOST_UNKNOWN = 1000

Done = Callable[[int | GossamerError], object]
"""Called once with the result of a request, or with the error in its place."""


def kind_of(group: str) -> str:
    """Return the kind of the Raft group of a replication group."""
    return KIND + group


class LocalConsumer:
    """A consumer that is connected to this node. ``give`` is called with each message that it gets."""

    def __init__(
        self,
        queue: str,
        group: str,
        *,
        client: str,
        limit: int,
        start: str,
        give: Callable[[Assigned], object],
        single: bool = False,
    ) -> None:
        self.queue = queue
        self.group = group
        self.client = client
        self.limit = limit
        self.start = start
        self.give = give
        self.single = single
        self.name = ""
        """Its name in the queue, once it has asked to join."""
        self.replica = False
        """Whether its node had a replica of the group when it joined."""
        self.joined = False
        self.held: dict[int, int] = {}
        """Offset and attempt of each message that it has, until it is known to be settled."""
        self.settled: dict[int, int] = {}
        """The same of those that were settled since the last look at the group."""

    def lacks(self, offset: int, attempt: int) -> bool:
        """Return whether this is new to it."""
        return max(self.held.get(offset, 0), self.settled.get(offset, 0)) < attempt


class Queues:
    """Requests of this node to queues, and its consumers. ``wall`` is the time of day."""

    def __init__(
        self,
        node: str,
        declared: Iterable[QueueDeclaration],
        *,
        rng: Random,
        wall: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self.node = node
        self.declared = {queue.name: queue for queue in declared}
        self.writer = rng.randbytes(16)
        self.outboxes: dict[str, Outbox[Operation]] = {}
        """By replication group."""
        self.groups = {name: queue.replication.group for name, queue in self.declared.items()}
        """Replication group of each queue that is known here."""
        self.unresolved: dict[str, list[tuple[Operation, Done, bool]]] = {}
        """Requests to queues of which no group is known, by queue; True: taken wherever the queue is led."""
        self.moving: set[str] = set()
        """Those of them that go to another group."""
        self.consumers: dict[str, LocalConsumer] = {}
        self.wake: Callable[[], object] = lambda: None
        """Has the server see to what is new."""
        self.captures = {name: queue.topics for name, queue in self.declared.items() if queue.topics}
        """Topic filters of queues that capture some, by queue, as far as this node knows."""
        self.on_captures: Callable[[Mapping[str, tuple[str, ...]]], object] = ignore
        """Called when ``captures`` have changed."""
        self.has_replica: Callable[[str], bool] = lambda group: False
        """Whether this node has a replica of a group, and its consumers their messages from that."""
        self.refused_for: Callable[[str], str | None] = lambda group: None
        """The leader of a group for which this node takes no messages, blank where it is not known; None: it
        takes them."""
        self.listed = False
        """Whether some group has said which queues it has."""
        self.recorder: QueueRecorderLike | None = None
        """Flow recorder, while messages are recorded."""
        self.troubles: Mapping[tuple[str, str, str], tuple[float, Trouble]] = {}
        """What is wrong with the queues that this node leads, by alarm, queue and subject, and since when by
        its clock (``watch``)."""
        self._rng = rng
        self._wall = wall
        self._now = now
        self._unknown: dict[str, float] = {}
        """Queues that there are not, and until when nobody is asked again."""
        self._seen: dict[str, int] = {}
        """Index of the last entry of each group whose deliveries were taken."""

    # -- requests

    def append(
        self,
        queue: str,
        payload: bytes,
        done: Done,
        *,
        key: str = "",
        properties: bytes = b"",
        expiry: float | None = None,
        client: str = "",
        message_id: int = -1,
        captured: bool = False,
    ) -> None:
        """Put a message into a queue; the result is its offset. ``expiry``: seconds. ``client`` published
        it, and ``message_id`` is the recorder's. ``captured``: who published it knows nothing of the queue,
        nor of its leader."""
        lives = None if expiry is None else int(expiry * 1000)
        asked = Append(queue, key, payload, properties, int(self._wall() * 1000), lives)
        self.ask(asked, self._noted(asked, done, client, message_id), captured=captured)

    def do(self, asked: Operation, done: Done, *, group: str = "") -> None:
        """Have an operation of a program done, as :meth:`ask`."""
        self.ask(asked, self._noted(asked, done), group=group)

    def _noted(self, asked: Operation, done: Done, client: str = "", message_id: int = -1) -> Done:
        """Return what takes the result of an operation, and tells the recorder of a message that is in."""
        if self.recorder is None or not isinstance(asked, Append):
            return done

        def appended(result: int | GossamerError) -> None:
            if self.recorder is not None and not isinstance(result, GossamerError):
                told = (asked.queue, result, asked.key, len(asked.payload), client, message_id)
                self.recorder.appended(*told)
            done(result)

        return appended

    def settle(
        self,
        consumer: LocalConsumer,
        offsets: list[int],
        outcome: Outcome,
        done: Done,
        *,
        reason: str = "",
        delay: float | None = None,
        checkpoint: bytes | None = None,
        based_on: int = 0,
    ) -> None:
        """Say what became of messages, in one step. The result is NotHeldError where the consumer had some of
        them no more, which it names; without a quorum's word the consumer still has all. ``delay``: seconds
        after which a ``nack`` has them come again, unless the queue's back-off is to say so. ``checkpoint``:
        what the group keeps with the ``ack`` of one, in place of its checkpoint number ``based_on``."""
        wait = None if delay is None else int(delay * 1000)
        held = consumer.held
        attempts = [held.get(offset, 0) for offset in offsets]

        def settled(result: int | GossamerError) -> None:
            if not isinstance(result, NotDoneError | StaleCheckpointError):
                for offset, attempt in zip(offsets, attempts, strict=True):
                    if held.get(offset) == attempt:
                        consumer.settled[offset] = held.pop(offset)
            if self.recorder is not None:
                late = result.offsets if isinstance(result, NotHeldError) else offsets
                for offset, attempt in zip(offsets, attempts, strict=True):
                    came = outcome_of(outcome, result if offset in late else 0)
                    told = (consumer.queue, consumer.group, offset, attempt, consumer.client)
                    self.recorder.settled(*told, came)
            done(result)

        said = (offsets, outcome, reason, wait, checkpoint, based_on)
        self.ask(Settle(consumer.queue, consumer.group, consumer.name, *said), settled)

    def join(self, consumer: LocalConsumer, done: Done) -> None:
        """Take part in a consumer group; messages may come before ``done`` is called."""
        consumer.name = f"{self.node}/{self._rng.randbytes(8).hex()}"
        self.consumers[consumer.name] = consumer

        def joined(result: int | GossamerError) -> None:
            consumer.joined = not isinstance(result, Exception)
            if not consumer.joined:
                self.consumers.pop(consumer.name, None)
            done(result)

        self.ask(self.join_request(consumer), joined)

    def join_request(self, consumer: LocalConsumer) -> Join:
        """Return what a consumer joins with, now."""
        consumer.replica = self.has_replica(self.groups.get(consumer.queue, ""))
        return Join(
            consumer.queue,
            consumer.group,
            consumer.name,
            consumer.client,
            self.node,
            consumer.limit,
            consumer.replica,
            consumer.start,
            consumer.single,
        )

    def leave(self, consumer: LocalConsumer) -> None:
        """Leave a consumer group: what the consumer has goes to others at once."""
        if self.consumers.pop(consumer.name, None) is not None:
            consumer.held.clear()
            self.ask(Leave(consumer.queue, consumer.group, consumer.name), ignore)

    def ask(self, request: Operation, done: Done, *, group: str = "", captured: bool = False) -> None:
        """Have an operation done, by the replication group of its queue unless one is given."""
        queue = getattr(request, "queue", "")
        group = group or self.groups.get(queue, "")
        leader = self.refused_for(group) if isinstance(request, Append) and group and not captured else None
        if leader is not None:
            done(NotLeaderError(queue, leader))
        elif group:
            self._enter(group, request, done)
        elif self._now() < self._unknown.get(queue, 0.0):
            done(self._missing(queue))
        elif sum(map(len, self.unresolved.values())) >= MAX_WAITING:
            done(NotDoneError(f"{MAX_WAITING} requests wait for their queues to be found", unknown=False))
        else:
            self.unresolved.setdefault(queue, []).append((request, done, captured))
            self.wake()

    def _enter(self, group: str, request: Operation, done: Done) -> None:
        outbox = self.outboxes.get(group)
        if outbox is None:
            outbox = self.outboxes[group] = Outbox(_late)
        if outbox.is_full:
            done(NotDoneError(f"{MAX_WAITING} requests wait for group {group}", unknown=False))
            return
        queue = getattr(request, "queue", "")

        def answered(result: Result | GossamerError) -> None:
            if isinstance(result, Refused):
                elsewhere = result.why in (Why.MOVING, Why.UNKNOWN_QUEUE)
                if elsewhere and not isinstance(request, _OF_A_GROUP):
                    if result.why is Why.MOVING:
                        self.moving.add(queue)
                    # It may be, or soon be, in another group.
                    self._look_for(queue, (request, done, True))
                    return
                result = error_of(result.why, queue, result.offsets)
            done(result)

        if outbox.add(request, _size_of(request), answered, self._now()):
            self.wake()

    def _look_for(self, queue: str, *requests: tuple[Operation, Done, bool]) -> None:
        """Have the group of a queue found, and these requests wait for it."""
        if requests:
            self.groups.pop(queue, None)
        self.unresolved.setdefault(queue, []).extend(requests)
        self.wake()

    def follow(self, group: str) -> None:
        """Have requests that are not on their way to a group yet wait behind those that it refused, since the
        queue is elsewhere: so they stay in their order."""
        if self.unresolved:
            for request, answered in self.outboxes[group].pull(self._is_sought):
                self.unresolved[getattr(request, "queue", "")].append((request, answered, True))

    def _is_sought(self, request: Operation) -> bool:
        return getattr(request, "queue", "") in self.unresolved and not isinstance(request, _OF_A_GROUP)

    def _missing(self, queue: str) -> GossamerError:
        if queue in self.declared:
            return NotDoneError(f"queue {queue} is declared, and not made yet", unknown=False)
        return error_of(Why.UNKNOWN_QUEUE, queue)

    # -- deliveries

    def told(self, group: str, index: int, given: Iterable[Assigned]) -> None:
        """Take what the entry of a group gave. What is of an earlier one is passed over: this node's replica
        applies its log again, or is behind what the leader has said since."""
        if index > self._seen.get(group, 0):
            self._seen[group] = index
            self.deliver(given)

    def caught_up(self, group: str, index: int) -> None:
        """Note that this node's consumers have what a group had given up to an entry."""
        self._seen[group] = max(index, self._seen.get(group, 0))

    def deliver(self, given: Iterable[Assigned]) -> None:
        """Give messages to this node's consumers that they do not have yet."""
        for one in given:
            consumer = self.consumers.get(one.consumer)
            if consumer is not None and consumer.lacks(one.message.offset, one.attempt):
                consumer.held[one.message.offset] = one.attempt
                if self.recorder is not None:
                    told = (one.queue, one.group, one.message.offset, one.attempt)
                    self.recorder.given(*told, consumer.client)
                consumer.give(one)

    def resolve(self, queue: str, group: str | None, error: GossamerError | None) -> None:
        """Learn the replication group of a queue; None: there is no such queue, or an error says why it is
        not known."""
        waiting = self.unresolved.pop(queue, [])
        self.moving.discard(queue)
        if group is not None:
            self.groups[queue] = group
            self._unknown.pop(queue, None)
        elif queue in self.declared:
            self.groups.setdefault(queue, self.declared[queue].replication.group)
        elif error is None:
            self.groups.pop(queue, None)
            if self.captures.pop(queue, None):
                self.on_captures(self.captures)
            while len(self._unknown) >= _MOST_UNKNOWN:
                del self._unknown[next(iter(self._unknown))]
            self._unknown[queue] = self._now() + UNKNOWN_FOR
        for request, done, taken in waiting:
            if group is None:
                done(error or self._missing(queue))
            else:
                self.ask(request, done, group=group, captured=taken)

    def learn(self, group: str, found: Mapping[str, tuple[str, ...]]) -> None:
        """Take the queues that a group has, with the topic filters that they capture."""
        self.listed |= bool(found)
        for name in [name for name, one in self.groups.items() if one == group and name not in found]:
            # It is gone, or in another group.
            self._look_for(name)
        for name, topics in found.items():
            if self.groups.setdefault(name, group) != group:
                continue
            if topics:
                self.captures[name] = topics
            else:
                self.captures.pop(name, None)
        self.on_captures(self.captures)

    def local_groups(self) -> Mapping[str, list[LocalConsumer]]:
        """Return this node's consumers by replication group."""
        found: dict[str, list[LocalConsumer]] = {}
        for consumer in self.consumers.values():
            found.setdefault(self.groups.get(consumer.queue, ""), []).append(consumer)
        return found


def _size_of(request: Operation) -> int:
    match request:
        case Append():
            return len(request.payload) + len(request.properties)
        case MoveIn():
            return len(request.data)
        case Settle(offsets=list(offsets)):
            return 64 + 5 * len(offsets)
    return 64


def _late() -> NotDoneError:
    return NotDoneError(f"it waited {PATIENCE:g} s for those before it", unknown=False)


def ignore(_result: object) -> None:
    """Take a result that nobody wants."""
