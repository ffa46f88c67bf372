"""Application of a node: raises a counter of a quorum for ever, and notes each step that was acknowledged.

Lines ``begun ended node value`` go to the file in the environment's ``COUNTS``, in seconds of the machine's
clock.
"""

import asyncio
import os
import random
import time

from gossamer.errors import GossamerError
from gossamer.mnesia_like import QuorumTable
from gossamer.supervisor import ChildSpec, Runtime, spawn_link

PAUSE = 0.1


async def count():
    table, node = QuorumTable("counters"), Runtime.current().node
    file = os.open(os.environ["COUNTS"], os.O_WRONLY | os.O_APPEND)
    while True:
        await asyncio.sleep(random.uniform(0, PAUSE))
        begun = time.monotonic()
        try:
            value = await table.read("n", 0)
            if value == 0:
                raised = await table.insert_new("n", 1)
            else:
                raised = await table.replace("n", value, value + 1)
        except GossamerError:
            # It may be done or not; the next read shows it.
            continue
        if raised:
            os.write(file, f"{begun} {time.monotonic()} {node} {value + 1}\n".encode())


async def start():
    return spawn_link(count, label="counter")


def children(_node):
    return [ChildSpec("counter", start)]
