"""Subscribing: what a SUBSCRIBE changes, when it is answered, and what is sent because of it.

Rules: 1. SUBACK with success says that every node that is not declared down has applied the routes. Where one
has not after ``mqtt.limits.subscribe_wait``, ``mqtt.unconfirmed_subscriptions`` decides: SUBACK is *held*
until it has or is declared down, or the subscriptions are *refused* and undone, or *accepted* all the same,
which clients of 5.0 are told.  2. A client that goes on subscribing while :data:`HELD` of its SUBACKs wait is
not read from. A refused subscription leaves nothing behind; one that the session had before stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import structlog

from gossamer.errors import UsageError
from gossamer.mqtt.codec.encoder import encode, explained
from gossamer.mqtt.codec.packets import V4, Suback, Subscribe, Subscription, Unsuback
from gossamer.mqtt.codec.properties import NONE, Properties
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.connection.channel import Channel
from gossamer.mqtt.connection.consuming import Consuming, Reasons
from gossamer.mqtt.connection.shared import Shared
from gossamer.mqtt.flow.backpressure import UNCONFIRMED
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.publish.queue_words import is_of_queues
from gossamer.mqtt.publish.retained import Retained
from gossamer.mqtt.session.session import Session
from gossamer.mqtt.session.sessions import options_of
from gossamer.mqtt.tenants.limits import reached
from gossamer.routes import ExclusiveTakenError, SubscriptionOptions, body_of

log = structlog.get_logger(__name__)

HELD = 100
"""SUBACKs to one client that may wait for other nodes before it is not read from any more."""
UNCONFIRMED_NODE = "unconfirmed-node"
"""The user property of a SUBACK that names a node that may not forward to the client yet."""

STEP = 200
"""Retained messages a turn."""
RETRY_INTERVAL = 0.05
"""Seconds between looks at a client that does not take what it is sent."""
FETCHES = 16
"""How many retained messages are fetched from other nodes at the same time, for one subscriber."""

Wanted = list[tuple[str, int, tuple[int, ...]]]
"""Filter, QoS and subscription identifiers."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a SUBSCRIBE: a reason code for each filter, and ``why`` the last one that failed did."""

    reasons: list[int]
    why: str = ""
    retained: Wanted = field(default_factory=list)
    """Filters whose retained messages to send, with QoS and identifiers."""
    seq: Any = None
    """What to wait for; None: nothing."""
    added: frozenset[str] = frozenset()
    """Filters that the session did not have before."""
    notes: tuple[tuple[str, str], ...] = ()
    """User properties of the SUBACK."""
    at: int = 0
    """When the subscriptions changed (:meth:`SessionTable.stamp`)."""


class Subscribing:
    """Handler of SUBSCRIBE: changes the routes, and answers once they are visible."""

    def __init__(
        self, shared: Shared, retained: Retained, *, unconfirmed: str, consuming: Consuming | None = None
    ) -> None:
        self._consuming = consuming
        self._router = shared.router
        self._table = shared.table
        self._access = shared.access
        self._log = shared.log_limit
        self._capabilities = shared.limits.capabilities
        self._maximum = shared.limits.max_subscriptions
        self._retained = retained
        self._unconfirmed = unconfirmed
        self.on_subscribed: Callable[[str], object] | None = None
        """Told of clients that have subscribed to something for a session that outlives its connection."""

    def subscribe(self, channel: Channel, packet: Subscribe) -> None:
        """Take SUBSCRIBE, and answer once every live node has the routes, or as the configuration says."""
        if channel.tenant is not None:
            self._change(channel, *channel.tenant.subscriptions(packet))
            return
        of_queues = [item for item in packet.subscriptions if is_of_queues(item.filter)]
        if not of_queues or self._consuming is None:
            self._change(channel, packet, {})
            return
        refused = {item.filter: self._refusal_of(channel.session, item, None) for item in of_queues}
        known = {name: why for name, why in refused.items() if why is not None}
        joining = [item for item in of_queues if item.filter not in known]
        if not joining:
            self._change(channel, packet, known)
            return
        self._hold(channel)
        joined = partial(self._joined, channel, packet, known)
        self._consuming.subscribe(channel, packet, joining, joined)

    def _joined(self, channel: Channel, packet: Subscribe, known: Reasons, reasons: Reasons) -> None:
        """Go on with a SUBSCRIBE once its consumers have joined."""
        if channel.is_up:
            self._release(channel)
            self._change(channel, packet, {**known, **reasons})

    def _change(self, channel: Channel, packet: Subscribe, known: Reasons) -> None:
        outcome = self._subscribed(channel.session, packet, known)
        if outcome.seq is None or self._router.is_visible(outcome.seq):
            self._answer(channel, packet, outcome)
            return
        self._hold(channel)
        self._router.when_visible(outcome.seq, partial(self._seen, channel, packet, outcome))

    def _hold(self, channel: Channel) -> None:
        """Note that a SUBACK waits."""
        channel.held += 1
        if channel.held >= HELD:
            channel.pause_reading(UNCONFIRMED)

    def _release(self, channel: Channel) -> None:
        channel.held -= 1
        if channel.reading_paused & UNCONFIRMED and channel.held <= HELD // 2:
            channel.resume_reading(UNCONFIRMED)

    def _subscribed(self, session: Session, packet: Subscribe, decided: Reasons) -> Outcome:
        """Change routes and session; ``decided``: filters of queues, and others refused before."""
        identifiers = packet.properties.subscription_identifiers
        identifier = identifiers[0] if identifiers else None
        reasons: list[int] = []
        added: set[str] = set()
        why = ""
        # Looked up once: a SUBSCRIBE may have a thousand filters, mostly with the same options.
        maximum_qos = self._capabilities.maximum_qos
        subscribe = self._router.subscribe
        mine = session.subscriptions
        asked: tuple[int, bool, bool] | None = None
        options: SubscriptionOptions
        retained: Wanted = []
        seq: int | None = None
        for item in packet.subscriptions:
            topic_filter = item.filter
            if topic_filter in decided:
                reason, refused = decided[topic_filter]
                reasons.append(reason)
                why = refused or why
                continue
            known = topic_filter in mine
            refusal = self._refusal_of(session, item, identifier)
            if refusal is not None:
                reason, why = refusal
                reasons.append(reason)
                continue
            if item.qos > maximum_qos:
                item = msgspec.structs.replace(item, qos=maximum_qos)
            if asked != (item.qos, item.no_local, item.retain_as_published):
                asked = (item.qos, item.no_local, item.retain_as_published)
                options = options_of(session, item, identifier)
            try:
                done = subscribe(topic_filter, session, options)
            except ExclusiveTakenError:
                reasons.append(ReasonCode.QUOTA_EXCEEDED)
                why = "somebody else has this exclusive subscription"
                continue
            except UsageError as error:
                self._log.write(log.info, "filter_refused", client_id=session.client_id, error=str(error))
                why = str(error)
                reasons.append(ReasonCode.TOPIC_FILTER_INVALID)
                continue
            session.subscribe(item, identifier)
            if not known:
                added.add(topic_filter)
            if done.seq is not None:
                seq = done.seq
            reasons.append(item.qos)
            # Retained messages are not for share groups (MQTT 5.0, 4.8.2).
            shared = topic_filter.startswith("$share/")
            if not shared and (item.retain_handling == 0 or (item.retain_handling == 1 and not known)):
                retained.append((body_of(topic_filter), item.qos, identifiers[:1]))
        return Outcome(reasons, why, retained, seq, frozenset(added), at=self._table.stamp(session))

    def _refusal_of(
        self, session: Session, item: Subscription, identifier: int | None
    ) -> tuple[int, str] | None:
        """The reason code and the reason why a session may not have a subscription, None if it may."""
        gate = session.channel.gate if session.channel is not None else None
        if gate is not None and not gate.may_subscribe(item.filter):
            self._access.denied("subscribe", session.client_id, session.username, item.filter)
            return ReasonCode.NOT_AUTHORIZED, "not allowed to subscribe to this filter"
        offered, missing = self._capabilities, None
        if identifier is not None and not offered.subscription_identifiers:
            missing = ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED
        elif not offered.shared and item.filter.startswith("$share/"):
            missing = ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
        elif not offered.wildcards and ("+" in item.filter or "#" in item.filter):
            missing = ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED
        if missing is not None:
            return missing, "this node does not offer such subscriptions"
        new = item.filter not in session.subscriptions
        tenant = None if session.channel is None else session.channel.tenant
        most = None if tenant is None else tenant.limits.max_subscriptions
        if tenant is not None and most is not None and new and len(session.subscriptions) >= most:
            return ReasonCode.QUOTA_EXCEEDED, reached(tenant.name, "max_subscriptions", most)
        if new and len(session.subscriptions) >= self._maximum:
            return ReasonCode.QUOTA_EXCEEDED, f"a session may have {self._maximum} subscriptions"
        return None

    def _seen(self, channel: Channel, packet: Subscribe, outcome: Outcome, visible: bool) -> None:
        """Answer, or do what the configuration says where a node has not applied the routes."""
        router = self._router
        if not channel.is_up:
            return
        try:
            if not visible and self._unconfirmed == "hold":
                again = partial(self._seen, channel, packet, outcome)
                router.when_visible(outcome.seq, again, bounded=False)
                return
            if not visible and self._unconfirmed == "refuse":
                outcome = self._refused(channel, packet, outcome)
            elif not visible:
                missing = router.unconfirmed(outcome.seq)
                why = outcome.why or f"what is published at {', '.join(missing)} may not come yet"
                notes = tuple((UNCONFIRMED_NODE, name) for name in missing)
                outcome = replace(outcome, why=why, notes=notes)
            channel.answered = self._table.stamp(channel.session) / 1e6
            self._release(channel)
            self._answer(channel, packet, outcome)
        except Exception as error:  # noqa: BLE001 - the loop's own handler would only print it
            channel.crash(error)

    def _answer(self, channel: Channel, packet: Subscribe, outcome: Outcome) -> None:
        """Answer a SUBSCRIBE, then send what is retained."""
        session, recorder = channel.session, channel.fanout.recorder
        reasons = outcome.reasons
        if min(reasons) < 0x80:
            session.revise(outcome.at)
        properties = Properties(user=outcome.notes) if outcome.notes else NONE
        answer = Suback(packet_id=packet.packet_id, reasons=tuple(reasons), properties=properties)
        suback = encoded(channel, answer, outcome.why)
        if suback:
            session.push(suback)
        if recorder is not None:
            pairs = zip(packet.subscriptions, reasons, strict=True)
            recorder.subscribed(session, [wanted.filter for wanted, reason in pairs if reason < 0x80], None)
        if session.expiry and self.on_subscribed is not None:
            self.on_subscribed(session.client_id)
        if outcome.retained and len(self._retained):
            RetainedDelivery(channel, self._retained, outcome.retained).step()

    def _refused(self, channel: Channel, packet: Subscribe, outcome: Outcome) -> Outcome:
        """Undo what is not known everywhere."""
        missing = self._router.unconfirmed(outcome.seq)
        undone = [
            item.filter
            for item, reason in zip(packet.subscriptions, outcome.reasons, strict=True)
            if reason < 0x80 and item.filter in outcome.added
        ]
        self._table.unsubscribe(channel.session, undone)
        reasons = [
            ReasonCode.UNSPECIFIED_ERROR if item.filter in undone else reason
            for item, reason in zip(packet.subscriptions, outcome.reasons, strict=True)
        ]
        left = [wanted for wanted in outcome.retained if wanted[0] not in {body_of(name) for name in undone}]
        why = f"not confirmed by {', '.join(missing)}; subscribe again later"
        return replace(outcome, reasons=reasons, retained=left, why=why)


def encoded(channel: Channel, packet: Suback | Unsuback, why: str) -> bytes:
    """Empty where the client takes nothing so large ([MQTT-3.1.2-25])."""
    if channel.version == V4:
        return encode(packet, V4)
    data = explained(packet, why, channel.asked)
    if not data:
        channel.fanout.dropped("too_large")
    return data


class RetainedDelivery:
    """Sends one SUBSCRIBE's retained messages: :data:`STEP` a turn, and no faster than the client takes them.

    A step looks a topic up when its turn has come: what is sent is what is retained *then*. What another node
    must be asked for is sent when it comes; nothing else waits for it.
    """

    __slots__ = ("_channel", "_far", "_items", "_store")

    def __init__(self, channel: Channel, store: Retained, wanted: Wanted) -> None:
        self._channel = channel
        self._store = store
        self._items = (
            (topic, qos, identifiers)
            for topic_filter, qos, identifiers in wanted
            for topic in store.topics(topic_filter)
        )
        self._far: Wanted = []

    def step(self) -> None:
        """Send some, and see to it that the rest is sent."""
        channel = self._channel
        if not channel.is_up:
            return
        try:
            self._step()
        except Exception as error:  # noqa: BLE001 - the loop's own handler would only print it
            channel.crash(error)

    def _step(self) -> None:
        channel = self._channel
        session = channel.session
        loop = channel.runtime.loop
        behind = session.queued_bytes > channel.fanout.pressure.congested_at
        if channel.write_full or behind or len(session.queue) * 4 > session.max_queued:
            loop.call_later(RETRY_INTERVAL, self.step)
            return
        count = 0
        for topic, qos, identifiers in islice(self._items, STEP):
            count += 1
            found = self._store.get(topic)
            if isinstance(found, Message):
                session.take(
                    found, qos=min(qos, found.qos), retain=True, identifiers=identifiers, stored=True
                )
            elif found is not None:
                self._far.append((topic, qos, identifiers))
        if count == STEP:
            loop.call_soon(self.step)
        elif self._far:
            channel.runtime.spawn(self._fetch_all, label="mqtt_retained", link_to=channel.pid)

    async def _fetch_all(self) -> None:
        waiting = iter(self._far)

        async def fetch() -> None:
            for topic, qos, identifiers in waiting:
                message = self._store.get(topic)
                if message is not None and not isinstance(message, Message):
                    message = await message()
                channel = self._channel
                if not channel.is_up:
                    return
                if message is not None:
                    channel.session.take(
                        message,
                        qos=min(qos, message.qos),
                        retain=True,
                        identifiers=identifiers,
                        stored=True,
                    )

        await asyncio.gather(*(fetch() for _ in range(min(FETCHES, len(self._far)))))
