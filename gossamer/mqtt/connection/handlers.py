"""Handlers of the packets that are not on a channel's fast path, one method a packet type.

Apart from the channel to be read alone: there bytes and back-pressure, here the standard's "Actions".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gossamer.mqtt.codec.decoder import decode
from gossamer.mqtt.codec.encoder import PACKET_ID, encode, explained
from gossamer.mqtt.codec.errors import MqttProtocolError, violation
from gossamer.mqtt.codec.packets import (
    V4,
    V5,
    Auth,
    Disconnect,
    Pingreq,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.connection.channel import Channel
from gossamer.mqtt.connection.consuming import Consuming
from gossamer.mqtt.connection.enhanced import Enhanced
from gossamer.mqtt.connection.shared import Shared, is_text, refusal_of, topic_refusal_of
from gossamer.mqtt.connection.subscribing import Subscribing, encoded
from gossamer.mqtt.flow.commits import Until
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.message_ids import NO_ID, is_recorded
from gossamer.mqtt.messages.ports import ForwarderLike
from gossamer.mqtt.messages.records import record_of
from gossamer.mqtt.publish.delayed import UNROUTED
from gossamer.mqtt.publish.plan import compile_plan
from gossamer.mqtt.publish.queue_words import PREFIX
from gossamer.mqtt.publish.queued import QUEUED, IntoQueue, answered
from gossamer.routes import Route


class Handlers:
    """Carries out SUBSCRIBE, DISCONNECT, acknowledgements and whatever PUBLISH the reader leaves to it."""

    def __init__(
        self,
        shared: Shared,
        subscribing: Subscribing,
        enhanced: Enhanced,
        consuming: Consuming | None = None,
    ) -> None:
        self._consuming = consuming
        self._publishing = shared.publishing
        self._table = shared.table
        self._access = shared.access
        self._limits = shared.limits
        self._methods: dict[type, Callable[[Any, Any], None]] = {
            Auth: enhanced.auth,
            Publish: self._publish,
            Puback: self._puback,
            Pubrec: self._pubrec,
            Pubrel: self._pubrel,
            Pubcomp: self._pubcomp,
            Subscribe: subscribing.subscribe,
            Unsubscribe: self._unsubscribe,
            Pingreq: self._pingreq,
            Disconnect: self._disconnect,
        }

    def handle(self, channel: Channel, first: int, body: bytes) -> None:
        """Take one packet.

        Raises:
            MqttProtocolError: the standard forbids it, here or at all.
        """
        if first >> 4 == 1:
            # Whatever is in it.
            raise violation("MQTT-3.1.0-2", "a second CONNECT")
        packet = decode(first, body, channel.version)
        method = self._methods.get(type(packet))
        if method is None:
            raise violation("MQTT 4.13", f"a client may not send {type(packet).__name__.upper()}")
        method(channel, packet)

    # Publishing.

    def _publish(self, channel: Channel, packet: Publish) -> None:
        topic = self._resolve_alias(channel, packet) if channel.version == V5 else packet.topic
        session, fanout = channel.session, channel.fanout
        fanout.take(packet.qos)
        missing = refusal_of(self._limits.capabilities, packet)
        if missing is not None:
            statement = "MQTT-3.2.2-14" if missing == ReasonCode.RETAIN_NOT_SUPPORTED else "MQTT-3.2.2-11"
            raise MqttProtocolError(missing, statement, "PUBLISH asks for what this node does not offer")
        if packet.properties.subscription_identifiers:
            raise violation("MQTT-3.3.4-6", "PUBLISH from a client carries a subscription identifier")
        tenant = channel.tenant
        if tenant is None and self._consuming is not None and self._consuming.settle(channel, packet, topic):
            return
        refused = self._refusal_of(channel, packet, topic)
        if refused is not None:
            _refuse_publish(channel, packet, *refused)
            return
        if tenant is not None:
            topic = tenant.topic(topic)
        packet_id = packet.packet_id or 0
        known = NO_ID
        if packet.qos == 2:
            if packet_id in session.doubtful:
                # Whether it was passed on everywhere is not known. Who has had it knows it by its identifier.
                # What is not marked as sent again is another message ([MQTT-3.3.1-1]).
                known = session.message_id_of(packet_id) if packet.dup else NO_ID
            elif packet_id in session.incoming:
                # Sent again: already passed on ([MQTT-4.3.3-10]).
                _acknowledge(channel, packet_id)
                return
            elif channel.version == V5:
                channel.check_quota(1)
        route = self._publishing.cache_get(topic) or self._publishing.resolve(topic)
        if route is UNROUTED and self._publishing.delays_full:
            fanout.dropped("too_many_delayed")
            _refuse_publish(
                channel, packet, ReasonCode.QUOTA_EXCEEDED, "too many messages are delayed already"
            )
            return
        message = Message.of(packet, topic=topic, publisher=session, now=fanout.now())
        recorder, ordinary = fanout.recorder, route not in (UNROUTED, QUEUED)
        if recorder is not None and ordinary and (recorder.live or message.properties.user):
            recorder.take(message, session.client_id, recorder.live)
        if known != NO_ID:
            message.id = known
        self._publishing.identify(message)
        self._pass_on(channel, packet, message, route)

    def _refusal_of(self, channel: Channel, packet: Publish, topic: bytes) -> tuple[ReasonCode, str] | None:
        """The reason code and the reason why a message is not passed on, None where it is."""
        session = channel.session
        refused = topic_refusal_of(
            self._access, "publish", channel.gate, session.client_id, session.username, topic
        )
        if refused is not None:
            return refused
        if channel.tenant is not None and (refused := channel.tenant.refusal_of(packet, topic)):
            return refused
        if (
            packet.properties.payload_format
            and self._limits.validate_payloads
            and not is_text(packet.payload)
        ):
            channel.fanout.dropped("payload_format")
            return ReasonCode.PAYLOAD_FORMAT_INVALID, "the payload is not UTF-8"
        return None

    def _pass_on(self, channel: Channel, packet: Publish, message: Message, route: Route) -> None:
        """Hand a message to whoever gets it, and acknowledge it once it is safe there."""
        session, publishing, packet_id = channel.session, self._publishing, packet.packet_id or 0
        ack = (b"\x50\x02" if packet.qos == 2 else b"\x40\x02") + PACKET_ID[packet_id]
        if channel.version == V5 and packet.qos and route is not UNROUTED and compile_plan(route).nobody:
            kind = Puback if packet.qos == 1 else Pubrec
            ack = encode(kind(packet_id, ReasonCode.NO_MATCHING_SUBSCRIBERS), V5)
        if packet.qos and (route is QUEUED or route.captured):
            self._pass_on_queued(channel, packet, message, route, bytearray(ack))
            return
        if packet.qos == 2:
            session.doubtful.pop(packet_id, None)
            session.unreleased(packet_id, message.id)
            session.passing[packet_id] = []
            passed = Until("passed", partial(self._when_noted, channel, message, packet_id))
            channel.acknowledge(ack, 1, peers=(passed,), safe=partial(session.passed, packet_id))
            return
        peers = publishing.pass_on(route, message, session.client_id)
        record = record_of(message, channel.fanout.now()) if peers else b""
        if packet.qos:
            message_ids = (message.id,) if is_recorded(message.id) else ()
            channel.acknowledge(ack, 1, message_ids, peers, record)
        else:
            for peer in peers:
                peer.append(record)
        _hold_up(channel, route, peers)

    def _pass_on_queued(
        self, channel: Channel, packet: Publish, message: Message, route: Route, ack: bytearray
    ) -> None:
        """The same with a message that a queue gets, and may refuse; a record is for others that get it."""
        session, packet_id = channel.session, packet.packet_id or 0

        def known() -> None:
            if message.refusal is None:
                if packet.qos == 2:
                    session.passed(packet_id)
                return
            channel.fanout.dropped("queue_refused")
            reason, why = message.refusal
            if packet.qos == 2 and session.channel is not channel:
                # Its client has sent it again meanwhile, or will: then it is put into the queue again.
                session.not_passed(packet_id)
                if session.channel is not None:
                    session.channel.disconnect(ReasonCode.SERVER_BUSY, detail=why)
                return
            if packet.qos == 2:
                session.passed(packet_id)
                session.release(packet_id)
            if channel.version != V5:
                # It has no word for it but the end, upon which the client sends it again.
                channel.refuse(MqttProtocolError(ReasonCode(reason), "MQTT-3.3.5-2", why))
                return
            kind = Puback if packet.qos == 1 else Pubrec
            ack[:] = explained(kind(packet_id, reason), why, channel.asked)

        if packet.qos == 2:
            session.doubtful.pop(packet_id, None)
            session.unreleased(packet_id, message.id)
            session.passing[packet_id] = []
            when_noted = Until("passed", partial(self._when_noted, channel, message, packet_id))
            channel.acknowledge(ack, 1, peers=(answered(when_noted),), safe=known)
            return
        peers = self._publishing.pass_on(route, message, session.client_id)
        peers = tuple(answered(peer) if isinstance(peer, IntoQueue) else peer for peer in peers)
        record = b"" if route is QUEUED else record_of(message, channel.fanout.now())
        channel.acknowledge(ack, 1, peers=peers, record=record, safe=known)
        _hold_up(channel, route, peers)

    def _when_noted(
        self,
        channel: Channel,
        message: Message,
        packet_id: int,
        _record: bytes,
        on_safe: Callable[[bool], None],
    ) -> None:
        """Pass a message of QoS 2 on once its identifier is on disc; ``on_safe`` once it is safe everywhere.

        Should this node die, the message is sent again, and who has had it must know it. Decided earlier, a
        session that moves meanwhile would be taken for both places, or for neither. Where it cannot be passed
        on the connection ends, so that the client sends it again; where another node has taken the session
        over and may not know the identifier, the client sends it again there.
        """
        session, publishing = channel.session, self._publishing

        def pass_on() -> None:
            try:
                route = publishing.cache_get(message.topic) or publishing.resolve(message.topic)
                peers = publishing.spread(route, message, session.client_id, on_safe)
            except Exception:
                session.not_passed(packet_id)
                raise
            _hold_up(channel, route, peers)

        def committed() -> None:
            if session.store is not None and session.store.is_usurped(session):
                session.not_passed(packet_id)
                if session.channel is not None:
                    # What it waits for comes there.
                    session.channel.disconnect(ReasonCode.SESSION_TAKEN_OVER)
                return
            try:
                pass_on()
            except Exception as error:
                # Whoever is connected now may have sent it again, and waits for this.
                if session.channel is None:
                    raise
                session.channel.crash(error)

        if session.store is None:
            pass_on()
        else:
            when_level = partial(session.store.when_level, session.client_id, committed)
            session.store.of((session,)).append_acked(b"", lambda _safe: when_level())

    def _resolve_alias(self, channel: Channel, packet: Publish) -> bytes:
        alias = packet.properties.topic_alias
        if alias is None:
            return packet.topic
        if alias > self._limits.topic_alias_maximum:
            raise MqttProtocolError(
                ReasonCode.TOPIC_ALIAS_INVALID,
                "MQTT-3.3.2-9",
                f"topic alias {alias}, the maximum is {self._limits.topic_alias_maximum}",
            )
        if channel.aliases is None:
            channel.aliases = {}
        if packet.topic:
            channel.aliases[alias] = packet.topic
            return packet.topic
        topic = channel.aliases.get(alias)
        if topic is None:
            raise violation("MQTT-3.3.2-7", f"topic alias {alias} was not set on this connection")
        return topic

    def _pubrel(self, channel: Channel, packet: Pubrel) -> None:
        known = channel.session.release(packet.packet_id)
        reason = 0 if known or channel.version == V4 else ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
        channel.session.push(encode(Pubcomp(packet.packet_id, reason), channel.version))

    # Being delivered to.

    def _puback(self, channel: Channel, packet: Puback) -> None:
        if not channel.session.acked(packet.packet_id):
            unexpected_ack(channel, packet.packet_id)
            if channel.consumers is not None:
                channel.consumers.send()

    def _pubrec(self, channel: Channel, packet: Pubrec) -> None:
        channel.session.received(packet.packet_id, packet.reason)

    def _pubcomp(self, channel: Channel, packet: Pubcomp) -> None:
        if not channel.session.completed(packet.packet_id):
            unexpected_ack(channel, packet.packet_id)

    # Subscribing.

    def _unsubscribe(self, channel: Channel, packet: Unsubscribe) -> None:
        session = channel.session
        reasons = self._unsubscribed(channel, packet.filters)
        # Its client may have subscribed in another copy of the session.
        session.revise(self._table.stamp(session))
        unsuback = encoded(channel, Unsuback(packet_id=packet.packet_id, reasons=reasons), "")
        if unsuback:
            channel.session.push(unsuback)

    def _unsubscribed(self, channel: Channel, filters: tuple[str, ...]) -> tuple[int, ...]:
        if channel.tenant is not None:
            filters = channel.tenant.filters(filters)
        if self._consuming is None or not any(one.startswith(PREFIX) for one in filters):
            return tuple(self._table.unsubscribe(channel.session, filters))
        own = [one for one in filters if not one.startswith(PREFIX)]
        of_session = iter(self._table.unsubscribe(channel.session, own))
        return tuple(
            self._consuming.unsubscribe(channel, one) if one.startswith(PREFIX) else next(of_session)
            for one in filters
        )

    # Staying and going.

    def _pingreq(self, channel: Channel, _packet: Pingreq) -> None:
        channel.session.push(b"\xd0\0")

    def _disconnect(self, channel: Channel, packet: Disconnect) -> None:
        expiry = packet.properties.session_expiry
        if expiry is not None:
            if expiry and not channel.session.expiry:
                raise violation(
                    "MQTT 3.14.2.2.2", "DISCONNECT makes a session expire later that was to end now"
                )
            channel.session.expiry = min(expiry, self._limits.max_expiry)
        if packet.reason == 0:
            # Said goodbye: no will ([MQTT-3.14.4-3]).
            channel.will = None
        channel.finish("disconnected by client")


def _hold_up(channel: Channel, route: Route, peers: tuple[ForwarderLike, ...]) -> None:
    """Stop reading from ``channel`` if who gets its message is behind."""
    pressure = channel.fanout.pressure
    if pressure and route is not UNROUTED:
        pressure.hold_up(channel, compile_plan(route).sessions, peers)


def _refuse_publish(channel: Channel, packet: Publish, reason: ReasonCode, why: str) -> None:
    """A message that is not passed on. 5.0 tells the client; 3.1.1 has no word but a plain acknowledgement or
    the end of the connection ([MQTT-3.3.5-2]), and the first harms less."""
    packet_id = packet.packet_id or 0
    if not packet.qos:
        if reason == ReasonCode.PAYLOAD_FORMAT_INVALID:
            raise MqttProtocolError(reason, "MQTT 3.3.2.3.2", why)
    elif channel.version == V5:
        answer = Puback(packet_id, reason) if packet.qos == 1 else Pubrec(packet_id, reason)
        channel.acknowledge(explained(answer, why, channel.asked), 1)
    elif packet.qos == 1:
        channel.acknowledge(b"\x40\x02" + PACKET_ID[packet_id], 1)
    else:
        channel.session.unreleased(packet_id, NO_ID)
        _acknowledge(channel, packet_id)


def _acknowledge(channel: Channel, packet_id: int) -> None:
    """Say that an identifier of QoS 2 is known; not before the disc knows it too, and its message is safe."""
    ack = b"\x50\x02" + PACKET_ID[packet_id]
    session = channel.session
    peers: tuple[ForwarderLike, ...] = () if session.store is None else (session.store.of((session,)),)
    if packet_id in session.passing:
        # Sent again: it waits for what becomes of the first.
        waiting = session.passing[packet_id]
        peers += (Until("passing", lambda _record, on_safe: waiting.append(on_safe)),)
    channel.acknowledge(ack, 1, peers=peers)


def unexpected_ack(channel: Channel, packet_id: int) -> None:
    """PUBACK for what is not in flight, but for messages of queues; harmless, so it is only counted."""
    if channel.consumers is not None and channel.consumers.acked(packet_id):
        return
    if not packet_id:
        raise violation("MQTT-2.2.1-5" if channel.version == V5 else "MQTT-2.3.1-6", "packet identifier is 0")
    channel.fanout.dropped("unexpected_ack")
