"""What queues cost while nothing happens: processor of three nodes that have 1,000 queues in 10 groups.

    python bench/queues_idle.py                          with none, with 1,000, and with a message in each
    python bench/queues_idle.py --queues 100 --groups 1

A node's processor time over ``--seconds``, in per cent of one core; other people's load does not change it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time

import api
import uvloop

from gossamer.mqtt.client import MqttClient
from gossamer.network import SystemNetwork


def declared(queues: int, groups: int) -> str:
    """The queues, as the environment has them."""
    names = [(f"q{n}", f"g{n % groups}") for n in range(queues)]
    return json.dumps([{"name": name, "replication": {"group": group}} for name, group in names])


async def settled(cluster: api.Cluster, queues: int, groups: int) -> None:
    """Wait until all queues are there, and leaders have been handed over."""
    async with asyncio.timeout(300):
        while True:
            kinds = [one for one in cluster.get(0, "/api/v1/raft") if one["kind"].startswith("queues/g")]
            voters = [sum(bool(one["voter"]) for one in group["members"]) for group in kinds]
            if not queues or (len(kinds) == groups and set(voters) == {3}):
                found = cluster.get(0, "/api/v1/queues?limit=1000") if queues else []
                if len(found) >= min(queues, 1000):
                    break
            await asyncio.sleep(2)
    await asyncio.sleep(30)


async def filled(cluster: api.Cluster, queues: int) -> None:
    """Put a message into each queue."""
    client = await MqttClient.connect(SystemNetwork(), ("127.0.0.1", cluster.mqtt[0]), "filler")
    for number in range(queues):
        await client.publish(f"$queue/q{number}/", b"x", qos=1, timeout=60)
    await client.disconnect()


def cost(cluster: api.Cluster, seconds: float) -> list[float]:
    """Per cent of a core that each node has."""
    before, begun = [api.processor(pid) for pid in cluster.pids], time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - begun
    return [100 * (api.processor(pid) - had) / took for pid, had in zip(cluster.pids, before, strict=True)]


def main() -> None:
    """Print what each node had."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    for queues in (0, options.queues):
        with api.Cluster(3, GOSSAMER_QUEUES=declared(queues, options.groups)) as cluster:
            uvloop.run(settled(cluster, queues, options.groups))
            _print(f"{queues} queues, empty", cost(cluster, options.seconds))
            if queues:
                uvloop.run(filled(cluster, queues))
                _print(f"{queues} queues, a message in each", cost(cluster, options.seconds))


def _print(what: str, found: list[float]) -> None:
    print(f"{what:36}{'  '.join(f'{one:.2f} %' for one in found)}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("GOSSAMER_LOG__LEVEL", "error")
    main()
