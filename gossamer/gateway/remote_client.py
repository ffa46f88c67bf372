"""A Python client for the flow recorder and for back-pressure: as publisher, and for each subscription.

The client identifier is the pid of its process, the same at whatever node it is attached. Each of its
subscriptions gets its own copy of a message, so each is a client of its own for the recorder, with a number
behind the pid; a message counts as delivered when it is sent, and as acknowledged once the client has taken
it.

Rules: 1. Nothing is done for messages that are not recorded.  2. When recording begins, the clients that are
attached are reported: the fan-out has their list.  3. Its session is its connection, and ends with it.  4.
The broker slows MQTT clients down by not reading from them; a Python client gets its answer late instead,
when no receiver of its message is behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import gossamer.supervisor.thespian.messages as actors
from gossamer.gateway.messages import Publish
from gossamer.mqtt import Broker, Message, Subscription, check_topic_name, compile_plan, is_recorded


class RemoteClient:
    """Remote client with the attributes of a session that the flow recorder reads."""

    expiry = 0
    """Session expiry in seconds."""
    version = 0
    """MQTT version: none."""
    keep_alive = 0
    message_ids = None
    queue = ()

    def __init__(self, fanout: Any, client_id: str) -> None:
        self.client_id = client_id
        self.subscriptions: dict[str, tuple[Subscription, int | None]] = {}
        self._fanout = fanout
        self._flying: deque[tuple[int, int]] = deque()
        """Place and id of messages that the client has not taken."""
        fanout.remote_clients.add(self)
        if fanout.recorder is not None:
            fanout.recorder.connected(self, False)

    @property
    def channel(self) -> RemoteClient:
        """The client itself, as its connection."""
        return self

    def subscribed(self, topic_filter: str, qos: int) -> None:
        """Note and report a subscription of which every node has the route."""
        self.subscriptions[topic_filter] = (Subscription(topic_filter, qos), None)
        if self._fanout.recorder is not None:
            self._fanout.recorder.subscribed(self, (topic_filter,), None)

    def share(self, message_id: int) -> str | None:
        """Return the share group of the current delivery."""
        recorder = self._fanout.recorder
        return None if recorder is None or not is_recorded(message_id) else recorder.share

    def sent(
        self, message_id: int, qos: int, retain: bool, share: str | None, stored: bool, place: int
    ) -> None:
        """Report a message that is sent to the client, its ``place``-th; 0: it is not acknowledged."""
        recorder = self._fanout.recorder
        if recorder is not None:
            recorder.sent(self, message_id, qos, retain, share, stored)
            if qos and place:
                self._flying.append((place, message_id))

    def taken(self, count: int) -> None:
        """Report messages as acknowledged, as the client has taken ``count`` in all."""
        done: list[int] = []
        while self._flying and self._flying[0][0] <= count:
            done.append(self._flying.popleft()[1])
        if done and self._fanout.recorder is not None:
            self._fanout.recorder.acknowledged(self, done, "subscriber")

    def lost(self, message_id: int, reason: str) -> None:
        """Report a message that the client will not get."""
        if is_recorded(message_id) and self._fanout.recorder is not None:
            self._fanout.recorder.lost(message_id, self, reason)

    def close(self, reason: str) -> None:
        """Report the end of its session; a second call has no effect."""
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
    """Return a requested QoS, limited to 0 to 2."""
    return min(max(qos, 0), 2)


def publish(
    broker: Broker,
    client: RemoteClient,
    wanted: Publish | actors.Publish,
    on_safe: Callable[[bool], None] | None = None,
) -> None:
    """Publish for ``client``, as :meth:`Broker.publish` does; ``on_safe`` is called for QoS 1 and 2.

    Raises:
        MqttProtocolError: the topic name is invalid.
        UnicodeError: it cannot be encoded.
    """
    check_topic_name(wanted.topic.encode(), "topic name")
    qos = bounded(wanted.qos)
    message = Message(wanted.topic.encode(), wanted.payload, qos=qos, retain=wanted.retain)
    route(broker, client, message, on_safe if qos else None)


def route(
    broker: Broker, client: RemoteClient, message: Message, on_safe: Callable[[bool], None] | None = None
) -> None:
    """Route a message that ``client`` publishes; ``on_safe`` is called for QoS 1 and 2.

    Raises:
        MqttProtocolError: the topic name is invalid.
    """

    def safe(done: bool) -> None:
        recorder = broker.fanout.recorder
        if done and is_recorded(message.id) and recorder is not None:
            recorder.acknowledged(client, (message.id,), "publisher")
        if on_safe is not None:
            on_safe(done)

    broker.publishing.route(
        message, client_id=client.client_id, on_safe=safe if on_safe is not None else None
    )


class Publisher:
    """One client for the broker's back-pressure, as publisher and as owner of its subscriptions."""

    unwritten = 0
    """Bytes that wait in its socket: it has none."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._why = 0
        self._waiting: list[Callable[[], object]] = []

    def pause_reading(self, why: int) -> None:
        """Defer answers from now on; ``why`` as in ``backpressure``."""
        self._why |= why

    def resume_reading(self, why: int) -> None:
        """Give the deferred answers, unless there is another reason to wait."""
        self._why &= ~why
        if not self._why:
            waiting, self._waiting = self._waiting, []
            for then in waiting:
                then()

    def published(self, topic: str, then: Callable[[], object]) -> None:
        """Call ``then`` after a publish to ``topic``, once no receiver of it is behind."""
        pressure = self._broker.fanout.pressure
        if pressure and not self._why:
            name = topic.encode()
            route: Any = self._broker.publishing.cache_get(name) or self._broker.publishing.resolve(name)
            plan = compile_plan(route)
            # One that is behind on its own messages does not wait: only its own progress helps.
            pressure.hold_up(self, plan.sessions, plan.peers)
        if self._why:
            self._waiting.append(then)
        else:
            then()
