"""Consensus without its network: three replicas in one process, and the write-ahead log on this disc.

    python bench/raft.py [--size 256] [--batch 64] [--turns 300]

``replicas``: entries a second of one processor that three replicas commit, messages encoded and decoded,
nothing on disc. ``log``: entries a second that one node writes, a frame and a sync for each batch.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from random import Random

from gossamer.raft import (
    DiscDirectory,
    Entry,
    HardState,
    Log,
    Membership,
    Message,
    Record,
    Replica,
    Snapshot,
    WriteAheadLog,
    decode,
    encode,
)

NUMBERS = (1, 2, 3)


def replicas(size: int, batch: int, turns: int) -> float:
    """Commit batches, one after the other; entries a second of one processor."""
    first = Snapshot(0, 0, Membership(NUMBERS))
    group = {
        number: Replica(number, Log(first), random=Random(number), clock=time.monotonic) for number in NUMBERS
    }
    on_their_way: list[Message] = []

    def settle() -> None:
        while True:
            for replica in group.values():
                while (ready := replica.ready()) is not None:
                    on_their_way.extend([*ready.messages, *ready.promises])
                    replica.advance(ready)
            if not on_their_way:
                return
            arrived = [decode(encode(message)) for message in on_their_way]
            on_their_way.clear()
            for message in arrived:
                group[message.to].step(message)

    group[1].campaign()
    settle()
    begun = time.process_time()
    for _ in range(turns):
        group[1].propose([os.urandom(size) for _ in range(batch)])
        settle()
    taken = time.process_time() - begun
    assert all(replica.log.committed == batch * turns + 1 for replica in group.values())
    return batch * turns / taken


def log(size: int, batch: int, turns: int) -> tuple[float, float, float]:
    """Write batches; entries a second, seconds and processor seconds of a write."""
    with tempfile.TemporaryDirectory(dir=".") as directory:
        written = WriteAheadLog(DiscDirectory(Path(directory)))
        entries = [Entry(index, 1, os.urandom(size)) for index in range(1, batch * turns + 1)]
        begun, used = time.perf_counter(), time.process_time()
        for place in range(0, len(entries), batch):
            record = Record(1, HardState(1, 1, place), None, entries[place : place + batch])
            written.write([record], sync=True)
        taken, used = time.perf_counter() - begun, time.process_time() - used
        written.close()
    return len(entries) / taken, taken / turns, used / turns


def main() -> None:
    """Print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--turns", type=int, default=300)
    given = parser.parse_args()
    rate, wall, used = log(given.size, given.batch, given.turns)
    report = {
        "replicas_entries_per_s": round(replicas(given.size, given.batch, given.turns)),
        "log_entries_per_s": round(rate),
        "log_write_ms": round(wall * 1e3, 2),
        "log_write_cpu_ms": round(used * 1e3, 2),
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
