"""A queue on paper: the real state machine under anything at random, recorded as nodes would."""

from gossamer.audit import EventBuffer, QueueEvents, schema
from gossamer.audit.event_buffer import KINDS
from gossamer.queues.replicated.machine import QueueMachine
from gossamer.queues.values import Append, DropGroup, Join, Leave, Outcome, Purge, Refused, Remove, Settle
from tests.queues.replica import Group
from tests.spark.world import World

NAMES = {number: name for name, number in KINDS.items()}
FIELDS = {event.name: event.columns for event in schema.EVENTS}


class Queued(World):
    """Plays a queue ``jobs``; ``done`` counts what consumers of each group have settled."""

    def __init__(self, seed, *, name, **settings):
        super().__init__(seed, name=name, faults=0)
        self.queue = name
        self.group = Group()
        self.group.machine = QueueMachine(
            lambda index, given: self.group.told.append((index, given)),
            lambda: self.gone,
        )
        self.leader = self.nodes[0]
        self.held = {}
        self.done = 0
        self.group.define(name, **settings)

    def rows_of(self, node, tell):
        """Emit at a node what a recorder notes."""
        buffer = EventBuffer(limit=1000, wall=lambda: 0.0)
        tell(QueueEvents(buffer, lambda client: client))
        for _, kind, _, _, *values in buffer.take():
            self.emit(node, NAMES[kind], **dict(zip(FIELDS[NAMES[kind]], values, strict=True)))

    def gone(self, index, fates):
        self.rows_of(self.leader, lambda events: events.gone(index, fates))

    def node_of(self, consumer):
        return self.nodes[sum(consumer.encode()) % len(self.nodes)]

    def ask(self, *operations):
        """Do operations; tell what consumers were given."""
        self.pass_time(0.01)
        results = self.group.ask(*operations)
        self.hand_out()
        return results

    def hand_out(self):
        told, self.group.told = self.group.told, []
        for one in (one for _, given in told for one in given):
            self.pass_time(0.001)
            offset, attempt = one.message.offset, one.attempt
            self.held[one.queue, one.group, offset] = one.consumer, attempt
            client = f"client-{one.consumer}"
            self.rows_of(
                self.node_of(one.consumer),
                lambda events, one=one, client=client: events.given(
                    one.queue, one.group, one.message.offset, one.attempt, client
                ),
            )

    def tick(self, seconds):
        self.pass_time(seconds)
        self.group.tick(seconds)
        self.hand_out()

    def append(self, key=""):
        (offset,) = self.ask(Append(self.queue, key, b"x", b"", 0))
        if not isinstance(offset, Refused):
            node = self.random.choice(self.nodes)
            self.rows_of(node, lambda events: events.appended(self.queue, offset, key, 1, "speaker", -1))
        return offset

    def join(self, consumer, group="workers", limit=3):
        self.ask(Join(self.queue, group, consumer, f"client-{consumer}", "n1", limit, True, "first"))

    def settle(self, key, outcome=Outcome.ACK):
        queue, group, offset = key
        consumer, attempt = self.held[key]
        (result,) = self.ask(Settle(queue, group, consumer, [offset], outcome))
        accepted = not isinstance(result, Refused)
        if accepted:
            self.done += outcome is Outcome.ACK
            if self.held[key] == (consumer, attempt):
                del self.held[key]
        what = outcome.name.lower() if accepted else "late"
        told = (queue, group, offset, attempt, f"client-{consumer}", what)
        self.rows_of(self.node_of(consumer), lambda events: events.settled(*told))

    def play(self, steps):
        pick = self.random.choice
        for _ in range(steps):
            move = self.random.random()
            if move < 0.4:
                self.append(pick(["", "k", "l"]))
            elif move < 0.5:
                self.join(pick("abc"), pick(["workers", "workers", "audit"]))
            elif move < 0.54:
                self.ask(Leave(self.queue, "workers", pick("abc")))
            elif move < 0.6:
                self.tick(1)
            elif move < 0.61:
                self.ask(Purge(self.queue))
            elif self.held:
                outcome = pick([Outcome.ACK, Outcome.ACK, Outcome.ACK, Outcome.NACK, Outcome.REJECT])
                self.settle(pick(sorted(self.held)), outcome)
        return self

    def drop_group(self, group="workers"):
        """End a consumer group that everybody leaves."""
        self.ask(*(Leave(self.queue, group, one) for one in "abc"), DropGroup(self.queue, group))
        self.held.clear()

    def delete(self):
        """Delete the queue."""
        self.ask(Remove(self.queue))
        self.held.clear()

    def close(self):
        self.pass_time(60)
        for node in self.nodes:
            self.emit(node, schema.CLOSED)
        return self

    def without(self, condition):
        """Forget rows, as if what they tell had not happened; numbers stay contiguous."""
        for node, rows in self.rows.items():
            self.rows[node] = [row for row in rows if not condition(row)]
            for seq, row in enumerate(self.rows[node], 1):
                row["seq"] = seq
        return self
