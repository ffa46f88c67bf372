"""What connections cost that never say CONNECT: memory, descriptors, and whether others are served.

    python bench/silent.py --count 100000

Starts a node with two listeners. At one of them ``count`` connections are made from many loopback addresses,
as fast as they come about; a third sends nothing, a third the first byte of CONNECT, a third half of it. They
stay until the node sends them away. At the other one a client connects, publishes and receives all the while.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import socket
import sys
import tempfile
import time
from pathlib import Path

import psutil

from gossamer.mqtt import encode
from gossamer.mqtt.client import MqttClient
from gossamer.mqtt.codec import packets as p
from gossamer.network import SystemNetwork

CONNECT = encode(p.Connect(client_id="never"), 4)
WORDS = (b"", CONNECT[:1], CONNECT[:6])
CONFIG = """
node: {{name: silent@127.0.0.1, cookie: silent, data_dir: {directory}}}
cluster: {{discovery: {{strategy: manual}}, port: 0}}
distribution: {{port: 0}}
api: {{enable: false}}
log: {{level: error}}
mqtt:
  auth: {{allow_anonymous: true}}
  server:
    listeners:
      - {{port: {attacked}, max_pending: {pending}}}
      - {{port: {served}}}
"""


class Silent(asyncio.Protocol):
    """One connection that says next to nothing."""

    open = made = 0

    def __init__(self, number: int) -> None:
        self.word = WORDS[number % 3]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        Silent.open += 1
        Silent.made += 1
        if self.word:
            transport.write(self.word)  # type: ignore[attr-defined]

    def connection_lost(self, exc: Exception | None) -> None:
        Silent.open -= 1


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


async def attack(port: int, count: int, room: int) -> None:
    loop = asyncio.get_running_loop()
    numbers = iter(range(count))

    async def some() -> None:
        for number in numbers:
            while Silent.open >= room:  # noqa: ASYNC110 - descriptors of this process
                await asyncio.sleep(0.01)
            # Every loopback address has 28,000 ports to call from.
            source = f"127.0.{number // 20_000 + 1}.1"
            with contextlib.suppress(OSError):
                await loop.create_connection(
                    lambda number=number: Silent(number), "127.0.0.1", port, local_addr=(source, 0)
                )

    await asyncio.gather(*(some() for _ in range(64)))


async def serve(port: int, waits: list[float]) -> None:
    """Connect, publish and receive, over and over; how long each round took."""
    network = SystemNetwork()
    while True:
        began = time.perf_counter()
        client = await MqttClient.connect(network, ("127.0.0.1", port), "honest")
        await client.subscribe("here", qos=1)
        await client.publish("here", b"x", qos=1)
        await client.disconnect()
        waits.append(time.perf_counter() - began)
        await asyncio.sleep(0.05)


async def main(count: int, pending: int, room: int) -> None:
    attacked, served = free_port(), free_port()
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "node.yaml"
        file.write_text(CONFIG.format(directory=directory, attacked=attacked, served=served, pending=pending))
        command = (sys.executable, "-m", "gossamer.cli", "start", "-c", str(file))
        node = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        try:
            assert node.stdout is not None
            if not await node.stdout.readline():
                raise SystemExit("the node did not start")
            await measure(psutil.Process(node.pid), attacked, served, count, room)
        finally:
            node.terminate()
            await node.wait()


async def measure(process: psutil.Process, attacked: int, served: int, count: int, room: int) -> None:
    waits: list[float] = []
    serving = asyncio.create_task(serve(served, waits))
    await asyncio.sleep(2)
    memory, descriptors = process.memory_info().rss, process.num_fds()
    most_memory, most_descriptors = memory, descriptors
    quiet = sorted(waits)[len(waits) // 2]
    waits.clear()
    began = time.perf_counter()
    attacking = asyncio.create_task(attack(attacked, count, room))
    while not attacking.done() or Silent.open:
        await asyncio.sleep(0.1)
        most_memory = max(most_memory, process.memory_info().rss)
        most_descriptors = max(most_descriptors, process.num_fds())
    took = time.perf_counter() - began
    serving.cancel()
    waits.sort()
    print(
        json.dumps(
            {
                "connections": Silent.made,
                "seconds": round(took, 1),
                "descriptors": {"before": descriptors, "most": most_descriptors, "after": process.num_fds()},
                "MiB": {
                    "before": memory >> 20,
                    "most": most_memory >> 20,
                    "after": process.memory_info().rss >> 20,
                },
                "client served meanwhile, ms": {
                    "quiet": round(quiet * 1000, 1),
                    "p50": round(waits[len(waits) // 2] * 1000, 1),
                    "worst": round(waits[-1] * 1000, 1),
                    "rounds": len(waits),
                },
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--pending", type=int, default=10_000, help="mqtt.server.listeners[].max_pending")
    parser.add_argument("--room", type=int, default=15_000, help="connections that this process keeps open")
    options = parser.parse_args()
    asyncio.run(main(options.count, options.pending, options.room))
