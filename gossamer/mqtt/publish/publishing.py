"""Publishing: a message goes to all its receivers, here and on other nodes, now or later.

The route of a topic has its receivers. Everything that the acknowledgement of a QoS 1 or 2 message waits for
is one of its *peers*: nodes, the disc, the retained message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from gossamer.errors import UsageError
from gossamer.mqtt.codec.decoder import check_topic_name
from gossamer.mqtt.codec.errors import MqttProtocolError
from gossamer.mqtt.codec.properties import NONE, Properties
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.flow.commits import Until
from gossamer.mqtt.messages.message import Message, strip
from gossamer.mqtt.messages.message_ids import NO_ID, is_recorded, number_of
from gossamer.mqtt.messages.ports import ForwarderLike
from gossamer.mqtt.messages.records import record_of
from gossamer.mqtt.publish.delayed import BAD_DELAY, DELAYED, UNROUTED, Delayed, is_bad_delay
from gossamer.mqtt.publish.fanout import Fanout
from gossamer.mqtt.publish.owed import Owed
from gossamer.mqtt.publish.plan import Plan, compile_plan
from gossamer.mqtt.publish.queued import BAD_QUEUE, QUEUE, QUEUED, QueuePublishing, queue_and_key
from gossamer.mqtt.publish.retained import Retained
from gossamer.mqtt.session.sessions import SessionTable
from gossamer.mqtt.session.store import SessionStore
from gossamer.routes import RESERVED_TOPIC, Delivery, Route, Router, is_reserved
from gossamer.tenants import bare_topic, within


class Publishing:
    """Publishes messages of clients, programs and this node. Ids of QoS 2 messages that no recorder gave one
    begin after ``first``."""

    def __init__(
        self,
        router: Router,
        fanout: Fanout,
        table: SessionTable,
        *,
        retained: Retained,
        delayed: Delayed,
        owed: Owed,
        queued: QueuePublishing | None,
        first: int,
    ) -> None:
        self.cache_get: Callable[[bytes], Route | None] = router.cache.get
        self._router = router
        self._fanout = fanout
        self._table = table
        self._sessions = table.sessions
        self._retained = retained
        self._delayed = delayed
        self._owed = owed
        self._queued = queued
        self._identified = first
        table.publish = delayed.publish = self.route

    @property
    def store(self) -> SessionStore | None:
        """Store of sessions that survive the node."""
        return self._table.store

    @property
    def notes(self) -> int:
        """Number of rows that sessions wrote so far; compare two readings to see whether there was one."""
        store = self._table.store
        return 0 if store is None else store.notes

    @property
    def delays_full(self) -> bool:
        """Return whether the limit of delayed messages is reached."""
        return self._delayed.full

    def resolve(self, topic: bytes) -> Route:
        """Return the route of a topic that is not in the cache.

        Raises:
            MqttProtocolError: it is not a topic name.
        """
        if topic.startswith(DELAYED):
            if is_bad_delay(topic):
                raise MqttProtocolError(ReasonCode.TOPIC_NAME_INVALID, "MQTT 4.7", BAD_DELAY)
            return UNROUTED
        if topic.startswith(QUEUE) and self._queued is not None:
            if queue_and_key(topic) is None:
                raise MqttProtocolError(ReasonCode.TOPIC_NAME_INVALID, "MQTT 4.7", BAD_QUEUE)
            return QUEUED
        if is_reserved(topic):
            raise MqttProtocolError(ReasonCode.TOPIC_NAME_INVALID, "MQTT 4.8.2", RESERVED_TOPIC)
        try:
            route = self._router.resolve(topic)
        except UsageError as error:
            check_topic_name(bare_topic(topic), "topic name")
            raise MqttProtocolError(ReasonCode.TOPIC_NAME_INVALID, "MQTT-4.7.3-1", str(error)) from None
        captured = () if self._queued is None else self._queued.captured_by(topic)
        if captured:
            # Other topics may have the same receivers, and not be captured.
            route = self._router.cache[topic] = replace(route, plan=None, captured=captured)
        return route

    def plan_of(self, topic: bytes) -> Plan | None:
        """Return the compiled route of a topic; None: it is not a topic name."""
        try:
            return compile_plan(self.cache_get(topic) or self.resolve(topic))
        except MqttProtocolError:
            return None

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Properties = NONE,
        tenant: str = "",
        on_safe: Callable[[bool], None] | None = None,
    ) -> int:
        """Publish from Python; return the number of local subscribers and peers that get it. ``tenant``:
        whose clients get it, blank: those of the default one.

        ``on_safe`` is called once it is safe at all peers (remote nodes, the disc), at once where there are
        none; only for ``qos`` 1 and 2.

        Raises:
            MqttProtocolError: ``topic`` is not a topic name.
        """
        check_topic_name(topic.encode(), "topic name")
        properties = strip(properties)
        expiry = properties.message_expiry
        message = Message(
            within(tenant, topic).encode(),
            payload,
            qos=qos,
            retain=retain,
            properties=properties,
            expires_at=None if expiry is None else self._fanout.now() + expiry,
        )
        return self.route(message, on_safe=on_safe)

    def route(
        self,
        message: Message,
        *,
        publisher: str = "",
        client_id: str | None = None,
        message_id: int = NO_ID,
        on_safe: Callable[[bool], None] | None = None,
    ) -> int:
        """Route a message to every subscriber, here and on other nodes; return as :meth:`publish`.
        ``client_id``: whose will it is; ``message_id``: its id, the same at all nodes that may publish it.

        No Local counts by client identifier ([MQTT-3.8.3-3]), so for a client's will and its delayed messages
        too, although no connection sends them now.
        """
        if message.publisher is None:
            message.publisher = self._sessions.get(publisher or client_id or "")
        route = self.cache_get(message.topic) or self.resolve(message.topic)
        self._fanout.take(message.qos)
        if self._fanout.recorder is not None and route not in (UNROUTED, QUEUED):
            self._fanout.recorder.take(message, publisher or client_id, self._fanout.recorder.chance())
        self.identify(message, message_id)
        return len(route.deliveries) + len(self.spread(route, message, publisher, on_safe))

    def spread(
        self,
        route: Route,
        message: Message,
        publisher: str,
        on_safe: Callable[[bool], None] | None = None,
    ) -> tuple[ForwarderLike, ...]:
        """Deliver a message, and send it to its peers, which are returned; ``on_safe`` once all have it."""
        peers = self.pass_on(route, message, publisher)
        if not peers:
            if on_safe is not None:
                on_safe(True)
            return peers
        record = record_of(message, self._fanout.now())
        if message.qos:
            waiting = [len(peers), True]

            def safe(done: bool) -> None:
                waiting[0] -= 1
                waiting[1] = waiting[1] and done
                if not waiting[0] and on_safe is not None:
                    on_safe(bool(waiting[1]))

            for peer in peers:
                peer.append_acked(record, safe)
        else:
            for peer in peers:
                peer.append(record)
        return peers

    def identify(self, message: Message, message_id: int = NO_ID) -> None:
        """Give a message of QoS 2 an id if no recorder did; see ``qos2``."""
        if message.qos == 2 and message.id == NO_ID:
            message.id = self._next_id() if message_id == NO_ID else message_id

    def next_number(self) -> int:
        """Return the number of a new id, for a will."""
        return number_of(self._next_id())

    def _next_id(self) -> int:
        self._identified += 1
        return self._identified

    def pass_on(self, route: Route, message: Message, publisher: str) -> tuple[ForwarderLike, ...]:
        """Deliver or delay ``message``, and retain it; return its peers."""
        before = self.notes
        if route is UNROUTED:
            peers = self._delayed.take(message, publisher)
        elif route is QUEUED and self._queued is not None:
            peers = self._queued.take(message)
        else:
            kept = self._retained.put(message) if message.retain else None
            if message.retain and is_recorded(message.id) and self._fanout.recorder is not None:
                self._fanout.recorder.retained(message)
            peers = self.distribute(route, message, publisher)
            if kept is not None:
                peers += (kept,)
        if message.qos and self.store is not None and self.notes != before:
            peers += (self.store.since(before),)
        return peers

    def distribute(self, route: Route, message: Message, publisher: str) -> tuple[ForwarderLike, ...]:
        """Deliver ``message`` to subscribers here; return its peers, without retained message and disc.

        The router chooses one member of every share group, here or on another node.
        """
        fanout = self._fanout
        peers: tuple[ForwarderLike, ...] = route.peers
        if fanout.recorder is not None and is_recorded(message.id):
            fanout.recorder.routed(message, route, peers)
        fanout.message(route, message)
        if fanout.wide.jobs:
            peers += (fanout.wide,)
        for group in route.groups:
            chosen = self._router.pick(group, publisher, message.topic.decode())
            if chosen is None and message.qos and self._router.expects(group.name):
                peers += (Until(group.name, partial(self._owed.wait, group.name)),)
            elif chosen is None:
                fanout.lose(message, "no_group_member")
            elif isinstance(chosen, Delivery):
                fanout.chosen(message, group.name, None)
                fanout.member(chosen, message, group.name)
            else:
                peers += (chosen,)
                fanout.chosen(message, group.name, chosen.peer)
        if route.captured and self._queued is not None:
            peers += self._queued.capture(route.captured, message)
        return peers
