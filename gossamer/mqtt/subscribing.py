"""Subscribing: what a SUBSCRIBE changes, when it is answered, and what is sent because of it.

Rule: SUBACK says that every live node knows the routes, or that the router has waited long enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from gossamer.errors import UsageError
from gossamer.mqtt.handlers import subscribed
from gossamer.mqtt.packets import Subscription
from gossamer.mqtt.reasons import ReasonCode
from gossamer.mqtt.session import Session
from gossamer.routes import ExclusiveTakenError, SubscriptionOptions, body_of

if TYPE_CHECKING:
    from gossamer.mqtt.broker import Broker
    from gossamer.mqtt.channel import Channel

__all__ = ["Subscribing"]

log = structlog.get_logger(__name__)


class Subscribing:
    """See the module."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        broker.router.on_evicted(self._evicted)

    def subscribe(
        self, session: Session, wanted: Sequence[Subscription], identifier: int | None
    ) -> tuple[list[int], list[tuple[str, int, tuple[int, ...]]], Any, str]:
        """Subscribe ``session``; reason codes, filters whose retained messages to send, what to wait for, and
        why the last one that failed did."""
        reasons: list[int] = []
        why = ""
        # Looked up once: a SUBSCRIBE may have a thousand filters, mostly with the same options.
        capabilities = self._broker.capabilities
        maximum_qos = capabilities.maximum_qos
        maximum = self._broker.max_subscriptions
        subscribe = self._broker.router.subscribe
        mine = session.subscriptions
        asked: tuple[int, bool, bool] | None = None
        options: Any = None
        retained: list[tuple[str, int, tuple[int, ...]]] = []
        seq: Any = None
        gate = session.channel.gate if session.channel is not None else None
        for item in wanted:
            topic_filter = item.filter
            known = topic_filter in mine
            if gate is not None and not gate.may_subscribe(topic_filter):
                self._broker.access.denied("subscribe", session.client_id, session.username, topic_filter)
                reasons.append(ReasonCode.NOT_AUTHORIZED)
                why = "not allowed to subscribe to this filter"
                continue
            missing = capabilities.against_filter(item, identifier)
            if missing is not None:
                reasons.append(missing)
                why = "this node does not offer such subscriptions"
                continue
            if not known and len(mine) >= maximum:
                reasons.append(ReasonCode.QUOTA_EXCEEDED)
                why = f"a session may have {maximum} subscriptions"
                continue
            if item.qos > maximum_qos:
                item = msgspec.structs.replace(item, qos=maximum_qos)
            if asked != (item.qos, item.no_local, item.retain_as_published):
                asked = (item.qos, item.no_local, item.retain_as_published)
                options = self._options(session, item, identifier)
            try:
                done = subscribe(topic_filter, session, options)
            except ExclusiveTakenError:
                reasons.append(ReasonCode.QUOTA_EXCEEDED)
                why = "somebody else has this exclusive subscription"
                continue
            except UsageError as error:
                log.info("filter_refused", client_id=session.client_id, error=str(error))
                why = str(error)
                reasons.append(ReasonCode.TOPIC_FILTER_INVALID)
                continue
            mine[topic_filter] = (item, identifier)
            if done.seq is not None:
                seq = done.seq
            reasons.append(item.qos)
            if topic_filter.startswith("$share/"):
                # Retained messages are not for share groups (MQTT 5.0, 4.8.2).
                continue
            if item.retain_handling == 0 or (item.retain_handling == 1 and not known):
                identifiers = () if identifier is None else (identifier,)
                retained.append((body_of(topic_filter), item.qos, identifiers))
        return reasons, retained, seq, why

    def restore(self, session: Session) -> Any:
        """Subscribe a session to what it knows it has subscribed; what to wait for."""
        seq: Any = None
        for item, identifier in list(session.subscriptions.values()):
            try:
                done = self._broker.router.subscribe(
                    item.filter, session, self._options(session, item, identifier)
                )
            except (UsageError, ExclusiveTakenError) as error:
                # The limits of this node are not those of the one that took the SUBSCRIBE.
                log.warning("subscription_not_restored", client_id=session.client_id, error=str(error))
                del session.subscriptions[item.filter]
                continue
            if done.seq is not None:
                seq = done.seq
        return seq

    def _options(self, session: Session, item: Subscription, identifier: int | None) -> Any:
        return SubscriptionOptions(
            qos=item.qos,
            no_local=item.no_local,
            retain_as_published=item.retain_as_published,
            identifier=identifier,
            lasting=bool(session.expiry and item.qos),
        )

    def unsubscribe(self, session: Session, filters: Iterable[str]) -> list[int]:
        """Unsubscribe; a reason code each."""
        reasons: list[int] = []
        trail = self._broker.hub.trail
        for topic_filter in filters:
            if session.subscriptions.pop(topic_filter, None) is None:
                reasons.append(ReasonCode.NO_SUBSCRIPTION_EXISTED)
                continue
            self._broker.router.unsubscribe(topic_filter, session)
            reasons.append(ReasonCode.SUCCESS)
            if trail is not None:
                trail.unsubscribed(session, (topic_filter,))
        return reasons

    def _evicted(self, session: Any, topic_filter: str) -> None:
        """An exclusive subscription was lost to a client that had it earlier, beyond a split."""
        if isinstance(session, Session):
            session.subscriptions.pop(topic_filter, None)
            if self._broker.hub.trail is not None:
                self._broker.hub.trail.unsubscribed(session, (topic_filter,))

    def when_visible(
        self, channel: Channel, seq: Any, suback: bytes, retained: list[Any], granted: Sequence[str] = ()
    ) -> None:
        """SUBACK once every live node has the routes (bounded by the router)."""
        if seq is None or self._broker.router.is_visible(seq):
            subscribed(channel, suback, retained, granted)
        else:
            wait = partial(self._await_visible, channel, seq, suback, retained, granted)
            self._broker.runtime.spawn(wait, label="mqtt_suback", link_to=channel.pid)

    async def _await_visible(
        self, channel: Channel, seq: Any, suback: bytes, retained: list[Any], granted: Sequence[str]
    ) -> None:
        await self._broker.router.visible(seq)
        if channel.is_up:
            subscribed(channel, suback, retained, granted)
