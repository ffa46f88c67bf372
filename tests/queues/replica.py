"""A replica of a replication group without a cluster, and what it is asked."""

from gossamer.config import QueueConfig
from gossamer.queues.moving.values import Part
from gossamer.queues.replicated.machine import QueueMachine
from gossamer.queues.stats import QueueDetails
from gossamer.queues.values import (
    Append,
    Checkpoint,
    Define,
    Join,
    MoveIn,
    MoveOut,
    MoveOver,
    MovePart,
    Outcome,
    Saved,
    Settle,
    Show,
    Tick,
    batch,
    decode_results,
    decoder_of,
    encode,
)
from gossamer.raft import Durable


class Group:
    """A machine, and what it told: the log of one replica."""

    def __init__(self, replicas=0, stays=True):
        self.told = []
        more = {"replicas": replicas, "stays": lambda: stays}
        self.machine = QueueMachine(lambda index, given: self.told.append((index, given)), **more)
        self.index = 0
        self.number = 0

    def ask(self, *operations):
        """Do operations in one batch; return the results."""
        self.number += 1
        return self.apply(batch(b"w", self.number, list(operations)))

    def apply(self, request):
        self.index += 1
        answer = self.machine.apply(self.index, request)
        if isinstance(answer, Durable):
            answer = answer.value
        return None if answer is None else decode_results(answer).results

    def tick(self, seconds):
        for _ in range(int(seconds)):
            self.apply(encode(Tick(1000)))

    def given(self):
        """Take what was given since: consumer, offset and attempt."""
        told, self.told = self.told, []
        return [(one.consumer, one.message.offset, one.attempt) for _, given in told for one in given]

    def show(self, name="jobs"):
        return decoder_of(QueueDetails | None)(self.machine.read(encode(Show(name))))

    def saved(self, consumers="workers"):
        found = decoder_of(Checkpoint)(self.machine.read(encode(Saved("jobs", consumers))))
        return found.number, found.data

    def define(self, name="jobs", **settings):
        return self.ask(Define(name, QueueConfig.model_validate(settings).model_dump_json().encode()))


def message(number=0, key="", *, queue="jobs", expiry=None):
    return Append(queue, key, b"%d" % number, b"", 1_700_000_000_000 + number, expiry)


def join(consumer, *, group="workers", limit=10, start="", queue="jobs", node="n1", single=False):
    return Join(queue, group, consumer, f"client-{consumer}", node, limit, True, start, single)


def settle(consumer, offset, outcome=Outcome.ACK, group="workers", queue="jobs", *, saved=None, based_on=0):
    offsets = offset if isinstance(offset, list) else [offset]
    return Settle(queue, group, consumer, offsets, outcome, "", None, saved, based_on)


def moved(source, ahead):
    """Move a queue to a group whose clock is so far ahead."""
    target = Group()
    target.define("clock")
    target.ask(message(queue="clock"))
    target.tick(ahead)
    source.ask(MoveOut("jobs", "m", "hot"))
    [position] = target.ask(MoveIn("jobs", "m", 0, b"", False))
    while position >= 0:
        data = source.machine.read(encode(MovePart("m", position)))
        found = decoder_of(Part)(data)
        [position] = target.ask(MoveIn("jobs", "m", position, found.data, found.last))
    assert source.ask(MoveOver("jobs", "m", True)) == [0]
    return target
