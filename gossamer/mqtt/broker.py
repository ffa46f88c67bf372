"""The broker of one node: sessions, who may have them, and the way in for Python publishers.

A facade over the parts: channels bring packets, the fan-out takes messages away, the router says to whom,
the session table keeps what outlives a connection. What is here is what they share, the decision on a
CONNECT, subscribing, and what people and programs may ask.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from gossamer.clock import Clock
from gossamer.config import MqttConfig
from gossamer.errors import UsageError
from gossamer.mqtt.access import Access
from gossamer.mqtt.auth import Authenticator, Login, Verdict
from gossamer.mqtt.certificates import Certificates
from gossamer.mqtt.channel import Channel
from gossamer.mqtt.decode import check_topic_name
from gossamer.mqtt.delayed import DELAYED, UNROUTED, Delayed
from gossamer.mqtt.errors import MqttProtocolError
from gossamer.mqtt.fanout import Fanout
from gossamer.mqtt.framing import topic_of
from gossamer.mqtt.handlers import SYSTEM, subscribed
from gossamer.mqtt.ingest import Ingest, record_of
from gossamer.mqtt.limits import Shedding
from gossamer.mqtt.message import Message, strip
from gossamer.mqtt.packets import V4, V5, Connack, Connect, Subscription
from gossamer.mqtt.ports import ForwarderLike, RouteLike, RouterLike
from gossamer.mqtt.properties import NONE, Properties
from gossamer.mqtt.reasons import ReasonCode
from gossamer.mqtt.retained import LocalRetained, Retained
from gossamer.mqtt.session import Session
from gossamer.mqtt.sessions import SessionTable
from gossamer.mqtt.sessionstore import SessionStore
from gossamer.mqtt.wheel import Wheel
from gossamer.mqtt.wills import Wills
from gossamer.network import Network
from gossamer.routes import ExclusiveTakenError, SubscriptionOptions, body_of
from gossamer.supervisor import Runtime

if TYPE_CHECKING:
    from gossamer.mqtt.acl import Gate
    from gossamer.mqtt.takeover import Takeovers

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


class Broker:
    """See the module. ``runtime`` owns the processes; everything else is passed in for the same reason."""

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
        self.clock = clock
        self._rng = rng or random.Random()
        self.access = Access(config.auth, monotonic=clock.monotonic, authenticator=authenticator)
        self.certificates: list[Certificates] = []
        self.references: Iterator[str] | None = None
        """Where clients are sent, one after the other, while this node is drained (see ``drain``)."""
        self.hub = Fanout(
            call_soon=lambda callback: runtime.loop.call_soon(callback),
            call_later=lambda seconds, callback: runtime.loop.call_later(seconds, callback),
            now=clock.monotonic,
        )
        self.shedding = Shedding(limits.max_lag)
        self.takeovers: Takeovers | None = None
        self._bringing: dict[str, Channel] = {}
        self.on_return: Callable[[str], object] = _nobody
        """Told of every client that has connected."""
        self.wills = Wills(node=runtime.node, grace=WILL_GRACE, connected=self._is_connected)
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
        self.connect_timeout = limits.connect_timeout
        self.max_keep_alive = int(limits.max_keepalive)
        self.max_subscriptions = limits.max_subscriptions
        self._ingest = Ingest(self)
        router.on_forward(self._ingest)
        router.on_group_forward(self._ingest.group)
        router.on_congestion(self.hub.pressure.link)
        router.on_evicted(self._evicted)

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
            return UNROUTED
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
        self, message: Message, *, publisher: str = "", on_safe: Callable[[bool], None] | None = None
    ) -> int:
        """Hand a message to every subscriber, here and on other nodes."""
        route = self.cache_get(message.topic) or self.resolve(message.topic)
        self.hub.received += 1
        before = self.notes
        peers, kept = self.pass_on(route, message, publisher)
        if kept is not None:
            peers += (kept,)
        if message.qos and self.store is not None and self.notes != before:
            peers += (self.store,)
        local = len(route.deliveries)
        if not peers:
            if on_safe is not None:
                on_safe(True)
            return local
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
        return local + len(peers)

    def pass_on(
        self, route: RouteLike, message: Message, publisher: str
    ) -> tuple[tuple[ForwarderLike, ...], ForwarderLike | None]:
        """Deliver or delay ``message``; where it must go besides, and who must have what is retained."""
        if route is UNROUTED:
            return self.delayed.take(message, publisher), None
        kept = self.retain(message) if message.retain else None
        return self.distribute(route, message, publisher), kept

    def distribute(self, route: RouteLike, message: Message, publisher: str) -> tuple[ForwarderLike, ...]:
        """Deliver ``message`` to who is here, and say where it must go besides.

        Of every share group one member gets it, here or there; the choice is the router's.
        """
        self.hub.message(route, message)
        peers: tuple[ForwarderLike, ...] = tuple(route.peers)
        for group in route.groups:
            chosen = self.router.pick(group, publisher, message.topic.decode())
            if chosen is None:
                self.hub.dropped("no_group_member")
            elif hasattr(chosen, "append"):
                peers += (chosen,)
            else:
                self.hub.member(chosen, message)
        return peers

    def retain(self, message: Message) -> ForwarderLike | None:
        """Keep ``message`` for later subscribers; who must have it too before it is acknowledged."""
        return self.retained.put(message)

    # Connections.

    def opened(self, channel: Channel) -> None:
        """A connection was accepted; it has ``connect_timeout`` to say CONNECT."""
        self.channels.add(channel)
        channel.deadline = self.wheel.at(self.hub.now() + self.connect_timeout, partial(self._check, channel))

    def closed(self, channel: Channel, why: str) -> None:
        self.channels.discard(channel)
        channel.listener.left(channel)
        if channel.deadline is not None:
            channel.deadline.cancel()
            channel.deadline = None
        log.debug("client_gone", client_id=channel.client_id, peer=channel.peer, why=why)

    def _check(self, channel: Channel, now: float) -> float | None:
        """Connect timeout and keep alive ([MQTT-3.1.2-22])."""
        if not channel.is_up:
            channel.finish("no CONNECT in time")
            return None
        due = channel.seen + channel.keep_alive * 1.5
        if channel.reading_paused:
            # It is we who do not listen.
            return now + channel.keep_alive
        if due <= now:
            channel.disconnect(ReasonCode.KEEP_ALIVE_TIMEOUT)
            return None
        return due

    def connect(self, channel: Channel, packet: Connect) -> None:
        """Decide on a CONNECT; answers now or, where a password must be checked, later."""
        properties = packet.properties
        if properties.authentication_method is not None:
            channel.rejected(ReasonCode.BAD_AUTHENTICATION_METHOD, "no enhanced authentication here")
            return
        if not packet.client_id and packet.version == V4 and not packet.clean_start:
            # [MQTT-3.1.3-8] of 3.1.1
            channel.rejected(
                ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "empty client identifier without clean session"
            )
            return
        if self.shedding.on:
            self.hub.dropped("shed")
            channel.rejected(ReasonCode.SERVER_BUSY, "this node is too busy")
            return
        if self.references is not None:
            reference = next(self.references) or None
            channel.rejected(
                ReasonCode.USE_ANOTHER_SERVER, "draining", Properties(server_reference=reference)
            )
            return
        login = Login(
            client_id=packet.client_id,
            username=packet.username,
            password=packet.password,
            peer=channel.peer,
            certificate=channel.listener.certificate_of(channel),
        )
        answer = self.access.ask(login)
        if isinstance(answer, Verdict):
            self._decided(channel, packet, login, answer)
        else:
            self.runtime.spawn(
                self._authenticate,
                channel,
                packet,
                login,
                answer,
                label="mqtt_authenticate",
                link_to=channel.pid,
            )

    async def _authenticate(
        self, channel: Channel, packet: Connect, login: Login, answer: Awaitable[Verdict]
    ) -> None:
        verdict = await answer
        if not channel.is_closed:
            self._decided(channel, packet, login, verdict)

    def _decided(self, channel: Channel, packet: Connect, login: Login, verdict: Verdict) -> None:
        self.access.decided(login, verdict)
        if verdict.reason != ReasonCode.SUCCESS:
            self.hub.dropped("refused")
            channel.rejected(verdict.reason, f"not let in: {verdict.reason.name.lower()}")
            return
        self._admit(channel, packet, verdict)

    def _admit(self, channel: Channel, packet: Connect, verdict: Verdict) -> None:
        client_id = packet.client_id or f"gm-{self._rng.getrandbits(96):024x}"
        username = verdict.username or packet.username
        if packet.will is not None and packet.will.topic.startswith(SYSTEM):
            channel.rejected(ReasonCode.NOT_AUTHORIZED, "$SYS topics are the server's")
            return
        gate = self.access.gate(client_id, username, self.cache_get)
        if gate is not None:
            if packet.will is not None and not gate.may_publish(packet.will.topic):
                self.access.denied("will", client_id, username, packet.will.topic.decode(errors="replace"))
                channel.rejected(ReasonCode.NOT_AUTHORIZED, "its will is not allowed")
                return
            channel.gate = gate
            channel.cache_get = gate.get
        channel.listener.admitted(channel)
        if verdict.expires_at is not None:
            left = max(0.0, verdict.expires_at - self.clock.wall())
            self.wheel.at(self.hub.now() + left, partial(_expired, channel))
        if self.takeovers is not None and self.takeovers.elsewhere(client_id, clean=packet.clean_start):
            # Not linked to the channel: a session on its way arrives, whether its client waits or not.
            self.runtime.spawn(self._bring, channel, packet, client_id, username, label="mqtt_takeover")
            return
        self._enter(channel, packet, client_id, username)

    async def _bring(self, channel: Channel, packet: Connect, client_id: str, username: str | None) -> None:
        """The client's session is on another node: bring it here, or have it ended there."""
        assert self.takeovers is not None  # noqa: S101 - it said that it is there
        before = self._bringing.get(client_id)
        if before is not None:
            before.rejected(ReasonCode.SERVER_BUSY, "its client has connected again")
        self._bringing[client_id] = channel
        try:
            await self.takeovers.fetch(client_id, clean=packet.clean_start)
        finally:
            if self._bringing.get(client_id) is channel:
                del self._bringing[client_id]
        if not channel.is_closed:
            self._enter(channel, packet, client_id, username)
            return
        session = self.sessions.get(client_id)
        if session is not None and session.channel is None and session.deadline is None:
            self.table.rest(session)

    def _enter(self, channel: Channel, packet: Connect, client_id: str, username: str | None) -> None:
        version = packet.version
        asked = packet.properties
        answer: dict[str, Any] = {}
        keep_alive = packet.keep_alive
        if version == V5:
            wanted = asked.session_expiry or 0
            expiry = self.table.bounded_expiry(wanted)
            if expiry != wanted:
                answer["session_expiry"] = expiry
            if self.max_keep_alive < 65535 and (not keep_alive or keep_alive > self.max_keep_alive):
                keep_alive = answer["server_keep_alive"] = self.max_keep_alive
            if not packet.client_id:
                answer["assigned_client_id"] = client_id
            answer["receive_maximum"] = self.receive_maximum
            answer["maximum_packet_size"] = channel.max_packet
            answer["topic_alias_maximum"] = self.topic_alias_maximum or None
        else:
            expiry = 0 if packet.clean_start else self.table.max_expiry
        session, present = self.table.open(client_id, clean=packet.clean_start, expiry=expiry)
        if not present:
            session.clean = packet.clean_start
        elif channel.gate is not None:
            self._check_again(session, channel.gate)
        shape = session.shape
        session.username = username
        session.attach(
            channel,
            version=version,
            receive_maximum=min(asked.receive_maximum or 65535, self.receive_maximum),
            max_packet=asked.maximum_packet_size or 0,
            alias_maximum=asked.topic_alias_maximum or 0,
        )
        if present and session.shape != shape:
            self.table.forget_plans()
        channel.will = packet.will
        if self.takeovers is not None:
            self.takeovers.own(session)
        session.save()
        self.table.leave_will(client_id, packet.will, session.expiry)
        self.on_return(client_id)
        channel.keep_alive = keep_alive
        connack = Connack(session_present=present, properties=Properties(**answer) if answer else NONE)
        if channel.deadline is not None:
            channel.deadline.cancel()
            channel.deadline = None
        if keep_alive:
            channel.deadline = self.wheel.at(self.hub.now() + keep_alive * 1.5, partial(self._check, channel))
        channel.admitted(session, connack)

    def _check_again(self, session: Session, gate: Gate) -> None:
        """What was allowed when the client subscribed may not be any more, or it has another name now."""
        refused = [f for f in session.subscriptions if not gate.may_subscribe(f)]
        if not refused:
            return
        for topic_filter in refused:
            self.access.denied("subscribe", session.client_id, session.username, topic_filter)
        self.unsubscribe(session, refused)
        kept = [item for item in session.queue if gate.may_subscribe(topic_of(item[0]))]
        if len(kept) < len(session.queue):
            self.hub.dropped("not_authorized", len(session.queue) - len(kept))
            session.refill(kept)

    # Subscriptions.

    def subscribe(
        self, session: Session, wanted: Sequence[Subscription], identifier: int | None
    ) -> tuple[list[int], list[tuple[str, int, tuple[int, ...]]], Any]:
        """Subscribe ``session``; reason codes, filters whose retained messages to send, what to wait for."""
        reasons: list[int] = []
        retained: list[tuple[str, int, tuple[int, ...]]] = []
        seq: Any = None
        gate = session.channel.gate if session.channel is not None else None
        for item in wanted:
            known = item.filter in session.subscriptions
            if gate is not None and not gate.may_subscribe(item.filter):
                self.access.denied("subscribe", session.client_id, session.username, item.filter)
                reasons.append(ReasonCode.NOT_AUTHORIZED)
                continue
            if not known and len(session.subscriptions) >= self.max_subscriptions:
                reasons.append(ReasonCode.QUOTA_EXCEEDED)
                continue
            try:
                done = self.router.subscribe(item.filter, session, self._options(item, identifier))
            except ExclusiveTakenError:
                reasons.append(ReasonCode.QUOTA_EXCEEDED)
                continue
            except UsageError as error:
                log.info("filter_refused", client_id=session.client_id, error=str(error))
                reasons.append(ReasonCode.TOPIC_FILTER_INVALID)
                continue
            session.subscriptions[item.filter] = (item, identifier)
            if done.seq is not None:
                seq = done.seq
            reasons.append(item.qos)
            if item.filter.startswith("$share/"):
                # Retained messages are not for share groups (MQTT 5.0, 4.8.2).
                continue
            if item.retain_handling == 0 or (item.retain_handling == 1 and not known):
                identifiers = () if identifier is None else (identifier,)
                retained.append((body_of(item.filter), item.qos, identifiers))
        return reasons, retained, seq

    def restore_subscriptions(self, session: Session) -> Any:
        """Subscribe a session to what it knows it has subscribed; what to wait for."""
        seq: Any = None
        for item, identifier in list(session.subscriptions.values()):
            try:
                done = self.router.subscribe(item.filter, session, self._options(item, identifier))
            except (UsageError, ExclusiveTakenError) as error:
                # The limits of this node are not those of the one that took the SUBSCRIBE.
                log.warning("subscription_not_restored", client_id=session.client_id, error=str(error))
                del session.subscriptions[item.filter]
                continue
            if done.seq is not None:
                seq = done.seq
        return seq

    def _options(self, item: Subscription, identifier: int | None) -> Any:
        return SubscriptionOptions(
            qos=item.qos,
            no_local=item.no_local,
            retain_as_published=item.retain_as_published,
            identifier=identifier,
        )

    def unsubscribe(self, session: Session, filters: Iterable[str]) -> list[int]:
        """Unsubscribe; a reason code each."""
        reasons: list[int] = []
        for topic_filter in filters:
            if session.subscriptions.pop(topic_filter, None) is None:
                reasons.append(ReasonCode.NO_SUBSCRIPTION_EXISTED)
                continue
            self.router.unsubscribe(topic_filter, session)
            reasons.append(ReasonCode.SUCCESS)
        return reasons

    def _evicted(self, session: Any, topic_filter: str) -> None:
        """An exclusive subscription was lost to a client that had it earlier, beyond a split."""
        if isinstance(session, Session):
            session.subscriptions.pop(topic_filter, None)

    def when_visible(self, channel: Channel, seq: Any, suback: bytes, retained: list[Any]) -> None:
        """SUBACK once every live node has the routes (bounded by the router)."""
        if seq is None or self.router.is_visible(seq):
            subscribed(channel, suback, retained)
        else:
            self.runtime.spawn(
                self._await_visible, channel, seq, suback, retained, label="mqtt_suback", link_to=channel.pid
            )

    async def _await_visible(self, channel: Channel, seq: Any, suback: bytes, retained: list[Any]) -> None:
        await self.router.visible(seq)
        if channel.is_up:
            subscribed(channel, suback, retained)

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
        )

    def kick(self, client_id: str) -> bool:
        """End a client's connection and session; False where there is none."""
        session = self.sessions.get(client_id)
        if session is None:
            return False
        if session.channel is not None:
            session.channel.disconnect(ReasonCode.ADMINISTRATIVE_ACTION)
        self.table.end(session)
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
            "sessions": len(self.sessions),
            "retained": len(self.retained),
            "messages_received": hub.received,
            "messages_sent": hub.sent,
            "bytes_sent": hub.bytes_sent,
            "slowed": hub.slowed,
            **{f"dropped_{reason}": count for reason, count in sorted(hub.drops.items())},
        }


def _nobody(_client_id: str) -> None:
    pass


def _expired(channel: Channel, _now: float) -> None:
    """What the client proved who it is with holds no longer."""
    if channel.is_up:
        channel.disconnect(ReasonCode.NOT_AUTHORIZED)
