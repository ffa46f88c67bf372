"""Queues of one node without a cluster: the machine of a replication group, which answers at once."""

from random import Random

from gossamer.config import QueueConfig
from gossamer.queues import Queues
from gossamer.queues.replicated.machine import QueueMachine
from gossamer.queues.values import Define, Tick, batch, decode_results, encode

GROUP = "default"


class LocalQueues(Queues):
    """``made``: settings of each queue that there is."""

    def __init__(self, **made):
        super().__init__("n1", [], rng=Random(1), wall=lambda: 1e9, now=lambda: 0.0)
        self.machine = QueueMachine(lambda index, given: self._told.append((index, given)))
        self.index = self.asked = 0
        self._told = []
        self._names = set()
        for name, settings in made.items():
            self.make(name, **settings)
        self.wake = self._work

    def make(self, name, **settings):
        """Make a queue."""
        self._names.add(name)
        define = Define(name, QueueConfig.model_validate(settings).model_dump_json().encode())
        self._apply(batch(b"other", self.index + 1, [define]))

    def tick(self, seconds):
        """Let the group's time pass."""
        for _ in range(seconds):
            self._apply(encode(Tick(1000)))

    def _apply(self, request):
        self.index += 1
        answer = self.machine.apply(self.index, request)
        told, self._told = self._told, []
        for index, given in told:
            self.told(GROUP, index, given)
        return answer

    def _work(self):
        for queue in list(self.unresolved):
            self.resolve(queue, GROUP if queue in self._names else None, None)
        for outbox in self.outboxes.values():
            while operations := outbox.next_batch(0.0):
                self.asked += len(operations)
                results = decode_results(self._apply(batch(self.writer, outbox.number, operations))).results
                for (_, answered), result in zip(outbox.take_sent(0.0), results, strict=True):
                    answered(result)
