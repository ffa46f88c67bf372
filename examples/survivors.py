"""Jobs that survive: two workers and an accountant, while the node of one of them is killed with kill -9.

$ python examples/survivors.py
three nodes are there, and two workers
node of a worker killed
40 orders are done, and 1 is a dead letter: nobody can pack it
the accountant has counted each once: 41 orders of 820 in all

The nodes are processes of this machine, with data in a directory that is removed at the end. The orders are
in a queue, which two of three nodes have on disc before a publisher is answered; the accountant is a
persistent actor, which runs on one node and goes on at another.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import tempfile
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import structlog

from gossamer import ChildSpec, Client, PersistentActor, RejectJob, Reply
from gossamer.queues import UnknownQueueError
from gossamer.supervisor import CallFailed

ORDERS = 41
QUEUES = [{"name": "orders"}]


class Accountant(PersistentActor):
    """Counts orders, and what they cost. Each changes its state once, whatever is killed."""

    async def first_state(self):
        return [0, 0]

    async def handle_message(self, message, state):
        count, total = state
        return [count + 1, total + int(message.payload)]

    async def handle_call(self, request, caller):
        return Reply(await self.current())


def application(node):
    """What `node.applications` names: it runs on every node, and one of them is given orders."""
    start = partial(Accountant.start_link, "orders", group="accountant", name="accountant")
    return [ChildSpec("accountant", start)]


async def work(orders, done):
    """Pack orders, until it is cancelled."""
    async for job in orders:
        async with job:
            if job.payload == b"13":
                raise RejectJob("nobody can pack it")
            await asyncio.sleep(0.05)
            # A set: an order whose worker was cut off is packed again.
            done.add(job.payload)


@asynccontextmanager
async def nodes(directory):
    """Three nodes, and the path of a file that says where they are."""
    ports = [f"--{kind}-port=0" for kind in ("mqtt", "api", "gossip", "distribution", "ws")]
    settings = {
        "GOSSAMER_NODE__APPLICATIONS": json.dumps(["survivors:application"]),
        "GOSSAMER_QUEUES": json.dumps(QUEUES),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
    }
    up = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gossamer.cli", "up", "--nodes", "3", "--data-dir", directory, *ports),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **settings},
    )
    try:
        await up.stdout.readline()
        yield Path(directory) / "cluster.json"
    finally:
        up.send_signal(signal.SIGINT)
        await up.communicate()


async def joined(consume):
    """A consumer of a queue, once that is there. A new cluster makes its queues once three nodes have met,
    and the first dead letter makes the queue of dead letters."""
    while True:
        consumer = consume()
        try:
            await consumer.join()
            return consumer
        except UnknownQueueError:
            await asyncio.sleep(0.5)


async def until(holds):
    while not holds():  # noqa: ASYNC110 - workers tell nobody
        await asyncio.sleep(0.01)


async def main(directory):
    async with nodes(directory) as facts, Client(facts) as shop, Client(facts) as one, Client(facts) as two:
        packers = {"group": "packers", "in_flight": 8}
        consuming = [partial(client.queue("orders").consume, **packers) for client in (one, two)]
        done, consumers = set(), [await joined(consume) for consume in consuming]
        print("three nodes are there, and two workers", flush=True)
        queue = shop.queue("orders")
        await asyncio.gather(*(queue.publish(b"%d" % number) for number in range(ORDERS)))
        workers = [asyncio.create_task(work(orders, done)) for orders in consumers]
        await until(lambda: len(done) == 10)
        victim = one.attached_to
        pids = {node["name"]: node["pid"] for node in json.loads(facts.read_text())["nodes"]}
        os.kill(pids[victim], signal.SIGKILL)
        print("node of a worker killed", flush=True)
        await until(lambda: len(done) == ORDERS - 1)
        dead = await anext(await joined(shop.queue("orders.dlq").consume))
        reason = dead.note.rpartition(": ")[2]
        print(f"{len(done)} orders are done, and 1 is a dead letter: {reason}", flush=True)
        count = 0
        while count < ORDERS:
            try:
                count, total = await shop.call("accountant", "how much?")
            except CallFailed:
                # The node of the client, or the accountant there, has just been started again.
                await asyncio.sleep(0.5)
        print(f"the accountant has counted each once: {count} orders of {total} in all")
        for worker in workers:
            worker.cancel()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(place))
