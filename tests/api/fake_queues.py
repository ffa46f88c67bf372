"""The queues of a cluster that is not there: the machine of a replication group, without a log."""

from gossamer.config import QueueConfig
from gossamer.errors import UnavailableError, WrongValueError, mismatch
from gossamer.queues import Message, QueueDetails, QueueMachine, QueueStats, UnknownQueueError
from gossamer.queues.errors import NoDeadLetterError, error_of
from gossamer.queues.values import (
    Append,
    Define,
    DropGroup,
    Join,
    Leave,
    ListQueues,
    Outcome,
    Peek,
    Purge,
    Refused,
    Remove,
    Replay,
    Settle,
    Show,
    Tick,
    batch,
    decode_results,
    decoder_of,
    encode,
)

AT = 1_700_000_000_000


class FakeQueues:
    """``jobs``, with a message that a consumer holds too long, one that waits and one in ``jobs.dlq``."""

    def __init__(self):
        self.machine = QueueMachine(lambda index, given: None)
        self.number = 0
        self.quorum = True
        config = QueueConfig.model_validate({"topics": ["work/#"], "limits": {"max_depth": 3}})
        self.ask(Define("jobs", config.model_dump_json().encode()))
        self.ask(Join("jobs", "workers", "node1@127.0.0.1/0a", "w1", "node1@127.0.0.1", 1, True))
        for payload in (b"first", b"\xff\0", b"third"):
            self.ask(Append("jobs", "a/1", payload, b"", AT))
        actor = ("jobs", "totals", "node2@127.0.0.1/0b")
        self.ask(Join(*actor, "<node2@127.0.0.1.7>", "node2@127.0.0.1", 1, True, "first", True))
        self.ask(Settle(*actor, [0], Outcome.ACK, "", None, b"\x01", 0))
        self.ask(Leave(*actor))
        reject = Settle("jobs", "workers", "node1@127.0.0.1/0a", [0], Outcome.REJECT, "no such file")
        self.ask(reject)
        for _ in range(31):
            self.machine.apply(self.number, encode(Tick(1000)))

    def ask(self, operation):
        if not self.quorum:
            raise UnavailableError("queues: no quorum has answered; it may be done or not; try again")
        self.number += 1
        answer = self.machine.apply(self.number, batch(b"fake", self.number, [operation]))
        [result] = decode_results(answer).results
        if isinstance(result, Refused):
            raise error_of(result.why, operation.queue)
        return result

    def look(self, question, kind):
        if not self.quorum:
            raise UnavailableError("read: no leader is known: fewer than half of the voters; try again")
        return decoder_of(kind)(self.machine.read(encode(question)))

    async def listed(self):
        found = self.look(ListQueues(), list[QueueStats])
        return [("default", one) for one in sorted(found, key=lambda one: one.name)]

    async def show(self, queue):
        found = self.look(Show(queue), QueueDetails | None)
        if found is None:
            raise UnknownQueueError(queue)
        return "default", found

    async def peek(self, queue, offset, limit):
        await self.show(queue)
        return self.look(Peek(queue, offset, limit), list[Message])

    async def create(self, queue, config):
        if (group := config.replication.group) != "default":
            raise mismatch(WrongValueError, "replication.group", group, "one of default")
        self.ask(Define(queue, config.model_dump_json(exclude={"name"}).encode()))

    async def delete(self, queue):
        self.ask(Remove(queue))

    async def purge(self, queue):
        return self.ask(Purge(queue))

    async def replay(self, queue, offset, limit):
        await self.show(queue)
        letters, count = f"{queue}.dlq", self.ask(Replay(queue, offset, limit))
        if offset is not None and not count:
            raise NoDeadLetterError(queue, letters, offset)
        return letters, count

    async def move(self, queue, group):
        if group != "default":
            raise mismatch(WrongValueError, "group", group, "one of default")
        return (await self.show(queue))[0]

    async def drop_group(self, queue, group):
        self.ask(DropGroup(queue, group))

    async def append(self, queue, payload, *, key):
        return self.ask(Append(queue, key, payload, b"", AT))
