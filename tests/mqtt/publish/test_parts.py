"""Of a batch that waits for a quorum, what does not need that is told before."""

from gossamer.mqtt.flow.backpressure import Hold
from gossamer.mqtt.publish.parts import Parts, SlowBatches
from mqtt.flow.test_ranges import FREE, STUCK, mend, node_of_two, publish, turns


class Batches:
    """Batches of a node, with what is told of them, and timers that the test runs."""

    def __init__(self, node):
        self.node, self.timers, self.told = node, [], []
        self.slow = SlowBatches(lambda _seconds, callback: self.timers.append(callback))

    def take(self, *records):
        """Take a batch of records, each for so many sessions and ten bytes long."""
        hold, parts = Hold(), Parts(self.node.store)
        before = self.node.store.notes
        hold.tell = self.told.append
        for number, sessions in enumerate(records, 1):
            publish(self.node, *sessions)
            parts.end(number * 10)
        self.slow.watch(hold, parts)
        self.node.store.since(before).append_acked(b"", lambda _: hold.release())
        return hold

    def look(self):
        timers, self.timers[:] = self.timers[:], []
        for timer in timers:
            timer()


async def test_what_is_safe_is_told_while_the_rest_waits():
    node, sessions = await node_of_two()
    stuck, free = sessions[STUCK], sessions[FREE]
    batches = Batches(node)
    hold = batches.take([free], [stuck], [], [free], [free], [free, stuck])
    batches.look()
    # The disc has nothing yet.
    assert batches.told == [[(20, 30)]]
    await turns(node)
    batches.look()
    assert batches.told[1:] == [[(0, 10), (30, 50)]]
    batches.look()
    assert len(batches.told) == 2
    assert not hold.released
    await mend(node)
    assert hold.released
    batches.look()
    assert (len(batches.told), batches.timers) == (2, [])


async def test_nothing_is_told_of_a_batch_that_is_done_in_time():
    node, sessions = await node_of_two()
    await mend(node)
    batches = Batches(node)
    hold = batches.take([sessions[FREE]], [sessions[STUCK]])
    await node.settle()
    assert hold.released
    batches.look()
    assert (batches.told, batches.timers) == ([], [])


async def test_a_batch_for_one_range_has_no_parts():
    node, sessions = await node_of_two()
    batches = Batches(node)
    hold = batches.take([sessions[STUCK]], [sessions[STUCK]])
    assert batches.timers == []
    await mend(node)
    assert hold.released
