"""State machine of a replication group: its queues, and the time that they go by.

The group's time is the sum of what its leaders say has passed (:class:`~.values.Tick`), so it stands still
while nobody leads, and no clock of a node moves it: a node whose clock is a day off changes nothing here.
 Rules: 1. A batch of operations is done once (``raft.batches``).  2. Messages are given to consumers in the
entry that makes it possible; what was given is told to ``tell``, at every replica that applies the entry.  3.
Whether enough replicas are in sync is the leader's to see and an entry to say (:class:`~.values.InSync`), so
that all replicas refuse the same messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec

from gossamer.config import QueueConfig
from gossamer.queues.moving.values import MoveIn, MoveOut, MoveOver, MovePart
from gossamer.queues.replicated import moves
from gossamer.queues.replicated.fates import APPENDED, DEAD_LETTER, DELETED, DISCARDED, Fates, Sink
from gossamer.queues.replicated.letters import give_back
from gossamer.queues.replicated.queue import Queue
from gossamer.queues.replicated.shown import MOST_TROUBLES, details_of, lag_of, stats_of, troubles_of
from gossamer.queues.replicated.state import DeadLetter, QueueState
from gossamer.queues.stats import GroupLag
from gossamer.queues.values import (
    Append,
    Assigned,
    Batch,
    Buries,
    Checkpoint,
    Claim,
    Define,
    DropGroup,
    Has,
    Held,
    HeldAnswer,
    InSync,
    Join,
    Lags,
    Leave,
    ListQueues,
    NodeGone,
    Operation,
    Peek,
    Purge,
    Refused,
    Release,
    Remove,
    Replay,
    Result,
    Results,
    Saved,
    Settle,
    Show,
    Tick,
    Topics,
    Watch,
    Why,
    decode_question,
    decode_request,
    encode,
)
from gossamer.raft import Durable, Writers

TICK = 1.0
"""Seconds between two ticks, about: the leader is asked once a second."""
MAX_TICK = 5_000
"""Milliseconds that one tick adds at most: a leader that stood still has not let the time of consumers
pass."""
RELEASE_AFTER = 60.0
"""Seconds after which a group ends in which no queue is, and which no configuration names."""
_DEAD_LETTERS = QueueConfig.model_validate({"dlq": {"enabled": False}, "limits": {"message_ttl": "off"}})

Tell = Callable[[int, list[Assigned]], object]
"""``tell(index, assigned)``: the entry of this index gave these."""


class _Image(msgspec.Struct, array_like=True, frozen=True):
    index: int
    now: int
    queues: list[QueueState]
    writers: list[tuple[bytes, int, list[Result]]]
    staged: dict[str, moves.Staged]
    adopted: list[str]
    short: InSync | None
    released: bool = False


_image = msgspec.msgpack.Decoder(_Image).decode


class QueueMachine:
    """Implements :class:`gossamer.raft.StateMachine`; results and answers are encoded. ``replicas``: so many
    must have a message that is acknowledged; 0: a quorum. It is this node's to say where it leads, and no
    part of the state."""

    def __init__(
        self,
        tell: Tell,
        listens: Callable[[], Sink | None] = lambda: None,
        replicas: int = 0,
        stays: Callable[[], bool] = lambda: True,
    ) -> None:
        """``listens`` returns who is told of the fates of messages now, if somebody is; ``stays`` whether
        this node wants the group without a queue in it, too."""
        self._tell = tell
        self._listens = listens
        self._fates = Fates()
        self._replicas = replicas
        self._short: InSync | None = None
        """Fewer replicas are in sync than must have a message."""
        self._index = 0
        """Of the last entry."""
        self._now = 0
        self._queues: dict[str, Queue] = {}
        self._writers: Writers[Result] = Writers()
        self._arrivals = moves.Arrivals()
        self._packing = moves.Packing()
        self._led = 0.0
        """For how long its leader had led at the last tick. Not part of the state."""
        self._stays = stays
        self.released = False
        self._unused = 0.0
        """Seconds for which no queue was in it at the last tick, while this node led. Not part of the
        state."""

    # -- requests

    def apply(self, index: int, request: bytes) -> object:
        """Do a batch, or let time pass."""
        self._index = index
        sink = self._listens()
        if sink is None:
            return self._apply(index, request)
        self._fates.rows = []
        try:
            return self._apply(index, request)
        finally:
            fates, self._fates.rows = self._fates.rows, None
            if fates:
                sink(index, fates)

    def _apply(self, index: int, request: bytes) -> object:
        asked = decode_request(request)
        touched: dict[str, Queue] = {}
        if isinstance(asked, Tick):
            self._pass_time(asked.elapsed, touched)
            self._assign(index, touched)
            return None
        if isinstance(asked, InSync):
            self._short = asked if asked.replicas < asked.wanted else None
            return None
        if isinstance(asked, Release):
            self.released = not self._is_used
            return None
        try:
            results = self._writers.known(asked.writer, asked.number)
        except LookupError:
            return encode(Results([], late=True))
        if results is None:
            results = [self._do(one, touched) for one in asked.operations]
            self._writers.done(asked.writer, asked.number, results)
            self._assign(index, touched)
        return self._answer(asked, results)

    def _answer(self, asked: Batch, results: list[Result]) -> object:
        answer = encode(Results(results))
        pairs = zip(asked.operations, results, strict=False) if self._replicas else ()
        taken = any(isinstance(one, Append) and isinstance(result, int) for one, result in pairs)
        return Durable(answer, self._replicas) if taken else answer

    def _assign(self, index: int, touched: dict[str, Queue]) -> None:
        given = [one for queue in touched.values() for one in queue.assign(self._now)]
        if given:
            self._tell(index, given)

    def _append(self, asked: Append, touched: dict[str, Queue]) -> Result:
        queue = self._queues.get(asked.queue)
        if queue is None or queue.state.move is not None:
            return Refused(Why.UNKNOWN_QUEUE if queue is None else Why.MOVING)
        touched[asked.queue] = queue
        return queue.append(asked, self._now) if self._short is None else Refused(Why.FEW_REPLICAS)

    def _do(self, asked: Operation, touched: dict[str, Queue]) -> Result:
        if type(asked) is Append:
            return self._append(asked, touched)
        if self.released and isinstance(asked, Define | MoveIn):
            return Refused(Why.RELEASED)
        match asked:
            case Define(name, settings):
                return self._define(name, settings, touched)
            case NodeGone(node, kept):
                for name, one in self._awake():
                    touched[name] = one
                    self._bury(one.node_gone(node, set(kept), self._now), touched)
                return 0
            case MoveOver(_, move, moved):
                return self._over(move, moved, touched)
            case MoveIn():
                return self._take(asked, touched)
        queue = self._queues.get(asked.queue)
        if queue is None:
            return Refused(Why.UNKNOWN_QUEUE)
        if isinstance(asked, MoveOut):
            done = moves.begin(self._queues, asked, self._now)
            for name in [one for one in touched if touched[one].state.move is not None]:
                del touched[name]
            return Refused(done) if isinstance(done, Why) else done
        if queue.state.move is not None:
            return Refused(Why.MOVING)
        touched[asked.queue] = queue
        return self._ask(queue, asked, touched)

    def _ask(self, queue: Queue, asked: Operation, touched: dict[str, Queue]) -> Result:
        done: int | Why | None = None
        match asked:
            case Settle():
                letters, refused = queue.settle(asked, self._now)
                self._bury(letters, touched)
                return 0 if refused is None else refused
            case Join():
                done = queue.join(asked)
            case Leave(_, group, consumer):
                self._bury(queue.leave(group, consumer, self._now), touched)
            case DropGroup(_, group):
                done = queue.drop_group(group)
            case Purge():
                done = queue.purge()
            case Replay():
                done = self._replay(queue, asked, touched)
            case Remove(name):
                del self._queues[name], touched[name]
                self._fates.note(DISCARDED, name, queue.state.end - 1, DELETED)
        if isinstance(done, Why):
            return Refused(done)
        return done or 0

    def _awake(self) -> list[tuple[str, Queue]]:
        return [(name, queue) for name, queue in self._queues.items() if queue.state.move is None]

    def _over(self, move: str, moved: bool, touched: dict[str, Queue]) -> int:
        moves.over(self._queues, move, moved=moved)
        self._arrivals.abandon(move)
        self._packing.clear()
        touched.update(self._awake())
        return 0

    def _take(self, asked: MoveIn, touched: dict[str, Queue]) -> Result:
        done = self._arrivals.take(self._queues, asked, self._now, self._fates)
        touched.update(self._awake())
        return Refused(done) if isinstance(done, Why) else done

    def _define(self, name: str, settings: bytes, touched: dict[str, Queue]) -> Result:
        letters = QueueConfig.model_validate_json(settings).dlq.queue_of(name)
        if any(one in self._queues and self._queues[one].state.move for one in (name, letters)):
            return Refused(Why.MOVING)
        queue = touched[name] = self._queues.get(name) or self._made(name, settings)
        queue.define(settings)
        return 0

    def _made(self, name: str, settings: bytes) -> Queue:
        queue = self._queues[name] = Queue(QueueState(name, settings, idle_since=self._now), self._fates)
        return queue

    def _bury(self, letters: Iterable[DeadLetter], touched: dict[str, Queue]) -> None:
        """Put dead letters where they go; a queue that is not there is made."""
        for letter in letters:
            settings = _DEAD_LETTERS.model_dump_json().encode()
            queue = self._queues.get(letter.queue) or self._made(letter.queue, settings)
            queue.bury(msgspec.structs.replace(letter.entry, since=self._now, expires=0))
            self._fates.note(APPENDED, letter.queue, queue.state.end - 1, DEAD_LETTER, key=letter.entry.key)
            touched[letter.queue] = queue

    def _replay(self, queue: Queue, asked: Replay, touched: dict[str, Queue]) -> int | Why:
        name = queue.config.dlq.queue_of(asked.queue)
        dead = self._queues.get(name)
        if dead is None or dead is queue:
            return 0
        touched[name] = dead
        return give_back(queue, dead, asked, self._now)

    # -- time

    def _pass_time(self, elapsed: int, touched: dict[str, Queue]) -> None:
        self._now += min(elapsed, MAX_TICK)
        for name, queue in self._awake():
            if not queue.busy:
                continue
            if queue.is_over(self._now):
                del self._queues[name]
                self._fates.note(DISCARDED, name, queue.state.end - 1, DELETED)
                continue
            touched[name] = queue
            self._bury(queue.pass_time(self._now), touched)

    def upkeep(self, leading_for: float, in_sync: int | None) -> list[bytes]:
        """Return the tick that is due, while time changes something, and who is in sync, where that is
        news."""
        elapsed, self._led = leading_for - self._led, leading_for
        # It may have led before; its time since the last tick is not known, but for this second.
        if elapsed < 0:
            elapsed = min(leading_for, TICK)
        self._unused = 0.0 if self._stays() or self._is_used else self._unused + elapsed
        busy = any(queue.busy for queue in self._queues.values())
        due: list[Tick | InSync] = [Tick(round(elapsed * 1000))] if busy else []
        if in_sync is not None:
            now = InSync(in_sync, self._replicas)
            short = now if now.replicas < now.wanted else None
            due += [now] if short != self._short else []
        if self._unused >= RELEASE_AFTER and not self.released:
            return [encode(Release())]
        return [encode(one) for one in due]

    @property
    def _is_used(self) -> bool:
        """Return whether a queue is in the group, or on its way there."""
        return bool(self._queues or self._arrivals.staged)

    # -- questions

    def read(self, question: bytes) -> object:
        """Answer a question."""
        asked = decode_question(question)
        queue = self._queues.get(getattr(asked, "queue", ""))
        match asked:
            case ListQueues():
                return encode([stats_of(one, self._now) for one in self._queues.values()])
            case Show():
                return encode(None if queue is None else details_of(queue, self._now))
            case Peek(_, offset, limit):
                return encode(None if queue is None else queue.peek(offset, limit))
            case Held(node):
                return encode(self._held(node))
            case Lags(limit):
                return encode(list(islice(self._lags(), limit)))
            case Watch():
                found = (one for each in self._queues.values() for one in troubles_of(each, self._now))
                return encode(list(islice(found, MOST_TROUBLES)))
            case Buries(letters):
                names = (name for name, one in self._queues.items() if one.dead_letters == letters)
                return encode(next(names, ""))
            case Topics():
                return encode({name: one.config.topics for name, one in self._queues.items()})
            case Has():
                return encode(moves.presence_of(queue))
            case MovePart(move, position):
                return encode(self._packing.part(self._queues.values(), move, position))
            case Saved(_, group):
                known = None if queue is None else queue.state.groups.get(group)
                kept = Checkpoint(0, b"") if known is None else known.checkpoint
                return encode(None if queue is None else kept)

    def _lags(self) -> Iterator[GroupLag]:
        for queue in self._queues.values():
            for group in queue.state.groups.values():
                yield lag_of(queue, group, self._now)

    def _held(self, node: str) -> HeldAnswer:
        consumers: list[tuple[str, str, str]] = []
        claims: list[Claim] = []
        nodes: set[str] = set()
        found = self._queues.items()
        groups = [(queue, group) for queue, one in found for group in one.state.groups.values()]
        for queue, group in groups:
            for name, consumer in group.consumers.items():
                nodes.add(consumer.node)
                if consumer.node == node:
                    consumers.append((queue, group.name, name))
                    claims += [Claim(queue, name, at, group.attempts[at]) for at in sorted(consumer.held)]
        under_way = [(one.id, one.queue, one.to) for one in moves.moving(self._queues)]
        return HeldAnswer(self._index, consumers, claims, sorted(nodes), under_way)

    # -- snapshots

    def snapshot(self) -> bytes:
        """Return the whole state."""
        return encode(
            _Image(
                self._index,
                self._now,
                [queue.state for queue in self._queues.values()],
                self._writers.rows(),
                self._arrivals.staged,
                self._arrivals.adopted,
                self._short,
                self.released,
            )
        )

    def restore(self, data: bytes) -> None:
        """Take over a snapshot."""
        image = _image(data)
        self._index, self._now = image.index, image.now
        self._queues = {state.name: Queue(state, self._fates) for state in image.queues}
        self._writers = Writers(image.writers)
        self._arrivals = moves.Arrivals(image.staged, image.adopted)
        self._packing.clear()
        self._short, self.released = image.short, image.released
