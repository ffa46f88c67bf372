"""How long a subscription takes until it is visible on every node: from SUBSCRIBE to SUBACK, on real nodes.

    python bench/subscribe.py --nodes 3 --count 1500

Starts a cluster of its own, connects one MQTT client to each node, and lets them subscribe in turns. SUBACK
is sent once every live node has applied the route.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time

from gossamer.mqtt.client import MqttClient
from gossamer.network import SystemNetwork

FREE_PORTS = ("--mqtt-port", "0", "--api-port", "0", "--gossip-port", "0", "--distribution-port", "0")


async def main(nodes: int, count: int, pause: float) -> None:
    with tempfile.TemporaryDirectory() as directory:
        command = (sys.executable, "-m", "gossamer.cli", "up", "--nodes", str(nodes), "--json")
        cluster = await asyncio.create_subprocess_exec(
            *command,
            *("--data-dir", directory, *FREE_PORTS),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            assert cluster.stdout is not None
            line = await cluster.stdout.readline()
            if not line:
                raise SystemExit("the cluster did not start; try gossamer up --nodes 3")
            facts = json.loads(line)
            took = await measure([node["ports"]["mqtt"] for node in facts["nodes"]], count, pause)
        finally:
            if cluster.returncode is None:
                cluster.terminate()
                await cluster.wait()
    took.sort()
    p50, p99 = took[count // 2], took[count * 99 // 100]
    print(f"SUBSCRIBE to SUBACK on {nodes} nodes: p50 {p50:.2f} ms, p99 {p99:.2f} ms, max {took[-1]:.2f} ms")


async def measure(ports: list[int], count: int, pause: float) -> list[float]:
    """Milliseconds of each subscription."""
    network = SystemNetwork()
    clients = [
        await MqttClient.connect(network, ("127.0.0.1", port), f"client{number}")
        for number, port in enumerate(ports)
    ]
    took = []
    for number in range(count):
        began = time.perf_counter()
        await clients[number % len(clients)].subscribe(f"site/{number}/+", qos=1)
        took.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(pause)
    for client in clients:
        await client.disconnect()
    return took


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--pause", type=float, default=0.004, help="seconds between two subscriptions")
    options = parser.parse_args()
    asyncio.run(main(options.nodes, options.count, options.pause))
