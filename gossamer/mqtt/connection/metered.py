"""A channel that is read from no faster than its listener allows.

Apart from the channel, so that only those pay who are metered: the publishes of a read are what it adds to
the hub's count. Whoever sent more than his due is not read from until it is paid off; nothing is lost, and
TCP tells the client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.mqtt.connection.channel import Channel, Service
from gossamer.mqtt.flow.backpressure import RATE
from gossamer.mqtt.flow.bucket import Bucket

if TYPE_CHECKING:
    from gossamer.mqtt.connection.entrance import Entrance
    from gossamer.mqtt.connection.shared import Shared

__all__ = ["MeteredChannel"]


class MeteredChannel(Channel):
    """Channel with a rate limit: ``rate`` messages a second, with bursts of as many."""

    __slots__ = ("_bucket",)

    def __init__(self, shared: Shared, service: Service, listener: Entrance, rate: float) -> None:
        super().__init__(shared, service, listener)
        self._bucket = Bucket(rate)

    def data_received(self, data: bytes) -> None:
        before = self.hub.received
        super().data_received(data)
        count = self.hub.received - before
        if count and self.is_up:
            wait = self._bucket.take(count, self.hub.now())
            if wait:
                self.hub.slowed += 1
                self.pause_reading(RATE)
                self.runtime.loop.call_later(wait, self.resume_reading, RATE)
