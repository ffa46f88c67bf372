"""Writer of a node: gathers the writes of its processes, and has each range take them batch by batch.

Rules: 1. What is answered without a quorum's word says whether the write may be done (``raft.batches``).  2.
A node writes to each range as another writer, since what a range knows of its writers goes where its keys go.
3. What waits for a range goes to another once that has its keys; a batch that is on its way stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from random import Random

from msgspec import Struct

from gossamer.basekv.errors import BadRangeError, BadRowError, NotWrittenError, RangeFullError
from gossamer.basekv.ranges import FIRST_RANGES, RoutingTable
from gossamer.basekv.reshaping import NUMBER_BITS, Reshape, merge_ranges, split_range
from gossamer.basekv.sending import send_batch
from gossamer.basekv.values import (
    MAX_KEY,
    MAX_OPERATIONS,
    MAX_VALUE,
    MAX_WRITE,
    Answer,
    DeleteRange,
    Done,
    Moved,
    Put,
    RangeInfo,
    Result,
    Write,
    batch_of,
    encode,
    kind_of,
)
from gossamer.errors import GossamerError, UsageError
from gossamer.raft import MAX_WAITING, PATIENCE, Answered, NotReadyError, Outbox
from gossamer.supervisor import (
    Caller,
    GenServer,
    NoReply,
    Pid,
    Reply,
    call,
    cast,
    reply,
    self_pid,
    send,
    send_after,
    spawn_link,
)

BASEKV = "basekv"
"""Registered name of the server on every node."""


class WriteRequest(Struct, frozen=True):
    """Call: do a write; the answer is whether its expectations held, or an error."""

    write: Write


class Find(Struct, frozen=True):
    """Call: the range of a key, as this node knows it."""

    key: bytes


class Learn(Struct, frozen=True):
    """Cast: ranges, as their leaders know them."""

    ranges: list[RangeInfo]


class ListRanges(Struct, frozen=True):
    """Call: all ranges, as this node knows them."""


class SplitAt(Struct, frozen=True):
    """Call: have the range of a key end before it; the answer is the one that begins there, or an error."""

    key: bytes


class MergeFrom(Struct, frozen=True):
    """Call: have a range take over its neighbour on the right; the answer is the range, or an error."""

    number: int


class _Due(Struct, frozen=True):
    """To itself: send the next batch of a range, once what has come with its first write is read."""

    number: int


class _Answered(Struct, frozen=True):
    number: int
    answer: Answer | None
    why: str = ""


class KeyValueServer(GenServer):
    """Start it under the name :data:`BASEKV`, on every node."""

    async def init(self, rng: Random, *, changes: Callable[[], bool] = lambda: True) -> None:
        """``changes()``: all nodes of the cluster can split and merge ranges."""
        self._rng = rng
        self._changes = changes
        self._writer = rng.randbytes(16)
        self._routing = RoutingTable()
        self._outboxes: dict[int, Outbox[Write]] = {}
        self._due: set[int] = set()

    async def handle_call(self, asked: object, caller: Caller) -> Reply | NoReply:
        match asked:
            case WriteRequest(write):
                return self._enter(write, partial(reply, caller))
            case Find(key):
                return Reply(self._routing.find(key))
            case ListRanges():
                return Reply(self._routing.ranges())
            case SplitAt() | MergeFrom():
                return self._change(asked, caller)
        return Reply(UsageError(f"basekv got {type(asked).__name__}; use gossamer.basekv.write()"))

    def _change(self, asked: SplitAt | MergeFrom, caller: Caller) -> Reply | NoReply:
        where = asked.key.hex() if isinstance(asked, SplitAt) else str(asked.number)
        if not self._changes():
            expected = "the feature ranges, which all nodes have; gossamer features enable ranges"
            return Reply(BadRangeError(where, got="a cluster that has not enabled it", expected=expected))
        if isinstance(asked, SplitAt):
            number = self._rng.getrandbits(NUMBER_BITS) | FIRST_RANGES
            work = partial(split_range, self._find, asked.key, number)
        else:
            work = partial(merge_ranges, self._routing.ranges, asked.number, self._rng.randbytes(8))
        spawn_link(_reshape, self_pid(), work, partial(reply, caller), label=f"change range {where}")
        return NoReply()

    async def handle_cast(self, told: object) -> None:
        if isinstance(told, Learn):
            self._learn(told.ranges)

    async def handle_info(self, message: object) -> None:
        match message:
            case _Answered():
                self._answered(message)
            case _Due(number):
                self._due.discard(number)
                self._send_next(number)

    def _find(self, key: bytes) -> RangeInfo:
        return self._routing.find(key)

    def _learn(self, ranges: Iterable[RangeInfo]) -> None:
        """Know ranges; what waits for one that has not its keys any more waits for that which has."""
        if not self._routing.learn(ranges):
            return
        for number, outbox in list(self._outboxes.items()):
            for write, answered in outbox.pull(partial(self._is_elsewhere, number)):
                if isinstance(told := self._enter(write, answered), Reply):
                    answered(told.value)

    def _is_elsewhere(self, number: int, write: Write) -> bool:
        return self._routing.find(next(iter(_keys(write)))).number != number

    def _enter(self, write: Write, answered: Answered) -> Reply | NoReply:
        try:
            info = self._range_of(write)
        except BadRowError as error:
            return Reply(error)
        outbox = self._outboxes.setdefault(info.number, Outbox(_late))
        if outbox.is_full:
            return Reply(NotWrittenError(f"{MAX_WAITING} writes wait for range {info.number}", unknown=False))
        size = sum(size for _, size, _ in _sizes(write))
        if outbox.add(write, size, answered, self.process.loop.time()) and info.number not in self._due:
            self._due.add(info.number)
            send(self_pid(), _Due(info.number))
        return NoReply()

    def _range_of(self, write: Write) -> RangeInfo:
        """Return the range that has all keys of a write. Raises BadRowError."""
        keys = list(_keys(write))
        if not write.operations or len(keys) > MAX_OPERATIONS:
            got = f"{len(write.operations)} operations and {len(write.expected)} expectations"
            raise BadRowError("write", got=got, expected=f"one operation or more, {MAX_OPERATIONS} in all")
        total = ("write", sum(size for _, size, _ in _sizes(write)), MAX_WRITE)
        for what, size, most in (*_sizes(write), total):
            if size > most:
                raise BadRowError(what, got=f"{size} bytes", expected=f"at most {most} bytes")
        info = self._routing.find(keys[0])
        ends = [one.end for one in write.operations if isinstance(one, DeleteRange)]
        beyond = info.end is not None and any(end > info.end for end in ends)
        if beyond or not all(map(info.has, keys)):
            raise BadRowError(
                "write", got="keys of several ranges", expected="keys of one; write them one by one"
            )
        return info

    def _send_next(self, number: int) -> None:
        outbox, now = self._outboxes[number], self.process.loop.time()
        if writes := outbox.next_batch(now):
            writer = self._writer + number.to_bytes(8)
            batch = batch_of(self._routing.version(number), writer, outbox.number, writes)
            key = next(iter(_keys(writes[0])))
            label = f"write to {kind_of(number)}"
            spawn_link(_send, self_pid(), number, key, encode(batch), label=label)
        elif wait := outbox.gathers(now):
            send_after(wait, self_pid(), _Due(number))

    def _answered(self, got: _Answered) -> None:
        sent = self._outboxes[got.number].take_sent(self.process.loop.time())
        match got.answer:
            case Done(results, False):
                for (_, answered), result in zip(sent, results, strict=True):
                    full = RangeFullError(got.number) if result is Result.FULL else None
                    answered(full or result is Result.DONE)
            case Moved(info, others):
                self._learn([info, *others])
                for write, answered in sent:
                    if isinstance(told := self._enter(write, answered), Reply):
                        answered(told.value)
            case _:
                for _, answered in sent:
                    answered(NotWrittenError(got.why or "another answer was expected", unknown=True))
        self._send_next(got.number)


def _late() -> NotWrittenError:
    # Its caller may have given up, and read what others have written since.
    return NotWrittenError(f"it waited {PATIENCE:g} s for those before it", unknown=False)


def _keys(write: Write) -> Iterable[bytes]:
    for operation in write.operations:
        yield operation.start if isinstance(operation, DeleteRange) else operation.key
    for one in write.expected:
        yield one.key


def _sizes(write: Write) -> Iterable[tuple[str, int, int]]:
    """Yield what is bounded in a write: what it is, its size, and the most."""
    for key in _keys(write):
        yield "key", len(key), MAX_KEY
    for operation in write.operations:
        if isinstance(operation, Put):
            yield "value", len(operation.value), MAX_VALUE
        elif isinstance(operation, DeleteRange):
            yield "end", len(operation.end), MAX_KEY
    for one in write.expected:
        yield "expected value", len(one.value or b""), MAX_VALUE


async def _send(server: Pid, number: int, key: bytes, batch: bytes) -> None:
    async def whereabouts() -> int:
        info: RangeInfo = await call(server, Find(key))
        return info.number

    try:
        answer = _Answered(number, await send_batch(number, batch, whereabouts))
    except GossamerError as error:
        answer = _Answered(number, None, error.why if isinstance(error, NotReadyError) else str(error))
    send(server, answer)


async def _reshape(server: Pid, work: Reshape, answered: Answered) -> None:
    try:
        found = await work(lambda ranges: cast(server, Learn(ranges)))
    except NotReadyError as error:
        answered(NotWrittenError(error.why, unknown=True))
    except GossamerError as error:
        answered(error)
    else:
        answered(found)
