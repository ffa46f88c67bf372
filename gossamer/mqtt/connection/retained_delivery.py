"""Retained messages: the last one of each topic that asked for it, and how a new subscriber gets them.

:class:`Retained` is what the broker asks of a store; :class:`LocalRetained` is one node's own, and
``retained_cluster`` has the one that all nodes share.

Rules: 1. Thousands of retained messages are sent in steps, :data:`STEP` a turn of the loop, and no faster
than the client takes them.  2. A step looks a topic up when its turn has come: what is sent is what is
retained *then*, never what was retained when the walk began.  3. What another node must be asked for is
sent when it comes; nothing else waits for it.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING

from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.publish.retained import Retained

if TYPE_CHECKING:
    from gossamer.mqtt.connection.channel import Channel

__all__ = ["RetainedDelivery"]

STEP = 200
"""Messages a turn."""
PATIENCE = 0.05
"""Seconds between looks at a client that does not take what it is sent."""
FETCHES = 16
"""How many are fetched from other nodes at the same time, for one subscriber."""

Wanted = list[tuple[str, int, tuple[int, ...]]]
"""Filter, QoS and subscription identifiers."""


class RetainedDelivery:
    """Sends one SUBSCRIBE's retained messages; see the module."""

    __slots__ = ("_channel", "_far", "_items", "_store")

    def __init__(self, channel: Channel, store: Retained, wanted: Wanted) -> None:
        self._channel = channel
        self._store = store
        self._items = (
            (topic, qos, identifiers)
            for topic_filter, qos, identifiers in wanted
            for topic in store.topics(topic_filter)
        )
        self._far: list[tuple[str, int, tuple[int, ...]]] = []

    def step(self) -> None:
        """Send some, and see to it that the rest is sent."""
        channel = self._channel
        if not channel.is_up:
            return
        try:
            self._step()
        except Exception as error:  # noqa: BLE001 - the loop's own handler would only print it
            channel.crash(error)

    def _step(self) -> None:
        channel = self._channel
        session = channel.session
        loop = channel.runtime.loop
        behind = session.queued_bytes > channel.hub.pressure.congested_at
        if channel.write_full or behind or len(session.queue) * 4 > session.max_queued:
            loop.call_later(PATIENCE, self.step)
            return
        count = 0
        for topic, qos, identifiers in islice(self._items, STEP):
            count += 1
            found = self._store.get(topic)
            if isinstance(found, Message):
                session.take(
                    found, qos=min(qos, found.qos), retain=True, identifiers=identifiers, stored=True
                )
            elif found is not None:
                self._far.append((topic, qos, identifiers))
        if count == STEP:
            loop.call_soon(self.step)
        elif self._far:
            channel.runtime.spawn(self._fetch_all, label="mqtt_retained", link_to=channel.pid)

    async def _fetch_all(self) -> None:
        waiting = iter(self._far)

        async def fetch() -> None:
            for topic, qos, identifiers in waiting:
                message = self._store.get(topic)
                if message is not None and not isinstance(message, Message):
                    message = await message()
                channel = self._channel
                if not channel.is_up:
                    return
                if message is not None:
                    channel.session.take(
                        message,
                        qos=min(qos, message.qos),
                        retain=True,
                        identifiers=identifiers,
                        stored=True,
                    )

        await asyncio.gather(*(fetch() for _ in range(min(FETCHES, len(self._far)))))
