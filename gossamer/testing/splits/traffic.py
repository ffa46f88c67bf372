"""A publisher that numbers its messages and remembers which the broker took for good."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gossamer.errors import GossamerError
from gossamer.mqtt.client import MqttClient

__all__ = ["Flow"]


class Flow:
    """Messages of one client of ``node`` to one topic, one after another."""

    def __init__(
        self, publisher: MqttClient, node: int, topic: str, qos: int, time: Callable[[], float]
    ) -> None:
        self.node = node
        self.topic = topic
        self.qos = qos
        self.sent: list[bytes] = []
        self.acknowledged: dict[bytes, float] = {}
        """Payload, and when it was acknowledged."""
        self._publisher = publisher
        self._time = time
        self._task: asyncio.Task[None] | None = None

    def start(self, *, pause: float) -> None:
        """Publish until it is stopped, or the connection is lost."""
        self._task = asyncio.create_task(self._run(pause), name=f"flow {self.topic}")

    async def stop(self) -> None:
        """Publish no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _run(self, pause: float) -> None:
        count = 0
        while self._publisher.connected:
            count += 1
            payload = f"{self.topic} {count}".encode()
            self.sent.append(payload)
            try:
                await self._publisher.publish(self.topic, payload, qos=self.qos)
            except (GossamerError, TimeoutError):
                return
            self.acknowledged[payload] = self._time()
            await asyncio.sleep(pause)
