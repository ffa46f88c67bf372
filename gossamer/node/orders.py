"""Orders to the broker of a node that do not come from MQTT."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gossamer.errors import UsageError
from gossamer.mqtt import MqttProtocolError

if TYPE_CHECKING:
    from gossamer.node.node import Node

__all__ = ["CannotPublishError", "publish", "reload_files"]

SAFE_WAIT = 10.0
"""Seconds that other nodes get to take a message over."""
RELOAD_WAIT = 15.0
FILE_WATCH = "mqtt_files"


class CannotPublishError(UsageError):
    """A message that nobody may publish."""

    def __init__(self, *, topic: str, reason: str) -> None:
        self.topic = topic
        super().__init__(f"topic {topic[:100]!r}: {reason}")


async def publish(node: Node, topic: str, payload: bytes, *, qos: int, retain: bool) -> tuple[int, bool]:
    """To how many subscribers here and nodes elsewhere it went, and whether those nodes have it.

    Raises:
        CannotPublishError: ``topic`` is no topic name.
    """
    safe: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def on_safe(done: bool) -> None:
        if not safe.done():
            safe.set_result(done)

    try:
        receivers = node.broker.publish(
            topic, payload, qos=qos, retain=retain, on_safe=on_safe if qos else None
        )
    except MqttProtocolError as error:
        raise CannotPublishError(topic=topic, reason=str(error)) from None
    if not qos:
        return receivers, True
    try:
        async with asyncio.timeout(SAFE_WAIT):
            return receivers, await safe
    except TimeoutError:
        return receivers, False


async def reload_files(node: Node) -> tuple[str, ...]:
    """Read certificates, passwords and access lists again if they changed; which files are looked at."""
    if node.runtime.whereis(FILE_WATCH) is not None:
        await node.runtime.call(FILE_WATCH, "look", timeout=RELOAD_WAIT)
    broker = node.broker
    items = (*broker.access.reloadable, *broker.certificates)
    return tuple(sorted({str(path) for item in items for path in item.files()}))
