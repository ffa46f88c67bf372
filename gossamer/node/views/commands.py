"""Orders to a node: what is asked of it that is more than a call to one of its processes."""

from __future__ import annotations

import asyncio

from gossamer.api.model.cluster import KeyRequest
from gossamer.errors import UsageError, WrongValueError
from gossamer.gossip import Keys, Status, cluster_key
from gossamer.mqtt import MqttProtocolError, drain
from gossamer.node.parts import NodeParts

__all__ = [
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


async def publish(node: NodeParts, topic: str, payload: bytes, *, qos: int, retain: bool) -> tuple[int, bool]:
    """To how many subscribers here and nodes elsewhere it went, and whether those nodes have it.

    Raises:
        WrongValueError: ``topic`` is no topic name.
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
        raise WrongValueError(f"topic {topic[:100]!r}: {error}") from None
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
        UsageError: some cannot be used; what was read of them before stays.
    """
    if node.runtime.whereis(FILE_WATCH) is not None:
        refused = await node.runtime.call(FILE_WATCH, "look", timeout=RELOAD_WAIT)
        if refused:
            raise UsageError(f"refused, what was read before stays: {'; and '.join(refused)}")
    broker = node.broker
    items = (*broker.access.reloadable, *broker.certificates)
    return tuple(sorted({str(path) for item in items for path in item.files()}))


async def drain_node(node: NodeParts) -> str:
    """Send clients and sessions to the other nodes; what became of them.

    Raises:
        UsageError: there is no other node that takes clients.
    """
    others = [
        m
        for m in node.members.members()[1:]
        if m.status is Status.ONLINE and not m.left and "mqtt" in m.metadata.ports
    ]
    if not others:
        raise UsageError.about(node.name, "nobody to send clients to", "another node that is up with mqtt")
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
        WrongValueError: a key to install could be guessed.
    """
    request = Keys("list")
    if order is not None:
        text = order.key.get_secret_value()
        install = order.action == "install"
        if install and len(text) < SHORTEST_KEY:
            raise WrongValueError.about(
                "key",
                f"{len(text)} characters",
                f"{SHORTEST_KEY} or more; make one with `openssl rand -hex 32`",
            )
        request = Keys(order.action, cluster_key(text) if install else text)
    return request
