"""Traffic through a simulated cluster, and what must be true of it afterwards."""

import asyncio
from collections import Counter

from gossamer.errors import GossamerError


class Flow:
    """One publisher that numbers its messages, and subscribers that must get them."""

    def __init__(self, publisher, topic, *, qos=1, pause=0.05):
        self.publisher = publisher
        self.topic = topic
        self.qos = qos
        self.pause = pause
        self.sent = []
        self.acknowledged = []
        self._task = None

    def start(self, count=1_000_000):
        self._task = asyncio.create_task(self._run(count), name=f"flow {self.topic}")
        return self

    async def _run(self, count):
        for number in range(count):
            payload = b"%s %d" % (self.topic.encode(), number)
            self.sent.append(payload)
            try:
                await self.publisher.publish(self.topic, payload, qos=self.qos)
            except (GossamerError, TimeoutError):
                if not self.publisher.connected:
                    return
            else:
                self.acknowledged.append(payload)
            await asyncio.sleep(self.pause)

    async def finish(self):
        await self._task

    async def stop(self):
        self._task.cancel()
        await asyncio.wait([self._task])

    def lost_by(self, subscriber):
        """Acknowledged to the publisher, never delivered to the subscriber."""
        got = set(subscriber.payloads())
        return [payload for payload in self.acknowledged if payload not in got]


def doubled(subscriber):
    """Payloads that were delivered more than once."""
    return [payload for payload, count in Counter(subscriber.payloads()).items() if count > 1]


def in_order(subscriber, topic):
    """Do the first deliveries of a topic come in the order of their numbers?"""
    numbers = [
        int(p.rsplit(b" ", 1)[1]) for p in subscriber.payloads() if p.startswith(topic.encode() + b" ")
    ]
    first = list(dict.fromkeys(numbers))
    return first == sorted(first)


async def reaches(cluster, source, target, *, within=5.0):
    """Does a message published at one node come out at another?"""
    topic = f"probe/{source}/{target}/{cluster.sim.loop.time()}"
    listener = await cluster.client(target)
    await listener.subscribe(topic, qos=1)
    speaker = await cluster.client(source)
    await speaker.publish(topic, b"?", qos=1)
    await asyncio.sleep(within)
    arrived = bool(listener.messages)
    await listener.disconnect()
    await speaker.disconnect()
    return arrived
