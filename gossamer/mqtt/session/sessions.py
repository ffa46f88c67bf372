"""Sessions of a node: resumption, takeover on the same node, expiry, and when a will is sent.

Rules: 1. One connection a session: a second one with the same client identifier takes the session over and
ends the first ([MQTT-3.1.4-3]).  2. A session outlives its connection for its expiry interval; 0 ends it
with the connection ([MQTT-3.1.2-23], [MQTT-4.1.0-2]).  3. A will is sent once: when its connection ended
without DISCONNECT and its delay is over or the session ends, whichever is first, unless the client is back
before that ([MQTT-3.1.2-8], [MQTT-3.1.3-9]). In a cluster the other nodes are asked first (``wills``).

A session that outlives its connection is on disc too where ``store`` is there (see ``durable``), and comes
back with its node; one that does not is in memory alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec
import structlog

from gossamer.clock import Clock
from gossamer.errors import UsageError
from gossamer.mqtt.codec.errors import MqttProtocolError
from gossamer.mqtt.codec.packets import Subscription, Will
from gossamer.mqtt.codec.properties import NONE
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.flow.deadlines import Wheel
from gossamer.mqtt.messages.message import Message
from gossamer.mqtt.messages.records import record_of
from gossamer.mqtt.session.durable import DurableSession
from gossamer.mqtt.session.orphans import Orphan, orphans
from gossamer.mqtt.session.session import FanoutLike, Session
from gossamer.mqtt.session.store import SessionStore, Stored
from gossamer.mqtt.session.transfer import Pending
from gossamer.mqtt.session.wills import Wills
from gossamer.routes import ExclusiveTakenError, Router, SubscriptionOptions

log = structlog.get_logger(__name__)

NEVER = 0xFFFFFFFF
"""Session expiry interval of MQTT 5.0 with which a session never ends."""


def options_of(session: Session, item: Subscription, identifier: int | None) -> SubscriptionOptions:
    """Return the options of a subscription for the router."""
    return SubscriptionOptions(
        qos=item.qos,
        no_local=item.no_local,
        retain_as_published=item.retain_as_published,
        identifier=identifier,
        persistent=bool(session.expiry and item.qos),
    )


class SessionTable:
    """Table of this node's sessions by client identifier; it creates, resumes and ends them.

    ``max_queued`` in messages a session. ``owned``: sessions belong to users.
    """

    def __init__(
        self,
        *,
        fanout: FanoutLike,
        wheel: Wheel,
        router: Router,
        wills: Wills,
        clock: Clock,
        max_queued: int,
        keep_oldest: bool = False,
        owned: bool = False,
    ) -> None:
        self.sessions: dict[str, Session] = {}
        self._fanout = fanout
        self._wheel = wheel
        self._router = router
        router.on_evicted(self._evicted)
        self.publish: Callable[..., object] = lambda _message, **_: None
        """Publishes a will."""
        self._wills = wills
        self._clock = clock
        self._max_queued = max_queued
        self._keep_oldest = keep_oldest
        self._owned = owned
        self.store: SessionStore | None = None
        """Store of sessions that survive the node; set once, before the first client comes."""
        self.redispatch: Callable[[list[Orphan]], object] = lambda _left: None
        """Called with the orphans of a session that ended."""
        self.on_end: Callable[[str], object] = lambda _client_id: None

    def belongs(self, session: Session | None, username: str | None) -> bool:
        """Return whether a user may have a session, if any; None, anonymous, is a user like others."""
        return session is None or self.may_have(session.username, username)

    def may_have(self, owner: str | None, username: str | None) -> bool:
        """Return whether a user may have a session of ``owner``."""
        return not self._owned or owner == username

    def open(self, client_id: str, *, clean: bool, expiry: int) -> tuple[Session, bool]:
        """Return the session for a new connection, and whether it was there before."""
        session = self.sessions.get(client_id)
        if session is not None and session.channel is not None:
            self.take_over(session, clean=clean)
            session = self.sessions.get(client_id)
        if session is not None and clean:
            self.end(session, "clean_start")
            session = None
        if session is None:
            return self.create(client_id, expiry), False
        # Back before its will was due: the will is forgotten.
        session.will_due = session.will_at = None
        session.expiry = expiry
        if session.deadline is not None:
            session.deadline.cancel()
            session.deadline = None
        return session, True

    async def end_clean(self, client_id: str) -> None:
        """End the session of a client that makes a clean start; return once it is deleted from disc."""
        session = self.sessions.get(client_id)
        if session is None:
            return
        if session.channel is not None:
            self.take_over(session, clean=True)
        if self.sessions.get(client_id) is session:
            self.end(session, "clean_start")
        if session.store is not None:
            await session.store.disc.settled()

    def create(self, client_id: str, expiry: int) -> Session:
        """Create a session without a connection, on disc if it has an ``expiry`` and there is a disc."""
        session: Session
        if expiry and self.store is not None:
            session = DurableSession(
                client_id,
                fanout=self._fanout,
                store=self.store,
                max_queued=self._max_queued,
                keep_oldest=self._keep_oldest,
            )
        else:
            session = Session(
                client_id, fanout=self._fanout, max_queued=self._max_queued, keep_oldest=self._keep_oldest
            )
        session.expiry = expiry
        self.sessions[client_id] = session
        return session

    def restore(self, stored: Stored) -> Session | None:
        """Restore a session from disc, as if its client had just disconnected; None: it has expired, or all
        of it is at another node."""
        facts = stored.facts
        store = self.store
        assert store is not None  # noqa: S101 - the disc had it
        assert facts is not None  # noqa: S101 - the store yields no others
        expired = facts.expires is not None and store.moment(facts.expires) <= self._fanout.now()
        if expired or (facts.succeeded and not stored.left):
            store.discard(stored)
            return None
        session = self.create(stored.client_id, facts.expiry)
        assert isinstance(session, DurableSession)  # noqa: S101 - it has an expiry, or would not be there
        session.restore(stored)
        if session.series != facts.series:
            session.save()
        if facts.expires is not None:
            self._expire_at(session, store.moment(facts.expires))
        else:
            self.rest(session)
        return session

    # Subscriptions.

    def subscribe_again(self, session: Session) -> Any:
        """Route the subscriptions of a session; return what :meth:`Router.visible` waits for."""
        seq: Any = None
        for item, identifier in list(session.subscriptions.values()):
            try:
                done = self._router.subscribe(item.filter, session, options_of(session, item, identifier))
            except (UsageError, ExclusiveTakenError) as error:
                # The limits of this node are not those of the one that took the SUBSCRIBE.
                log.warning("subscription_not_restored", client_id=session.client_id, error=str(error))
                session.unsubscribe(item.filter)
                continue
            if done.seq is not None:
                seq = done.seq
        return seq

    def unsubscribe(self, session: Session, filters: Iterable[str]) -> list[int]:
        """Unsubscribe a session; return a reason code for each filter."""
        reasons: list[int] = []
        recorder = self._fanout.recorder
        for topic_filter in filters:
            if not session.unsubscribe(topic_filter):
                reasons.append(ReasonCode.NO_SUBSCRIPTION_EXISTED)
                continue
            self._router.unsubscribe(topic_filter, session)
            reasons.append(ReasonCode.SUCCESS)
            if recorder is not None:
                recorder.unsubscribed(session, (topic_filter,))
        return reasons

    def stamp(self, session: Session) -> int:
        """Return the time of a change of subscriptions now, in µs of the day, later than the last one."""
        return max(int(self._clock.wall() * 1e6), session.revised + 1)

    def _evicted(self, session: object, topic_filter: str) -> None:
        """Remove an exclusive subscription that was lost to an earlier one on the other side of a split."""
        if isinstance(session, Session):
            session.unsubscribe(topic_filter)
            if self._fanout.recorder is not None:
                self._fanout.recorder.unsubscribed(session, (topic_filter,))

    # Connections.

    def take_over(self, session: Session, *, clean: bool) -> None:
        """End the connection of a session for a new one; a delayed will waits for that, unless ``clean``."""
        channel = session.channel
        will = channel.will
        # One that ends with its connection has nothing to come back to.
        delayed = will is not None and will.properties.will_delay and session.expiry and not clean
        channel.disconnect(ReasonCode.SESSION_TAKEN_OVER, will=not delayed)

    def suspend(self, session: Session) -> Pending:
        """End the connection of a session that moves, and stop its timers; return them for :meth:`revive`."""
        now = self._fanout.now()
        channel = session.channel
        will, will_at = session.will_due, session.will_at
        if channel is not None:
            own: Will | None = channel.will
            delay = 0 if own is None else own.properties.will_delay or 0
            if delay and session.expiry:
                # It waits for the client, which is expected on the other node.
                session.will_due = will = own
                will_at = now + min(delay, session.expiry)
            self.take_over(session, clean=False)
        left = None if session.expires_at is None else session.expires_at - now
        session.expires_at = session.will_at = None
        session.will_due = will
        if session.deadline is not None:
            session.deadline.cancel()
            session.deadline = None
        if will is None or will_at is None:
            self._wills.release(session.client_id, now)
            return Pending(left, None, None)
        if channel is not None:
            self._wills.count_down(session.client_id, will_at - now)
        return Pending(left, will, will_at - now, tuple(self._wills.offer(session.client_id)))

    def revive(self, session: Session, pending: Pending) -> None:
        """Start the timers of a session without a connection that moved here, or stayed."""
        now = self._fanout.now()
        if pending.left is not None:
            self._expire_at(session, now + pending.left)
        if pending.will is not None and pending.will_left is not None:
            record = record_of(self._message(pending.will), now)
            stamps = list(pending.stamps)
            if self._wills.resume(session.client_id, record, pending.will_left, stamps, now):
                session.will_due = pending.will
                session.will_at = now + pending.will_left
                self._wheel.at(session.will_at, partial(self._will_due, session, pending.will))
        session.save()

    def forget_plans(self) -> None:
        """Drop compiled plans, as a session changed its version or limits."""
        for route in list(self._router.cache.values()):
            route.plan = None

    def released(self, session: Session, channel: object, will: Will | None) -> None:
        """Detach a channel that ended from ``session``, and send or delay its ``will``."""
        if session.channel is not channel:
            return
        session.detach()
        delay = will.properties.will_delay or 0 if will is not None else 0
        if will is not None:
            if delay and session.expiry:
                session.will_due = will
                session.will_at = self._fanout.now() + min(delay, session.expiry)
                self._wheel.at(session.will_at, partial(self._will_due, session, will))
                self._wills.count_down(session.client_id, min(delay, session.expiry))
            else:
                self._send_will(will, session.client_id)
        if session.will_due is None:
            self._wills.release(session.client_id, self._fanout.now())
        self.rest(session)

    def rest(self, session: Session) -> None:
        """End a session without a connection, now or after its expiry interval."""
        if not session.expiry:
            self._end_and_redispatch(session)
            return
        if session.expiry != NEVER:
            self._expire_at(session, self._fanout.now() + session.expiry)
        session.save()

    def _expire_at(self, session: Session, when: float) -> None:
        session.expires_at = when
        session.deadline = self._wheel.at(when, partial(self._expire, session))

    def _will_due(self, session: Session, will: Will, now: float) -> None:
        if session.will_due is will and session.will_at is not None and session.will_at <= now:
            session.will_due = session.will_at = None
            self._send_will(will, session.client_id)
            self._wills.release(session.client_id, self._fanout.now())
            session.save()

    def leave_will(self, client_id: str, will: Will | None, expiry: int) -> int:
        """Keep the ``will`` of a client that is connected in the cluster; return the number of the write, 0:
        there is none to wait for."""
        if will is None:
            self._wills.release(client_id, self._fanout.now())
            return 0
        record = record_of(self._message(will), self._fanout.now())
        delay = min(will.properties.will_delay or 0, expiry)
        return self._wills.hold(client_id, record, delay, self._fanout.now())

    def void_will(self, client_id: str) -> None:
        """Void the will of a client that other nodes have published while they could not see this one."""
        session = self.sessions.get(client_id)
        if session is None:
            return
        if session.channel is not None:
            session.channel.will = None
        session.will_due = session.will_at = None

    def _message(self, will: Will) -> Message:
        properties = will.properties
        if properties.will_delay is not None:
            properties = msgspec.structs.replace(properties, will_delay=None)
        expiry = properties.message_expiry
        return Message(
            will.topic,
            will.payload,
            qos=will.qos,
            retain=will.retain,
            properties=NONE if properties == NONE else properties,
            expires_at=None if expiry is None else self._fanout.now() + expiry,
        )

    def _send_will(self, will: Will, client_id: str) -> None:
        message_id = self._wills.message_id(client_id)
        if self._wills.end(client_id, self._fanout.now()):
            return
        message = self._message(will)
        try:
            self.publish(message, client_id=client_id, message_id=message_id)
        except MqttProtocolError as error:
            log.warning("will_not_published", error=str(error))

    def _expire(self, session: Session, now: float) -> None:
        if session.expires_at is not None and session.expires_at <= now:
            self._end_and_redispatch(session)

    def _end_and_redispatch(self, session: Session) -> None:
        """End a session that is on no other node; its orphans go to other members of their groups."""
        left = orphans(session)
        self.end(session, "expired" if session.expiry else "disconnected")
        if left:
            self.redispatch(left)

    def kick(self, client_id: str) -> bool:
        """End a client's connection and session; False: there is none."""
        session = self.sessions.get(client_id)
        if session is None:
            return False
        if session.channel is not None:
            session.channel.disconnect(ReasonCode.ADMINISTRATIVE_ACTION)
        self.end(session, "kicked")
        return True

    def end(self, session: Session, why: str | None = "ended") -> None:
        """End a session and its subscriptions; a will still delayed is due now ([MQTT-3.1.2-8]).

        ``why`` is for the flow recorder; None: it goes on elsewhere, and nothing is recorded.
        """
        if why is not None and self._fanout.recorder is not None:
            self._fanout.recorder.ended(session, why)
        served = self.sessions.get(session.client_id) is session
        if served:
            del self.sessions[session.client_id]
            self.on_end(session.client_id)
        session.expires_at = None
        if session.deadline is not None:
            session.deadline.cancel()
            session.deadline = None
        will, session.will_due, session.will_at = session.will_due, None, None
        had_subscriptions = bool(session.subscriptions)
        if why is None:
            session.departed = True
            if served and session.store is not None:
                # If not, the copy is that of the one that is here now.
                session.store.leave(session.client_id)
        session.forget()
        if had_subscriptions:
            self._router.unsubscribe_all(session)
            session.subscriptions.clear()
        if will is not None:
            self._send_will(will, session.client_id)
            self._wills.release(session.client_id, self._fanout.now())
