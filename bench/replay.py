"""What it costs to read a stream from its beginning: a consumer group gets, and settles, all that is in it.

    python bench/replay.py                        200,000 messages of 256 B, three rounds
    python bench/replay.py --limit 10             a consumer that has ten messages at once
    python bench/replay.py --profile              where the time goes

All of it that is inside a node, on one core: the requests in batches, as they are in the log, the machine of
the replication group, what it gives, and the node's consumers. Without disc, links and packets, of which a
batch costs one each. Processor time, not wall: the machine may have other things to do.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import time
from functools import partial
from random import Random

from gossamer.config import QueueConfig
from gossamer.queues import LocalConsumer, Outcome, Queues
from gossamer.queues.replicated.machine import QueueMachine
from gossamer.queues.values import Append, Assigned, Define, batch, decode_results
from gossamer.supervisor import tune_collector

PAYLOAD = 256
GROUP = "default"


class Node:
    """A node that has the only replica of a group."""

    def __init__(self) -> None:
        self.queues = Queues("n1", [], rng=Random(1), wall=lambda: 1e9, now=lambda: 0.0)
        self.queues.groups["stream"] = GROUP
        self._machine = QueueMachine(partial(self.queues.told, GROUP))
        self._index = 0

    def fill(self, count: int) -> None:
        """Put messages into the stream."""
        limits = {"max_depth": count, "max_bytes": 1024 * count}
        settings = QueueConfig.model_validate({"type": "stream", "max_inflight": 65_535, "limits": limits})
        self._apply(batch(b"f", 1, [Define("stream", settings.model_dump_json().encode())]))
        made = [Append("stream", f"k{n % 100}", bytes(PAYLOAD), b"", 1) for n in range(512)]
        for number in range(2, 2 + count // 512 + 1):
            left = count - (number - 2) * 512
            self._apply(batch(b"f", number, made[:left]))

    def replay(self, count: int, limit: int) -> None:
        """Read all of it, with a consumer that has so many messages at once."""
        got: list[int] = []
        waiting: list[int] = []

        def give(one: Assigned) -> None:
            got.append(one.message.offset)
            waiting.append(one.message.offset)

        consumer = LocalConsumer("stream", "g", client="c", limit=limit, start="first", give=give)
        self.queues.join(consumer, lambda result: None)
        self._work()
        while len(got) < count or waiting:
            offsets, waiting[:] = list(waiting), []
            # As of a client whose acknowledgements come in one packet of the network.
            self.queues.settle(consumer, offsets, Outcome.ACK, lambda result: None)
            self._work()
            consumer.settled.clear()
        if got != list(range(count)):
            raise RuntimeError("the stream was not read in order")

    def _apply(self, request: bytes) -> bytes:
        self._index += 1
        answer = self._machine.apply(self._index, request)
        assert isinstance(answer, bytes)
        return answer

    def _work(self) -> None:
        outbox = self.queues.outboxes[GROUP]
        while operations := outbox.next_batch(0.0):
            answer = self._apply(batch(self.queues.writer, outbox.number, operations))
            results = decode_results(answer).results
            for (_, answered), result in zip(outbox.take_sent(0.0), results, strict=True):
                answered(result)


def main() -> None:
    """Print what it cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--limit", type=int, default=1000, help="messages that the consumer has at once")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    each = []
    for _ in range(options.rounds):
        node = Node()
        node.fill(options.messages)
        tune_collector()
        profile = cProfile.Profile()
        before = time.process_time()
        if options.profile:
            profile.runcall(node.replay, options.messages, options.limit)
            pstats.Stats(profile).sort_stats("tottime").print_stats(22)
            return
        node.replay(options.messages, options.limit)
        each.append((time.process_time() - before) / options.messages)
    cost = statistics.median(each)
    print(f"{1e6 * cost:.2f} µs of processor each, {1 / cost:,.0f} messages/s on one core")


if __name__ == "__main__":
    main()
