"""The broker of one node: sessions, connections, and the interface for Python publishers.

A facade over the parts, which are made here in the order in which they need one another: channels read
packets, the router finds the receivers, the fan-out delivers, the session table keeps state that outlives a
connection; ``admission`` decides on a CONNECT, ``subscribing`` on a SUBSCRIBE.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from gossamer.clock import Clock, reader_of
from gossamer.config import MqttConfig
from gossamer.log_limit import LogLimit
from gossamer.mqtt.auth.access import Access
from gossamer.mqtt.auth.sources import Authenticator
from gossamer.mqtt.connection.channel import Channel
from gossamer.mqtt.connection.connections import Connections
from gossamer.mqtt.connection.limits import Room
from gossamer.mqtt.connection.shared import ConnectionLimits, Shared
from gossamer.mqtt.copies.copies import SessionCopies
from gossamer.mqtt.flow.deadlines import Wheel
from gossamer.mqtt.handoff.hinted_handoff import HintedHandoff
from gossamer.mqtt.messages.message_ids import UNRECORDED, base_of
from gossamer.mqtt.messages.records import fresh, fresh_kept
from gossamer.mqtt.migration.takeover import Takeovers
from gossamer.mqtt.publish.delayed import Delayed
from gossamer.mqtt.publish.fanout import Fanout
from gossamer.mqtt.publish.inbound import Ingest
from gossamer.mqtt.publish.owed import Owed
from gossamer.mqtt.publish.publishing import Publishing
from gossamer.mqtt.publish.queued import QueuePublishing
from gossamer.mqtt.publish.recording import report_undelivered
from gossamer.mqtt.publish.redispatch import Redispatch
from gossamer.mqtt.publish.retained import LocalRetained, Retained
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.sessions import SessionTable
from gossamer.mqtt.session.wills import Wills
from gossamer.mqtt.tenants.tenants import Tenants
from gossamer.network import Network
from gossamer.queues import Queues
from gossamer.routes import Router
from gossamer.supervisor import Runtime

log = structlog.get_logger(__name__)

WILL_GRACE = 5.0
"""Seconds that a node may be down before others publish the wills of its clients."""


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """Description of one client's session and connection; ``expiry`` and ``keep_alive`` in seconds."""

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
        cookie: str | None = None,
        queues: Queues | None = None,
    ) -> None:
        self.queues = queues
        self.router = router
        self.network = network
        self.config = config
        self.runtime = runtime
        self.clock = clock
        self.takeovers: Takeovers | None = None
        self.handoff: HintedHandoff | None = None
        """Hinted handoff, in a cluster."""
        self.copies: SessionCopies | None = None
        """Copies of sessions, in a cluster that has them."""
        self.retained: Retained = retained if retained is not None else LocalRetained()
        self.wheel = Wheel()
        listeners = config.server.listeners
        self.access = Access(
            config.auth,
            monotonic=clock.monotonic,
            authenticator=authenticator,
            certificates=any(one.tls is not None and one.tls.username != "none" for one in listeners),
            cookie=cookie,
        )
        self.fanout = Fanout(call_later=self._call_later, now=reader_of(clock))
        self._make_sessions()
        self._make_publishing()
        self._make_connections(rng or random.Random())
        router.on_forward(self.ingest)
        router.on_group_forward(self.ingest.group)
        router.refresh_with(fresh, fresh_kept)
        router.on_congestion(self.fanout.pressure.link)
        report_undelivered(router, self.fanout)

    def _call_soon(self, callback: Callable[[], None]) -> object:
        return self.runtime.loop.call_soon(callback)

    def _call_later(self, seconds: float, callback: Callable[[], None]) -> object:
        return self.runtime.loop.call_later(seconds, callback)

    def _make_sessions(self) -> None:
        limits, overflow = self.config.limits, self.config.sessions.overflow
        self.fanout.pressure.bound(
            max_session=limits.max_queued_bytes,
            max_node=limits.max_node_queued_bytes,
            disconnects=overflow == "disconnect",
        )
        self.wills = Wills(
            node=self.runtime.node,
            creation=self.runtime.creation,
            grace=WILL_GRACE,
            connected=self._is_connected,
            wall=self.clock.wall,
        )
        self.table = SessionTable(
            fanout=self.fanout,
            wheel=self.wheel,
            router=self.router,
            wills=self.wills,
            clock=self.clock,
            max_queued=limits.max_queued,
            keep_oldest=overflow == "drop_newest",
            owned=self.access.has_users,
        )
        self.sessions: dict[str, Session] = self.table.sessions
        self.kick = self.table.kick
        self.fanout.wide.store = lambda: self.table.store

    def _make_publishing(self) -> None:
        router, fanout, runtime, clock = self.router, self.fanout, self.runtime, self.clock
        self.delayed = Delayed(
            wheel=self.wheel,
            now=fanout.now,
            wall=clock.wall,
            dropped=fanout.dropped,
            limit=self.config.limits.max_delayed,
        )
        self.owed = Owed(
            fanout,
            self.table,
            wall=clock.wall,
            soon=self._call_soon,
            expected=router.expects,
            first=runtime.creation << 20,
            limit=self.config.sessions.away_messages,
            max_bytes=self.config.sessions.away_bytes,
        )
        self.redispatch = Redispatch(router, fanout, self.owed, call_soon=self._call_soon)
        self.table.redispatch = self.redispatch
        queued = None
        if self.queues is not None:
            queued = QueuePublishing(self.queues, now=fanout.now, changed=router.forget_routes)
        self.publishing = Publishing(
            router,
            fanout,
            self.table,
            retained=self.retained,
            delayed=self.delayed,
            owed=self.owed,
            queued=queued,
            first=base_of(runtime.node, runtime.creation) + UNRECORDED,
        )
        self.tenants = Tenants(self.publishing, self.fanout, self.retained)
        self.wills.next_number = self.publishing.next_number
        self.publish = self.publishing.publish
        self.ingest = Ingest(router, fanout, self.publishing, self.table, self.owed)

    def _make_connections(self, rng: random.Random) -> None:
        self.shared = Shared(
            router=self.router,
            fanout=self.fanout,
            table=self.table,
            wills=self.wills,
            publishing=self.publishing,
            ingest=self.ingest,
            access=self.access,
            tenants=self.tenants,
            limits=ConnectionLimits(self.config),
            wheel=self.wheel,
            runtime=self.runtime,
            clock=self.clock,
            log_limit=LogLimit(self.fanout.now),
            queues=self.queues,
        )
        self.disconnected = self.shared.disconnected
        self.connections = Connections(self.shared, self.retained, config=self.config, rng=rng)
        self.admission = self.connections.admission
        self.subscribing = self.connections.subscribing
        self.channels = self.connections.channels
        self.ports = self.connections.ports
        self.certificates = self.connections.certificates
        self.refused = self.connections.refused
        self.shedding = self.connections.shedding
        self.room: Room | None = None
        """What the listeners share; None without any."""

    # Introspection.

    def _is_connected(self, client_id: str) -> bool:
        session = self.sessions.get(client_id)
        return session is not None and session.channel is not None

    def tick(self) -> None:
        """Do what is due: keep alive, connect timeouts, wills, expiry. Call it about once a second."""
        self.wheel.turn(self.fanout.now())

    def clients(self) -> list[ClientInfo]:
        """Return a description of every session, connected or not."""
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

    def stats(self) -> dict[str, int]:
        """Return counts since the start, and current sizes, by metric."""
        fanout = self.fanout
        return {
            "connections": len(self.channels),
            "connections_refused": self.refused.total(),
            "sessions": len(self.sessions),
            "retained": len(self.retained),
            "messages_received": fanout.received - self.ingest.messages,
            "messages_from_peers": self.ingest.messages,
            "messages_received_qos1": fanout.received1,
            "messages_received_qos2": fanout.received2,
            "messages_sent": fanout.sent,
            "messages_sent_qos1": fanout.sent1,
            "messages_sent_qos2": fanout.sent2,
            "bytes_received": fanout.bytes_received,
            "bytes_sent": fanout.bytes_sent,
            "slowed": fanout.slowed,
            "queued_bytes": fanout.pressure.queued,
            **{f"dropped_{reason}": count for reason, count in sorted(fanout.drops.items())},
            **({} if self.handoff is None else self.handoff.hint_store.stats()),
        }
