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
from typing import TYPE_CHECKING

import structlog

from gossamer.clock import Clock
from gossamer.config import MqttConfig
from gossamer.mqtt.auth.access import Access
from gossamer.mqtt.auth.sources import Authenticator
from gossamer.mqtt.codec.packets import Connect
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.connection.admission import Admission
from gossamer.mqtt.connection.certificates import Certificates
from gossamer.mqtt.connection.channel import Channel
from gossamer.mqtt.connection.limits import Shedding
from gossamer.mqtt.connection.subscribing import Subscribing
from gossamer.mqtt.flow.deadlines import Wheel
from gossamer.mqtt.messages.message_ids import UNRECORDED, base_of
from gossamer.mqtt.messages.records import fresh, fresh_kept
from gossamer.mqtt.publish.delayed import Delayed
from gossamer.mqtt.publish.fanout import Fanout
from gossamer.mqtt.publish.inbound import Ingest
from gossamer.mqtt.publish.owed import Owed
from gossamer.mqtt.publish.publishing import Publishing
from gossamer.mqtt.publish.redispatch import Redispatch
from gossamer.mqtt.publish.retained import LocalRetained, Retained
from gossamer.mqtt.publish.undelivered import tell_undelivered
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.sessions import SessionTable
from gossamer.mqtt.session.wills import Wills
from gossamer.network import Network
from gossamer.routes import Router
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
        router: Router,
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
            dropped=self.hub.dropped,
            limit=limits.max_delayed,
        )
        # Read once: a channel looks at these for every packet, and a pydantic model is slow to read.
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
        self.publishing = Publishing(
            router,
            self.hub,
            self.table,
            retained=self.retained,
            delayed=self.delayed,
            owed=self.owed,
            first=base_of(runtime.node, runtime.creation) + UNRECORDED,
        )
        self.cache_get = self.publishing.cache_get
        self.resolve = self.publishing.resolve
        self.publish = self.publishing.publish
        self.route = self.publishing.route
        self.table.redispatch = self.redispatch
        tell_undelivered(router, self.hub)
        self.admission = Admission(self, rng=rng or random.Random())
        self.subscribing = Subscribing(self)
        self.ingest = Ingest(router, self.hub, self.publishing)
        router.on_forward(self.ingest)
        router.on_group_forward(self.ingest.group)
        router.refresh_with(fresh, fresh_kept)
        router.on_congestion(self.hub.pressure.link)

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
