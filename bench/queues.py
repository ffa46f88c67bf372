"""What queues take: three nodes on one machine, each queue at a quorum, every append on disc before PUBACK.

    python bench/queues.py                    all rows, three rounds
    python bench/queues.py --rows append --seconds 10 --rounds 1
    python bench/queues.py --peers rabbitmq,nats      those beside, in turns: see ``queue_peers``

- *append*: ``--publishers`` clients at the first two nodes, each with one message of 256 B on the way at a
  time, no consumer: messages a second that were acknowledged, and what the nodes' processors had for each.
- *work*: the same, with four consumers at the third node, which settle by PUBACK: messages a second that were
  done, and what the nodes' processors had for each.
- *pace*: 1,000 messages a second: from publishing to the consumer's having it.
- *failover*: ``--waiting`` messages wait; the node that leads the group is killed (SIGKILL) while a consumer
  at another node works them off: seconds since the kill until it goes on.

Peers have the rows *append*, *work* and *pace*; their processes are not counted for *µs each*.

Medians of the rounds. Publishers and consumers are one process of this machine, on the same processors.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import time
from collections.abc import Callable

import uvloop
from brokers_peers import Running, nats, rabbitmq
from queue_peers import Amqp, Nats

from gossamer.mqtt.client import MqttClient
from gossamer.mqtt.codec import packets as p
from gossamer.mqtt.codec.properties import Properties
from gossamer.network import SystemNetwork

ROWS = ("append", "work", "pace", "failover")
FORMATS = {
    "append, acknowledged/s": ",.0f",
    "append, p50 ms": ".2f",
    "append, nodes' µs each": ",.0f",
    "work, done/s": ",.0f",
    "work, nodes' µs each": ",.0f",
    "pace, p50 ms": ".2f",
    "pace, p99 ms": ".2f",
    "failover, s": ".2f",
    "lost": ".0f",
    "twice": ".0f",
}
GROUP = "queues/default"
PAYLOAD = 256
CORES = "0,1"
"""Processors of the peers: those that everything has."""
Figures = dict[str, float]
PEERS = {"rabbitmq": (rabbitmq, Amqp), "nats": (nats, Nats)}


class Round:
    """One cluster."""

    def __init__(self, cluster: object, options: argparse.Namespace) -> None:
        self._cluster, self._options = cluster, options
        self._network = SystemNetwork()

    async def run(self) -> Figures:
        await self._ready()
        figures: Figures = {}
        for row in self._options.rows:
            figures |= await getattr(self, f"_{row}")()
        return figures

    def _groups(self, node: int = 0) -> list[dict]:
        return [one for one in self._cluster.get(node, "/api/v1/raft") if one["kind"] == GROUP]

    def _is_whole(self) -> bool:
        return any(sum(bool(one["voter"]) for one in group["members"]) == 3 for group in self._groups())

    async def _ready(self) -> None:
        """Wait until the group of the queues has three voters, and the queues are there."""
        await until(self._is_whole, 60, pause=0.5)
        await asyncio.sleep(3)

    async def _client(self, node: int, name: str) -> MqttClient:
        return await MqttClient.connect(self._network, ("127.0.0.1", self._cluster.mqtt[node]), name)

    async def _consumer(self, node: int, name: str, queue: str, *, settle: str = "puback") -> MqttClient:
        client = await self._client(node, name)
        user = (("consumer-group", "workers"), ("settle", settle))
        wanted = (p.Subscription(f"$queue/{queue}/#", 1),)
        packet = p.Subscribe(packet_id=1, subscriptions=wanted, properties=Properties(user=user))
        answer = await client.ask(packet, p.Suback, 1)
        if answer.reasons != (1,):
            raise RuntimeError(f"a consumer was refused: {answer}")
        return client

    async def _publish(self, queue: str, until: float) -> tuple[int, list[float]]:
        """Publish from all publishers, one message at a time each; return how many, and how long each
        took."""
        clients = [await self._client(n % 2, f"pub{n}") for n in range(self._options.publishers)]
        took: list[float] = []

        async def speak(number: int, client: MqttClient) -> None:
            at = 0
            while time.perf_counter() < until:
                begun = time.perf_counter()
                payload = f"{number}-{at} ".encode().ljust(PAYLOAD, b"x")
                await client.publish(f"$queue/{queue}/", payload, qos=1)
                took.append(time.perf_counter() - begun)
                at += 1

        await asyncio.gather(*(speak(n, client) for n, client in enumerate(clients)))
        for client in clients:
            await client.disconnect()
        return len(took), took

    async def _append(self) -> Figures:
        before, begun = self._processor(), time.perf_counter()
        count, took = await self._publish("appended", begun + self._options.seconds)
        seconds = time.perf_counter() - begun
        return {
            "append, acknowledged/s": count / seconds,
            "append, p50 ms": 1e3 * statistics.median(took),
            "append, nodes' µs each": 1e6 * (self._processor() - before) / count,
        }

    def _processor(self) -> float:
        from api import processor

        return sum(map(processor, self._cluster.pids))

    async def _work(self) -> Figures:
        workers = [await self._consumer(2, f"worker{n}", "worked") for n in range(4)]
        before = self._processor()
        begun = time.perf_counter()
        count, _ = await self._publish("worked", begun + self._options.seconds)
        got = lambda: sum(len(worker.messages) for worker in workers)  # noqa: E731
        await until(lambda: got() >= count, 60)
        seconds = time.perf_counter() - begun
        cpu = self._processor() - before
        payloads = [payload for worker in workers for payload in worker.payloads()]
        for worker in workers:
            await worker.disconnect()
        return {
            "work, done/s": count / seconds,
            "work, nodes' µs each": 1e6 * cpu / count,
            "lost": count - len(set(payloads)),
            "twice": len(payloads) - len(set(payloads)),
        }

    async def _pace(self) -> Figures:
        worker = await self._consumer(2, "paced", "paced")
        took: list[float] = []
        worker._taken = lambda message: took.append(time.perf_counter() - float(message.payload))
        speaker = await self._client(0, "pacer")
        begun = time.perf_counter()
        count = int(self._options.seconds * 1000)
        for number in range(count):
            await asyncio.sleep(begun + number / 1000 - time.perf_counter())
            speaker.post(b"$queue/paced/", repr(time.perf_counter()).encode(), qos=1)
        await until(lambda: len(took) >= count, 60)
        await worker.disconnect()
        took.sort()
        return {"pace, p50 ms": 1e3 * took[len(took) // 2], "pace, p99 ms": 1e3 * took[len(took) * 99 // 100]}

    async def _failover(self) -> Figures:
        await self._publish_many("waiting", self._options.waiting)
        leader = next(one["leader"] for one in self._groups())
        dying = next(n for n in range(3) if f"node{n + 1}@" in leader)
        worker = await self._consumer((dying + 1) % 3, "survivor", "waiting")
        await until(lambda: len(worker.messages) > 100, 30)
        with self._cluster.unwatched():
            os.kill(self._cluster.pids[dying], signal.SIGKILL)
            killed = time.perf_counter()
            # What was settled just before may still come.
            await asyncio.sleep(0.2)
            before = len(worker.messages)
            await until(lambda: len(worker.messages) > before + 200, 60)
            took = time.perf_counter() - killed
        worker.drop()
        return {"failover, s": took}

    async def _publish_many(self, queue: str, count: int) -> None:
        client = await self._client(0, "filler")
        sent = 0
        while sent < count:
            if client.post(f"$queue/{queue}/".encode(), b"x" * PAYLOAD, qos=1):
                sent += 1
            else:
                await asyncio.sleep(0.001)
        await until(lambda: not client._posted, 60)
        await client.disconnect()


class PeerRound:
    """One cluster of a peer; its queue is there once somebody has come to publish."""

    def __init__(self, running: Running, kind: type[Amqp | Nats], options: argparse.Namespace) -> None:
        self._running, self._kind, self._options = running, kind, options

    async def run(self) -> Figures:
        figures: Figures = {}
        for row in self._options.rows:
            if row != "failover":
                figures |= await getattr(self, f"_{row}")()
        return figures

    async def _speaker(self, node: int) -> Amqp | Nats:
        return await (await self._kind.connect(self._running.own[node])).speaks()

    async def _consumers(self, count: int, taken: Callable[[bytes], object]) -> list[Amqp | Nats]:
        await (await self._speaker(0)).close()
        return [await (await self._kind.connect(self._running.own[2])).consumes(taken) for _ in range(count)]

    async def _publish(self) -> tuple[int, float, list[float]]:
        """Publish from all publishers, one message at a time each; return how many, in how many seconds, and
        how long each took."""
        speakers = [await self._speaker(number % 2) for number in range(self._options.publishers)]
        took: list[float] = []
        begun = time.perf_counter()

        async def speak(speaker: Amqp | Nats) -> None:
            while (at := time.perf_counter()) < begun + self._options.seconds:
                await speaker.publish(b"x" * PAYLOAD)
                took.append(time.perf_counter() - at)

        await asyncio.gather(*map(speak, speakers))
        seconds = time.perf_counter() - begun
        for speaker in speakers:
            await speaker.close()
        return len(took), seconds, took

    async def _append(self) -> Figures:
        number, seconds, took = await self._publish()
        return {"append, acknowledged/s": number / seconds, "append, p50 ms": 1e3 * statistics.median(took)}

    async def _work(self) -> Figures:
        got = 0

        def taken(_payload: bytes) -> None:
            nonlocal got
            got += 1

        workers = await self._consumers(4, taken)
        await drained(lambda: got)
        got, begun = 0, time.perf_counter()
        number, _, _ = await self._publish()
        await until(lambda: got >= number, 60)
        seconds = time.perf_counter() - begun
        for worker in workers:
            await worker.close()
        return {"work, done/s": number / seconds, "lost": number - got}

    async def _pace(self) -> Figures:
        took: list[float] = []
        [worker] = await self._consumers(1, lambda data: took.append(time.perf_counter() - float(data)))
        speaker = await self._speaker(0)
        begun, number = time.perf_counter(), int(self._options.seconds * 1000)
        posted = []
        for at in range(number):
            await asyncio.sleep(begun + at / 1000 - time.perf_counter())
            posted.append(asyncio.ensure_future(speaker.publish(repr(time.perf_counter()).encode())))
        await until(lambda: len(took) >= number, 60)
        await asyncio.gather(*posted)
        await worker.close()
        await speaker.close()
        took.sort()
        return {"pace, p50 ms": 1e3 * took[len(took) // 2], "pace, p99 ms": 1e3 * took[len(took) * 99 // 100]}


async def drained(got: Callable[[], int]) -> None:
    """Wait until what an earlier row has left in the queue is gone."""
    before = -1
    while got() != before:
        before = got()
        await asyncio.sleep(1)


async def until(holds: Callable[[], bool], within: float, *, pause: float = 0.005) -> None:
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(pause)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=lambda text: text.split(","), default=list(ROWS))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--publishers", type=int, default=64)
    parser.add_argument("--waiting", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=lambda text: text.split(","), default=[])
    options = parser.parse_args()
    import api

    names = ("appended", "worked", "paced", "waiting")
    queues = {
        f"GOSSAMER_QUEUES__{at}": f"{{name: {name}, limits: {{max_depth: 10000000}}}}"
        for at, name in enumerate(names)
    }
    found: dict[str, list[Figures]] = {"gossamer": [], **{name: [] for name in options.peers}}
    for _ in range(options.rounds):
        with api.Cluster(3, **queues) as cluster:
            found["gossamer"].append(uvloop.run(Round(cluster, options).run()))
        for name in options.peers:
            start, kind = PEERS[name]
            running = start(CORES, nodes=3)
            try:
                found[name].append(uvloop.run(PeerRound(running, kind, options).run()))
            finally:
                running.stop()
    print(f"{'':28}" + "".join(f"{name:>12}" for name in found))
    for name, form in FORMATS.items():
        values = {who: [one[name] for one in rounds if name in one] for who, rounds in found.items()}
        if any(values.values()):
            cells = (format(statistics.median(all_), form) if all_ else "" for all_ in values.values())
            print(f"{name:28}" + "".join(f"{cell:>12}" for cell in cells))


if __name__ == "__main__":
    main()
