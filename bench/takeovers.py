"""A storm of takeovers: how fast a thousand clients move from one node to another, sessions and all.

    python bench/takeovers.py                      1,000 clients, 10 queued messages each
    python bench/takeovers.py --clients 200 --queued 100

Two nodes of a real cluster. Every client connects to the first with a persistent session, subscribes, and
goes; messages are queued for it; then all come to the second at once. What is timed is from the first CONNECT
there to the last CONNACK, which must say that the session is present, and to the last queued message.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gossamer.mqtt.client import MqttClient
from gossamer.network import SystemNetwork


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


async def storm(first: int, second: int, clients: int, queued: int) -> None:
    network = SystemNetwork()
    names = [f"mover{number}" for number in range(clients)]

    async def enter(name: str, port: int, *, clean: bool) -> MqttClient:
        return await MqttClient.connect(
            network, ("127.0.0.1", port), name, clean_start=clean, session_expiry=600, timeout=120
        )

    for name in names:
        client = await enter(name, first, clean=True)
        await client.subscribe(f"t/{name}", "all", qos=1)
        await client.disconnect()
    speaker = await enter("speaker", first, clean=True)
    for number in range(queued):
        await speaker.publish("all", b"%d" % number, qos=1)
    times: list[float] = []

    async def move(name: str) -> MqttClient:
        begun = time.perf_counter()
        client = await enter(name, second, clean=False)
        times.append(time.perf_counter() - begun)
        return client

    begun = time.perf_counter()
    moved = await asyncio.gather(*map(move, names))
    connected = time.perf_counter() - begun
    async with asyncio.timeout(60):
        while any(len(client.messages) < queued for client in moved):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    delivered = time.perf_counter() - begun
    present = sum(client.session_present for client in moved)
    whole = sum(client.payloads() == [b"%d" % number for number in range(queued)] for client in moved)
    print(
        f"{clients} clients, {queued} queued each: all connected in {connected:.2f} s "
        f"({clients / connected:,.0f}/s), CONNACK p50 {percentile(times, 0.5):.2f} s p99 "
        f"{percentile(times, 0.99):.2f} s, all delivered in {delivered:.2f} s; "
        f"session present {present}, whole and in order {whole}"
    )
    for client in (*moved, speaker):
        client.drop()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--queued", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        ports = [f"--{name}-port" for name in ("mqtt", "api", "gossip", "distribution")]
        command = [sys.executable, "-m", "gossamer.cli", "up", "--nodes", "2", "--json"]
        command += ["--data-dir", str(Path(directory) / "data"), *(x for port in ports for x in (port, "0"))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as cluster:
            assert cluster.stdout is not None
            first, second = (n["ports"]["mqtt"] for n in json.loads(cluster.stdout.readline())["nodes"])
            try:
                asyncio.run(storm(first, second, options.clients, options.queued))
            finally:
                cluster.terminate()


if __name__ == "__main__":
    main()
