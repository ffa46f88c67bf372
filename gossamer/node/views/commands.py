"""Orders to a node: what is asked of it that is more than a call to one of its processes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gossamer.api.model.cluster import KeyRequest
from gossamer.errors import UsageError, WrongValueError
from gossamer.gossip import Keys, Status, cluster_key
from gossamer.mqtt import MqttProtocolError, drain
from gossamer.node.parts import NodeParts

__all__ = [
    "CannotPublishError",
    "NowhereToGoError",
    "ShortKeyError",
    "drain_node",
    "publish",
    "reload_files",
    "request_for_keys",
]

SAFE_WAIT = 10.0
"""Seconds that other nodes get to take a message over."""
RELOAD_WAIT = 15.0
FILE_WATCH = "mqtt_files"
SHORTEST_KEY = 16
"""Characters of a gossip key."""


class CannotPublishError(WrongValueError):
    """A message that nobody may publish."""

    def __init__(self, *, topic: str, reason: str) -> None:
        self.topic = topic
        super().__init__(f"topic {topic[:100]!r}: {reason}")


class ShortKeyError(WrongValueError):
    """A gossip key that could be guessed."""

    def __init__(self, *, got: int) -> None:
        self.got = got
        super().__init__(
            f"key: got {got} characters, expected {SHORTEST_KEY} or more; "
            "make one with `openssl rand -hex 32`"
        )


class ReloadRefusedError(UsageError):
    """Files that were to be read again cannot be used."""

    def __init__(self, *, refused: Sequence[str]) -> None:
        self.refused = tuple(refused)
        super().__init__(f"refused, what was read before stays: {'; and '.join(refused)}")


class NowhereToGoError(UsageError):
    """A node is to be drained, and no other one takes clients."""

    def __init__(self, *, name: str) -> None:
        self.name = name
        super().__init__(f"{name}: got nobody to send clients to, expected another node that is up with mqtt")


async def publish(node: NodeParts, topic: str, payload: bytes, *, qos: int, retain: bool) -> tuple[int, bool]:
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


async def reload_files(node: NodeParts) -> tuple[str, ...]:
    """Read certificates, passwords and access lists again if they changed; which files are looked at.

    Raises:
        ReloadRefusedError: some cannot be used; what was read of them before stays.
    """
    if node.runtime.whereis(FILE_WATCH) is not None:
        refused = await node.runtime.call(FILE_WATCH, "look", timeout=RELOAD_WAIT)
        if refused:
            raise ReloadRefusedError(refused=refused)
    broker = node.broker
    items = (*broker.access.reloadable, *broker.certificates)
    return tuple(sorted({str(path) for item in items for path in item.files()}))


async def drain_node(node: NodeParts) -> str:
    """Send clients and sessions to the other nodes; what became of them.

    Raises:
        NowhereToGoError: there is no other node that takes clients.
    """
    others = [
        m
        for m in node.members.members()[1:]
        if m.status is Status.ONLINE and not m.left and "mqtt" in m.metadata.ports
    ]
    if not others:
        raise NowhereToGoError(name=node.name)
    done = await node.runtime.run(
        drain,
        node.broker,
        references=[f"{m.address}:{m.metadata.ports['mqtt']}" for m in others],
        nodes=[m.name for m in others],
    )
    return (
        f"{node.name} drained: {done.clients} clients sent elsewhere, {done.moved} sessions moved, "
        f"{done.left} left"
    )


def request_for_keys(order: KeyRequest | None) -> Keys:
    """What gossip is asked for ``order``, or for the list where there is none.

    Raises:
        ShortKeyError: a key to install could be guessed.
    """
    request = Keys("list")
    if order is not None:
        text = order.key.get_secret_value()
        install = order.action == "install"
        if install and len(text) < SHORTEST_KEY:
            raise ShortKeyError(got=len(text))
        request = Keys(order.action, cluster_key(text) if install else text)
    return request
