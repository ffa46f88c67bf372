"""A Python client as the recorder and back-pressure see it: who publishes, and each of its subscriptions.

A client is called by the identifier of its process, which is the same at whatever node it is attached. Each
of its subscriptions gets its own copy of a message, so each is a client of its own there, called by a number
behind that; what it was sent counts as delivered when it leaves for the client, and as acknowledged once the
client has said that it is done with it.

Rules: 1. Nothing is done for messages that are not recorded.  2. Who is here when recording begins is told
then: the fan-out knows its remote clients.  3. The session of one is its connection, and ends with it.  4.
The broker slows MQTT clients down by not reading from them; a Python client waits for its answer instead,
until nobody that gets its message is behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import gossamer.supervisor.thespian.messages as actors
from gossamer.gateway.messages import Publish
from gossamer.mqtt import Broker, Message, Subscription, compile_plan, is_recorded


class RemoteClient:
    """Remote client in the form of a session, which is what the flow recorder takes."""

    expiry = 0
    """Of its session, seconds."""
    version = 0
    """Of MQTT: it speaks none."""
    keep_alive = 0
    message_ids = None
    queue = ()

    def __init__(self, fanout: Any, client_id: str) -> None:
        self.client_id = client_id
        self.subscriptions: dict[str, tuple[Subscription, int | None]] = {}
        self._fanout = fanout
        self._flying: deque[tuple[int, int]] = deque()
        """Place and identifier of messages that the client is not done with."""
        fanout.remote_clients.add(self)
        if fanout.recorder is not None:
            fanout.recorder.connected(self, False)

    @property
    def channel(self) -> RemoteClient:
        """Its connection."""
        return self

    def subscribed(self, topic_filter: str, qos: int) -> None:
        """Every node knows that it wants this."""
        self.subscriptions[topic_filter] = (Subscription(topic_filter, qos), None)
        if self._fanout.recorder is not None:
            self._fanout.recorder.subscribed(self, (topic_filter,), None)

    def share(self, message_id: int) -> str | None:
        """The share group for which it gets a message right now."""
        recorder = self._fanout.recorder
        return None if recorder is None or not is_recorded(message_id) else recorder.share

    def sent(
        self, message_id: int, qos: int, retain: bool, share: str | None, stored: bool, place: int
    ) -> None:
        """A message leaves for the client, its ``place``-th; 0: nobody will say when it is done with it."""
        recorder = self._fanout.recorder
        if recorder is not None:
            recorder.sent(self, message_id, qos, retain, share, stored)
            if qos and place:
                self._flying.append((place, message_id))

    def taken(self, count: int) -> None:
        """The client is done with so many in all."""
        done: list[int] = []
        while self._flying and self._flying[0][0] <= count:
            done.append(self._flying.popleft()[1])
        if done and self._fanout.recorder is not None:
            self._fanout.recorder.acknowledged(self, done, "subscriber")

    def lost(self, message_id: int, reason: str) -> None:
        """The client will not get a message."""
        if is_recorded(message_id) and self._fanout.recorder is not None:
            self._fanout.recorder.lost(message_id, self, reason)

    def close(self, reason: str) -> None:
        """It is gone."""
        if self not in self._fanout.remote_clients:
            return
        self._fanout.remote_clients.discard(self)
        recorder = self._fanout.recorder
        if recorder is not None:
            if self.subscriptions:
                recorder.unsubscribed(self, list(self.subscriptions))
            recorder.disconnected(self, reason)
            recorder.ended(self, reason)


def bounded(qos: int) -> int:
    """Return what a client asks for, as QoS."""
    return min(max(qos, 0), 2)


def publish(
    broker: Broker,
    client: RemoteClient,
    wanted: Publish | actors.Publish,
    on_safe: Callable[[bool], None] | None = None,
) -> None:
    """Publish for ``client``, as :meth:`Broker.publish` does; without ``on_safe`` nobody waits for it.

    Raises:
        MqttProtocolError: the topic is none.
        UnicodeError: it cannot even be encoded.
    """
    qos = bounded(wanted.qos)
    message = Message(wanted.topic.encode(), wanted.payload, qos=qos, retain=wanted.retain)

    def safe(done: bool) -> None:
        recorder = broker.fanout.recorder
        if done and is_recorded(message.id) and recorder is not None:
            recorder.acknowledged(client, (message.id,), "publisher")
        if on_safe is not None:
            on_safe(done)

    broker.publishing.route(
        message, client_id=client.client_id, on_safe=safe if qos and on_safe is not None else None
    )


class Publisher:
    """One client to the broker's back-pressure, as publisher and as owner of its subscriptions."""

    unwritten = 0
    """Nothing waits in a socket."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._why = 0
        self._waiting: list[Callable[[], object]] = []

    def pause_reading(self, why: int) -> None:
        """The broker says: wait."""
        self._why |= why

    def resume_reading(self, why: int) -> None:
        """The broker says: go on."""
        self._why &= ~why
        if not self._why:
            waiting, self._waiting = self._waiting, []
            for then in waiting:
                then()

    def published(self, topic: str, then: Callable[[], object]) -> None:
        """Something went out on ``topic``: call ``then``, now or once the client may go on."""
        pressure = self._broker.fanout.pressure
        if pressure and not self._why:
            name = topic.encode()
            route: Any = self._broker.publishing.cache_get(name) or self._broker.publishing.resolve(name)
            plan = compile_plan(route)
            # One that is behind on its own messages is not made to wait: only it can help itself.
            pressure.hold_up(self, plan.sessions, plan.peers)
        if self._why:
            self._waiting.append(then)
        else:
            then()
