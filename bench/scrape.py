"""What one scrape of ``/metrics`` costs the loop of a node with many clients.

``python bench/scrape.py [CLIENTS]``: a node in this process, its clients in another. The time of a scrape is
all of the loop's, since nothing else happens; the longest turn is the longest gap in the turns of a task that
does nothing; both in processor time, so that what else the machine does is left out. Then one of the clients
publishes to itself, 500 times a second, in turns with and without a scrape every :data:`EVERY` seconds: how
long until the message is there, by the clock.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import sys
import time
from multiprocessing.connection import Connection

import structlog
import uvloop

from gossamer.api import Exposition
from gossamer.config import config_from
from gossamer.node import Node
from gossamer.supervisor import tune_collector

CONFIG = {
    "cluster": {"port": 0},
    "distribution": {"port": 0},
    "api": {"port": 0},
    "mqtt": {"server": {"listeners": [{"type": "tcp", "port": 0}]}, "auth": {"allow_anonymous": True}},
}

EVERY = 0.2
"""Seconds; Prometheus asks every 15."""
PACE = 0.002
ROUND = 1_000
ROUNDS = 3
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
PUBLISH = b"\x30\x0a\0\3t/0hello"


def clients(port: int, many: int, told: Connection) -> None:
    """``many`` clients of MQTT 3.1.1 that subscribe to a topic each and stay; ``told`` asks for rounds."""

    async def one(number: int) -> Pair:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        name = f"c{number}".encode()
        body = b"\0\4MQTT\4\2\0\0" + len(name).to_bytes(2, "big") + name
        topic = f"t/{number}".encode()
        wanted = b"\0\1" + len(topic).to_bytes(2, "big") + topic + b"\1"
        writer.write(bytes((0x10, len(body))) + body + bytes((0x82, len(wanted))) + wanted)
        await reader.readexactly(4 + 5)
        return reader, writer

    async def there_and_back(pair: Pair) -> float:
        reader, writer = pair
        begun = time.perf_counter()
        writer.write(PUBLISH)
        await reader.readexactly(len(PUBLISH))
        return time.perf_counter() - begun

    async def main() -> None:
        held: list[Pair] = []
        for start in range(0, many, 200):
            held += await asyncio.gather(*(one(n) for n in range(start, min(many, start + 200))))
        told.send(None)
        while await asyncio.to_thread(told.recv):
            took = []
            for _ in range(ROUND):
                took.append(await there_and_back(held[0]))
                await asyncio.sleep(PACE)
            told.send(took)

    uvloop.run(main())


async def measure(many: int) -> None:
    node = Node(config_from(CONFIG), creation=1, cookie="a cookie for this bench")
    await node.start()
    context = multiprocessing.get_context("spawn")
    told, theirs = context.Pipe()
    child = context.Process(target=clients, args=(node.ports["mqtt"], many, theirs), daemon=True)
    child.start()
    try:
        await asyncio.to_thread(told.recv)
        tune_collector()
        page = Exposition(node.view)
        size = len(await page.render())
        times, gaps = [], []
        for _ in range(20):
            await asyncio.sleep(0.05)
            begun = time.thread_time()
            await page.render()
            times.append(time.thread_time() - begun)
        for _ in range(20):
            await asyncio.sleep(0.05)
            gaps.append(await longest_turn(page))
        print(
            f"{node.broker.stats()['connections']} clients, {size / 1000:.0f} kB: a scrape takes "
            f"{1000 * statistics.median(times):.1f} ms (worst {1000 * max(times):.1f}), longest turn "
            f"{1000 * statistics.median(gaps):.1f} ms (worst {1000 * max(gaps):.1f})"
        )
        quiet: list[float] = []
        asked: list[float] = []
        for _ in range(ROUNDS):
            quiet += await publishes(told, None)
            asked += await publishes(told, page)
        for what, found in (("no scrapes", quiet), (f"one each {EVERY} s", asked)):
            cuts = statistics.quantiles(found, n=1000)
            print(
                f"publish to subscriber, {what}: median {1000 * cuts[499]:.2f} ms, "
                f"p99 {1000 * cuts[989]:.2f}, p99.9 {1000 * cuts[998]:.2f}"
            )
    finally:
        child.kill()
        child.join()
        await node.stop()


async def publishes(told: Connection, page: Exposition | None) -> list[float]:
    """How long each message of a round took; ``page`` is asked for meanwhile."""
    told.send(True)
    answer = asyncio.ensure_future(asyncio.to_thread(told.recv))
    while page is not None and not answer.done():
        await page.render()
        await asyncio.wait([answer], timeout=EVERY)
    found: list[float] = await answer
    return found


async def longest_turn(page: Exposition) -> float:
    scrape = asyncio.ensure_future(page.render())
    longest, before = 0.0, time.thread_time()
    while not scrape.done():
        await asyncio.sleep(0)
        now = time.thread_time()
        longest, before = max(longest, now - before), now
    return longest


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    uvloop.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
