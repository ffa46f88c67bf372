"""The broker of one node: sessions, who may have them, and the way in for Python publishers.

A facade over the parts: channels bring packets, the fan-out takes messages away, the router says to whom,
the session table keeps what outlives a connection; ``admission`` decides on a CONNECT, ``subscribing`` on a
SUBSCRIBE. What is here is what they share, and what people and programs may ask.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from gossamer.clock import Clock
from gossamer.config import MqttConfig
from gossamer.errors import UsageError
from gossamer.mqtt.auth.access import Access
from gossamer.mqtt.auth.sources import Authenticator
from gossamer.mqtt.cluster.wills import Wills
from gossamer.mqtt.codec.decoder import check_topic_name
from gossamer.mqtt.codec.errors import MqttProtocolError
from gossamer.mqtt.codec.packets import Connect
from gossamer.mqtt.codec.properties import NONE, Properties
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.connection.admission import Admission
from gossamer.mqtt.connection.certificates import Certificates
from gossamer.mqtt.connection.channel import Channel
from gossamer.mqtt.connection.deadlines import Wheel
from gossamer.mqtt.connection.limits import Shedding
from gossamer.mqtt.connection.subscribing import Subscribing
from gossamer.mqtt.handoff.owed import Owed, Waiting
from gossamer.mqtt.publish.delayed import BAD_DELAY, DELAYED, UNROUTED, Delayed, is_bad_delay
from gossamer.mqtt.publish.fanout import Fanout
from gossamer.mqtt.publish.inbound import Ingest, record_of
from gossamer.mqtt.publish.message import Message, strip
from gossamer.mqtt.publish.message_ids import NO_IDENT, UNRECORDED, base_of, is_recorded
from gossamer.mqtt.publish.ports import ForwarderLike, RouteLike, RouterLike
from gossamer.mqtt.publish.records import fresh, fresh_kept
from gossamer.mqtt.publish.redispatch import Redispatch
from gossamer.mqtt.publish.retained import LocalRetained, Retained
from gossamer.mqtt.publish.undelivered import tell_undelivered
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.sessions import SessionTable
from gossamer.mqtt.session.store import SessionStore
from gossamer.network import Network
from gossamer.routes import RESERVED_TOPIC, is_reserved
from gossamer.supervisor import Runtime

if TYPE_CHECKING:
    from gossamer.mqtt.handoff.away import Away
    from gossamer.mqtt.migration.takeover import Takeovers

__all__ = ["Broker", "ClientInfo"]

log = structlog.get_logger(__name__)

WILL_GRACE = 5.0
"""Seconds that a node may be down before others publish the wills of its clients."""


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """What is known of one client, for people and APIs."""

    client_id: str
    connected: bool
    version: int
    peer: str
    username: str | None
    keep_alive: int
    subscriptions: int
    inflight: int
    queued: int
    expiry: int
    clean: bool
    connected_at: float
    dropped: int


class Broker:
    """MQTT broker of one node.

    ``runtime`` owns its processes. Everything that touches time, randomness or the network is passed in.
    """

    def __init__(
        self,
        router: RouterLike,
        *,
        clock: Clock,
        network: Network,
        config: MqttConfig,
        runtime: Runtime,
        rng: random.Random | None = None,
        authenticator: Authenticator | None = None,
        retained: Retained | None = None,
    ) -> None:
        limits = config.limits
        self.router = router
        self.network = network
        self.config = config
        self.runtime = runtime
        self.channels: set[Channel] = set()
        self.ports: dict[str, int] = {}
        self.retained: Retained = retained if retained is not None else LocalRetained()
        self.wheel = Wheel()
        self._unrecorded = base_of(runtime.node, runtime.creation) + UNRECORDED
        self._identified = 0
        self.clock = clock
        self.access = Access(config.auth, monotonic=clock.monotonic, authenticator=authenticator)
        self.certificates: list[Certificates] = []
        self.refused: Counter[tuple[str, str]] = Counter()
        """Connections that were not let in, by listener and reason."""
        self.disconnected: Counter[str] = Counter()
        """Clients that this side has disconnected, by reason."""
        self.references: Iterator[str] | None = None
        """Where clients are sent, one after the other, while this node is drained (see ``drain``)."""
        self.hub = Fanout(
            call_soon=lambda callback: runtime.loop.call_soon(callback),
            call_later=lambda seconds, callback: runtime.loop.call_later(seconds, callback),
            now=clock.monotonic,
        )
        self.hub.pressure.bound(
            max_session=limits.max_queued_bytes,
            max_node=limits.max_node_queued_bytes,
            disconnects=config.sessions.overflow == "disconnect",
        )
        self.shedding = Shedding(limits.max_lag)
        self.takeovers: Takeovers | None = None
        self.away: Away | None = None
        """What is kept for sessions of nodes that are away."""
        self.on_return: Callable[[str], object] = _nobody
        """Told of every client that has connected."""
        self.wills = Wills(
            node=runtime.node,
            creation=runtime.creation,
            grace=WILL_GRACE,
            connected=self._is_connected,
            wall=clock.wall,
        )
        self.when_known: Callable[[int, Callable[[], object]], bool] = _at_once
        """Whether a will is safe, by the number of its write; where not, calls back once it is."""
        self.table = SessionTable(
            hub=self.hub,
            wheel=self.wheel,
            router=router,
            publish=self.route,
            wills=self.wills,
            max_expiry=int(limits.max_session_expiry),
            max_queued=limits.max_queued,
            keep_oldest=config.sessions.overflow == "drop_newest",
        )
        self.sessions: dict[str, Session] = self.table.sessions
        self.hub.wide.store = lambda: self.table.store
        self.delayed = Delayed(
            wheel=self.wheel,
            now=self.hub.now,
            wall=clock.wall,
            publish=self.route,
            dropped=self.hub.dropped,
            limit=limits.max_delayed,
        )
        # Read once: a channel looks at these for every packet, and a pydantic model is slow to read.
        self.cache_get: Callable[[bytes], Any] = router.cache.get
        self.max_packet = limits.max_packet_size
        # Nobody has been let in yet, so nobody gets to fill much memory.
        self.max_connect_packet = min(limits.max_packet_size, 256 * 1024)
        self.receive_maximum = limits.max_inflight
        self.max_write_buffer = limits.max_write_buffer
        self.high_water = min(limits.max_write_buffer, 256 * 1024)
        self.topic_alias_maximum = limits.topic_alias_maximum
        self.capabilities = config.capabilities
        self.validate_payloads = config.validate_payloads
        self.connect_timeout = limits.connect_timeout
        self.max_keep_alive = int(limits.max_keepalive)
        self.max_subscriptions = limits.max_subscriptions
        self.admission = Admission(self, rng=rng or random.Random())
        self.subscribing = Subscribing(self)
        self.ingest = Ingest(self)
        router.on_forward(self.ingest)
        router.on_group_forward(self.ingest.group)
        router.refresh_with(fresh, fresh_kept)
        router.on_congestion(self.hub.pressure.link)
        self.owed = Owed(
            self.hub,
            store=lambda: self.table.store,
            wall=clock.wall,
            soon=lambda callback: runtime.loop.call_soon(callback),
            alive=lambda session: self.sessions.get(session.client_id) is session,
            expected=router.expects,
            first=runtime.creation << 20,
            limit=config.sessions.away_messages,
            max_bytes=config.sessions.away_bytes,
        )
        self.redispatch = Redispatch(
            router, self.hub, self.owed, call_soon=lambda callback: runtime.loop.call_soon(callback)
        )
        self.table.redispatch = self.redispatch
        tell_undelivered(router, self.hub)

    @property
    def store(self) -> SessionStore | None:
        """Where sessions are kept that survive the node."""
        return self.table.store

    @property
    def notes(self) -> int:
        """How often a session noted something for the disc; who compares sees whether one did."""
        store = self.table.store
        return 0 if store is None else store.notes

    # Topics and messages.

    def resolve(self, topic: bytes) -> Any:
        """The route of a topic that is not in the cache.

        Raises:
            MqttProtocolError: it is not a topic name.
        """
        if topic.startswith(DELAYED):
            if is_bad_delay(topic):
                raise MqttProtocolError(ReasonCode.TOPIC_NAME_INVALID, "MQTT 4.7", BAD_DELAY)
            return UNROUTED
        if is_reserved(topic):
            raise MqttProtocolError(ReasonCode.TOPIC_NAME_INVALID, "MQTT 4.8.2", RESERVED_TOPIC)
        try:
            return self.router.resolve(topic)
        except UsageError as error:
            check_topic_name(topic, "topic name")
            raise MqttProtocolError(ReasonCode.TOPIC_NAME_INVALID, "MQTT-4.7.3-1", str(error)) from None

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Properties = NONE,
        on_safe: Callable[[bool], None] | None = None,
    ) -> int:
        """Publish from Python. Returns how many local subscribers and remote nodes get it.

        ``on_safe`` is called once every remote node that must deliver it has it (at once where there is
        none); only for ``qos`` 1 and 2.

        Raises:
            MqttProtocolError: ``topic`` is not a topic name.
        """
        properties = strip(properties)
        expiry = properties.message_expiry
        message = Message(
            topic.encode(),
            payload,
            qos=qos,
            retain=retain,
            properties=properties,
            expires_at=None if expiry is None else self.hub.now() + expiry,
        )
        return self.route(message, on_safe=on_safe)

    def route(
        self,
        message: Message,
        *,
        publisher: str = "",
        client_id: str | None = None,
        on_safe: Callable[[bool], None] | None = None,
    ) -> int:
        """Hand a message to every subscriber, here and on other nodes; ``client_id``: whose will it is.

        No Local counts by the client's identifier ([MQTT-3.8.3-3]), so for its will and for what it had
        delayed as well, although no connection brings them now.
        """
        if message.publisher is None:
            message.publisher = self.sessions.get(publisher or client_id or "")
        route = self.cache_get(message.topic) or self.resolve(message.topic)
        self.hub.received += 1
        if message.qos == 1:
            self.hub.received1 += 1
        elif message.qos:
            self.hub.received2 += 1
        if self.hub.trail is not None and route is not UNROUTED:
            self.hub.trail.take(message, publisher or client_id, self.hub.trail.chance())
        self.identify(message)
        return len(route.deliveries) + len(self.spread(route, message, publisher, on_safe))

    def spread(
        self,
        route: RouteLike,
        message: Message,
        publisher: str,
        on_safe: Callable[[bool], None] | None = None,
    ) -> tuple[ForwarderLike, ...]:
        """Pass a message on, to those that are returned too; ``on_safe`` once it is safe at all of them."""
        before = self.notes
        peers, kept = self.pass_on(route, message, publisher)
        if kept is not None:
            peers += (kept,)
        if message.qos and self.store is not None and self.notes != before:
            peers += (self.store,)
        if not peers:
            if on_safe is not None:
                on_safe(True)
            return peers
        record = record_of(message, self.hub.now())
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

    def identify(self, message: Message) -> None:
        """Give a message of QoS 2 an identifier, where no recorder did: see ``once``."""
        if message.qos == 2 and message.ident == NO_IDENT:
            self._identified += 1
            message.ident = self._unrecorded + self._identified

    def pass_on(
        self, route: RouteLike, message: Message, publisher: str
    ) -> tuple[tuple[ForwarderLike, ...], ForwarderLike | None]:
        """Deliver or delay ``message``; where it must go besides, and who must have what is retained."""
        if route is UNROUTED:
            return self.delayed.take(message, publisher), None
        kept = self.retain(message) if message.retain else None
        if message.retain and is_recorded(message.ident) and self.hub.trail is not None:
            self.hub.trail.retained(message)
        return self.distribute(route, message, publisher), kept

    def distribute(self, route: RouteLike, message: Message, publisher: str) -> tuple[ForwarderLike, ...]:
        """Deliver ``message`` to who is here, and say where it must go besides.

        Of every share group one member gets it, here or there; the choice is the router's.
        """
        trail = self.hub.trail if is_recorded(message.ident) else None
        peers: tuple[ForwarderLike, ...] = tuple(route.peers)
        if trail is not None:
            trail.routed(message, route, peers)
        self.hub.message(route, message)
        if self.hub.wide.jobs:
            peers += (self.hub.wide,)
        for group in route.groups:
            chosen = self.router.pick(group, publisher, message.topic.decode())
            if chosen is None and message.qos and self.router.expects(group.name):
                peers += (Waiting(self.owed, group.name),)
            elif chosen is None:
                self.hub.dropped("no_group_member")
                if trail is not None:
                    trail.lost(message.ident, None, "no_group_member")
            elif hasattr(chosen, "append"):
                peers += (chosen,)
                if trail is not None:
                    trail.chosen(message, group.name, chosen.peer)
            else:
                if trail is not None:
                    trail.chosen(message, group.name, None)
                self.hub.member(chosen, message, group.name)
        return peers

    def retain(self, message: Message) -> ForwarderLike | None:
        """Keep ``message`` for later subscribers; who must have it too before it is acknowledged."""
        return self.retained.put(message)

    # Connections.

    def opened(self, channel: Channel) -> None:
        """A connection was accepted; it has ``connect_timeout`` to say CONNECT."""
        self.channels.add(channel)
        when = self.hub.now() + self.connect_timeout
        channel.deadline = self.wheel.at(when, partial(self.admission.check, channel))

    def connect(self, channel: Channel, packet: Connect) -> None:
        """The first packet of a connection; it is answered now or later."""
        self.admission.connect(channel, packet)

    def closed(self, channel: Channel, why: str) -> None:
        self.channels.discard(channel)
        channel.listener.left(channel)
        if channel.deadline is not None:
            channel.deadline.cancel()
            channel.deadline = None
        log.debug("client_gone", client_id=channel.client_id, peer=channel.peer, why=why)

    # Looking in.

    def _is_connected(self, client_id: str) -> bool:
        session = self.sessions.get(client_id)
        return session is not None and session.channel is not None

    def tick(self) -> None:
        """What is due: keep alive, connect timeouts, wills, expiry. Call it about once a second."""
        self.wheel.turn(self.hub.now())

    def clients(self) -> list[ClientInfo]:
        """Every session, connected or not."""
        return [self.client(session) for session in self.sessions.values()]

    def client(self, session: Session) -> ClientInfo:
        channel: Channel | None = session.channel
        return ClientInfo(
            client_id=session.client_id,
            connected=channel is not None,
            version=session.version,
            peer=channel.peer if channel is not None else "",
            username=session.username,
            keep_alive=channel.keep_alive if channel is not None else 0,
            subscriptions=len(session.subscriptions),
            inflight=len(session.inflight),
            queued=len(session.queue),
            expiry=session.expiry,
            clean=session.clean,
            connected_at=channel.since if channel is not None else 0.0,
            dropped=session.lost,
        )

    def kick(self, client_id: str) -> bool:
        """End a client's connection and session; False where there is none."""
        session = self.sessions.get(client_id)
        if session is None:
            return False
        if session.channel is not None:
            session.channel.disconnect(ReasonCode.ADMINISTRATIVE_ACTION)
        self.table.end(session, "kicked")
        return True

    def renew_gates(self) -> None:
        """The ACL has changed."""
        for channel in self.channels:
            if channel.gate is not None:
                channel.gate.renew()

    def stats(self) -> dict[str, int]:
        """Counts since the start, and how many there are now."""
        hub = self.hub
        return {
            "connections": len(self.channels),
            "connections_refused": self.refused.total(),
            "sessions": len(self.sessions),
            "retained": len(self.retained),
            "messages_received": hub.received - self.ingest.messages,
            "messages_from_peers": self.ingest.messages,
            "messages_received_qos1": hub.received1,
            "messages_received_qos2": hub.received2,
            "messages_sent": hub.sent,
            "messages_sent_qos1": hub.sent1,
            "messages_sent_qos2": hub.sent2,
            "bytes_received": hub.bytes_received,
            "bytes_sent": hub.bytes_sent,
            "slowed": hub.slowed,
            "queued_bytes": hub.pressure.queued,
            **{f"dropped_{reason}": count for reason, count in sorted(hub.drops.items())},
            **({} if self.away is None else self.away.keeping.stats()),
        }


def _nobody(_client_id: str) -> None:
    pass


def _at_once(_number: int, _callback: Callable[[], object]) -> bool:
    return True
