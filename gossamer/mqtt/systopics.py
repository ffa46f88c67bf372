"""``$SYS/broker/…``: counts of this node as messages.

They are published every interval, and only to topics with a subscriber on this node: without one a topic
costs one look-up. They are of the node that the subscriber is connected to and are not forwarded: another
node's counts under the same names would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from gossamer import __version__
from gossamer.mqtt.broker import Broker
from gossamer.mqtt.messages.message import Message
from gossamer.supervisor import GenServer, self_pid, send_after


class SysTopics(GenServer):
    """Publisher of ``$SYS/broker/…`` at every ``sys_interval``; the message ``"now"`` publishes at once."""

    async def init(self, broker: Broker) -> None:
        self._broker = broker
        self._interval = broker.config.sys_interval or 0.0
        self._started = broker.fanout.now()
        self._max_clients = 0
        send_after(self._interval, self_pid(), "tick")

    async def handle_info(self, message: object) -> None:
        if message == "tick":
            send_after(self._interval, self_pid(), "tick")
            self._publish()
        elif message == "now":
            self._publish()
        else:
            await super().handle_info(message)

    def _publish(self) -> None:
        broker = self._broker
        for name, value in self._values():
            topic = f"$SYS/broker/{name}".encode()
            route = broker.publishing.cache_get(topic) or broker.publishing.resolve(topic)
            if route.deliveries:
                broker.fanout.message(route, Message(topic, str(value).encode()))

    def _values(self) -> Iterator[tuple[str, object]]:
        broker = self._broker
        fanout = broker.fanout
        connected = sum(session.channel is not None for session in broker.sessions.values())
        self._max_clients = max(self._max_clients, connected)
        yield "version", f"gossamer {__version__}"
        yield "uptime", f"{int(fanout.now() - self._started)} seconds"
        yield "clients/connected", connected
        yield "clients/disconnected", len(broker.sessions) - connected
        yield "clients/total", len(broker.sessions)
        yield "clients/maximum", self._max_clients
        yield "connections/open", len(broker.channels)
        yield "subscriptions/count", sum(len(session.subscriptions) for session in broker.sessions.values())
        yield "retained messages/count", len(broker.retained)
        yield "publish/messages/received", fanout.received - broker.ingest.messages
        yield "publish/messages/sent", fanout.sent
        yield "publish/messages/dropped", sum(fanout.drops.values())
        yield "bytes/sent", fanout.bytes_sent
        yield "queued/bytes", fanout.pressure.queued
