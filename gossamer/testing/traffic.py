"""Publisher that numbers its messages and records those that the broker acknowledged."""

from __future__ import annotations

import asyncio
from itertools import count as numbers_from

from gossamer.errors import GossamerError
from gossamer.mqtt.client import MqttClient


class Flow:
    """Messages of one client to one topic, one after another, with a ``pause`` after each in seconds."""

    def __init__(
        self, publisher: MqttClient, topic: str, *, qos: int = 1, pause: float = 0.05, node: int = 0
    ) -> None:
        self.publisher = publisher
        self.node = node
        """Node of its publisher."""
        self.topic = topic
        self.qos = qos
        self.pause = pause
        self.sent: list[bytes] = []
        self.acknowledged: dict[bytes, float] = {}
        """Payload, and when it was acknowledged, in their order."""
        self._task: asyncio.Task[None] | None = None

    def start(self, count: int | None = None) -> Flow:
        """Publish so many, or until it is stopped or the connection is lost."""
        self._task = asyncio.create_task(self._run(count), name=f"flow {self.topic}")
        return self

    async def finish(self) -> None:
        """Wait for the last of them."""
        if self._task is not None:
            await self._task

    async def stop(self) -> None:
        """Publish no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, count: int | None) -> None:
        for number in numbers_from() if count is None else range(count):
            payload = b"%s %d" % (self.topic.encode(), number)
            self.sent.append(payload)
            try:
                await self.publisher.publish(self.topic, payload, qos=self.qos)
            except (GossamerError, TimeoutError):
                if not self.publisher.connected:
                    return
            else:
                self.acknowledged[payload] = asyncio.get_running_loop().time()
            await asyncio.sleep(self.pause)
