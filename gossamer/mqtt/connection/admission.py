"""Admission of clients: the decision on a CONNECT, from its first check to CONNACK.

In order: what the standard forbids; whether this node takes anybody now; who the client is (which may take a
question to somebody else); what it may do; where its session is; the session itself.

Rules: 1. Of a client that waits for an answer its CONNECT is held and little else; a client that closes
meanwhile is gone.  2. Which of two connections of a client is served, on whichever nodes they are, is
decided by when they came (``claims``): each gets its stamp with its first look.  3. A session belongs to the
user that it began with, anonymous or not. Another user is refused before the session moves, ends or loses its
connection.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial

from msgspec import structs

from gossamer.mqtt.auth.sources import Login, Verdict
from gossamer.mqtt.codec.encoder import explained
from gossamer.mqtt.codec.packets import V4, V5, Connack, Connect, Will
from gossamer.mqtt.codec.properties import NONE, Properties
from gossamer.mqtt.codec.reasons import ReasonCode, goodbye_of
from gossamer.mqtt.connection.channel import Channel
from gossamer.mqtt.connection.enhanced import Enhanced
from gossamer.mqtt.connection.limits import Shedding
from gossamer.mqtt.connection.rechecking import check_again
from gossamer.mqtt.connection.shared import Shared, missing_properties, will_refusal_of
from gossamer.mqtt.migration.claims import Fetched
from gossamer.mqtt.migration.takeover import Takeovers
from gossamer.mqtt.publish.delayed import UNROUTED
from gossamer.mqtt.session.session import Session
from gossamer.routes import TopicLimits
from gossamer.tenants import DEFAULT, split


@dataclass(frozen=True, slots=True)
class _Entrant:
    """A client that is let in: what it asked for, and who it is."""

    channel: Channel
    packet: Connect
    client_id: str
    """As it is inside: with its tenant (:mod:`gossamer.tenants`)."""
    username: str | None
    told: Properties
    """What enhanced authentication has to say in CONNACK."""

    @property
    def lasts(self) -> bool:
        """Return whether it asks for a session that outlives its connection, or for the one it had."""
        return not self.packet.clean_start or bool(self.packet.properties.session_expiry)


class Admission:
    """Handler of CONNECT: authenticates the client, claims its session, and sends CONNACK."""

    def __init__(
        self,
        shared: Shared,
        shedding: Shedding,
        *,
        rng: random.Random,
        topics: TopicLimits,
        response_information: str | None,
    ) -> None:
        self._fanout = shared.fanout
        self._table = shared.table
        self._access = shared.access
        self._limits = shared.limits
        self._wheel = shared.wheel
        self._runtime = shared.runtime
        self._clock = shared.clock
        self._tenants = shared.tenants
        self._shedding = shedding
        self._rng = rng
        self._topics = topics
        self._response_information = response_information
        self.enhanced = Enhanced(shared.access.methods, decided=self._decided, again=self._again)
        self.references: Iterator[str] | None = None
        """Where clients are sent, one after the other, while this node is drained (see ``drain``)."""
        self.takeovers: Takeovers | None = None
        self.on_return: Callable[[str], object] = lambda _client_id: None
        """Told of every client that has connected."""
        self.when_known: Callable[[int, Callable[[], object]], bool] = lambda _number, _callback: True
        """Whether a will is safe, by the number of its write; where not, calls back once it is."""
        self._bringing: dict[tuple[str, str | None], Channel] = {}
        """Who waits for a session that is on its way here, by client and user."""
        self._untold: dict[str, Session] = {}
        """New sessions of which no CONNACK has told their client."""

    def check(self, channel: Channel, now: float) -> float | None:
        """Connect timeout and keep alive ([MQTT-3.1.2-22])."""
        if not channel.is_up:
            channel.listener.refused("connect_timeout")
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
        channel.asked = packet.properties
        channel.came = self._fanout.now()
        if self.takeovers is not None:
            channel.stamp = self.takeovers.contests.stamp(packet.client_id)
        if not packet.client_id and packet.version == V4 and not packet.clean_start:
            # [MQTT-3.1.3-8] of 3.1.1
            channel.rejected(
                ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "empty client identifier without clean session"
            )
            return
        if self._shedding.on:
            if self._fanout.recorder is not None:
                self._fanout.recorder.refused(packet.client_id, "shed")
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
            certificate=channel.listener.certificate_of(channel.transport),
            tenant=channel.listener.tenant_of(channel.transport),
        )
        if packet.properties.authentication_method is not None:
            self.enhanced.begin(channel, packet, login)
            return
        answer = self._access.ask(login)
        if isinstance(answer, Verdict):
            self._decided(channel, packet, login, answer)
        else:
            decide = partial(self._authenticate, channel, packet, login, answer)
            self._runtime.spawn(decide, label="mqtt_authenticate", link_to=channel.pid)

    async def _authenticate(
        self, channel: Channel, packet: Connect, login: Login, answer: Awaitable[Verdict]
    ) -> None:
        verdict = await answer
        if not channel.is_closed:
            self._decided(channel, packet, login, verdict)

    def _again(self, channel: Channel, login: Login, verdict: Verdict) -> None:
        """A client in service has authenticated again, or tried to."""
        tenant = verdict.tenant in (None, channel.tenant_name or DEFAULT)
        if verdict.reason == ReasonCode.SUCCESS and not (tenant and verdict.username == login.username):
            verdict = Verdict(ReasonCode.NOT_AUTHORIZED, verdict.by, verdict.username)
        self._access.decided(login, verdict)
        if verdict.reason == ReasonCode.SUCCESS:
            self._holds_until(channel, verdict)
        else:
            channel.disconnect(goodbye_of(verdict.reason), detail="authenticating again has failed")

    def _holds_until(self, channel: Channel, verdict: Verdict) -> None:
        if channel.ends is not None:
            channel.ends.cancel()
            channel.ends = None
        if verdict.expires_at is not None:
            left = max(0.0, verdict.expires_at - self._clock.wall())
            channel.ends = self._wheel.at(self._fanout.now() + left, partial(_expired, channel))

    def _decided(
        self, channel: Channel, packet: Connect, login: Login, verdict: Verdict, told: Properties = NONE
    ) -> None:
        why = f"not let in: {verdict.reason.name.lower()}"
        if verdict.reason == ReasonCode.SUCCESS:
            refused = self._tenants.place(channel, login, verdict)
            if refused is not None:
                verdict, why = Verdict(refused[0], verdict.by, verdict.username), refused[1]
        self._access.decided(login, verdict)
        if verdict.reason != ReasonCode.SUCCESS:
            channel.rejected(verdict.reason, why)
            return
        self._admit(channel, packet, verdict, told)

    def _admit(self, channel: Channel, packet: Connect, verdict: Verdict, told: Properties) -> None:
        client_id = packet.client_id or f"gm-{self._rng.getrandbits(96):024x}"
        username, tenant = verdict.username, channel.tenant
        channel.username = username
        gate = self._access.gate(client_id, username, channel.cache_get, channel.tenant_name)
        if packet.will is not None:
            refused = will_refusal_of(
                self._access, self._limits, self._topics, gate, client_id, username, packet.will
            )
            if refused is not None:
                channel.rejected(*refused)
                return
        if tenant is not None:
            client_id = tenant.client(client_id)
            if packet.will is not None:
                packet = structs.replace(packet, will=tenant.will(packet.will))
            if self.takeovers is not None:
                channel.stamp = self.takeovers.contests.stamp(client_id)
        if gate is not None:
            channel.gate = gate
            channel.cache_get = gate.get
        if not self._limits.capabilities.maximum_qos:
            # The fast path takes QoS 1, so there is none.
            channel.cache_get = lambda _topic: UNROUTED
        channel.listener.admitted(channel)
        self._holds_until(channel, verdict)
        entrant = _Entrant(channel, packet, client_id, username, told)
        takeovers, clean = self.takeovers, packet.clean_start
        if takeovers is not None and takeovers.elsewhere(client_id, clean=clean, lasts=entrant.lasts):
            # Not linked to the channel: a session on its way arrives, whether its client waits or not.
            self._runtime.spawn(self._bring, takeovers, entrant, label="mqtt_takeover")
            return
        self._enter(entrant)

    async def _bring(self, takeovers: Takeovers, entrant: _Entrant) -> None:
        """The client's session is on another node: bring it here, or have it ended there."""
        channel, client_id = entrant.channel, entrant.client_id
        key = client_id, entrant.username
        before = self._bringing.get(key)
        if before is not None:
            before.rejected(ReasonCode.SERVER_BUSY, "its client has connected again")
        self._bringing[key] = channel
        fetched: Fetched = "elsewhere"
        try:
            if not channel.is_closed:
                clean, lasts = entrant.packet.clean_start, entrant.lasts
                fetched = await takeovers.fetch(client_id, clean=clean, lasts=lasts, claimant=channel)
        finally:
            if self._bringing.get(key) is channel:
                del self._bringing[key]
        if fetched == "foreign":
            self._refuse_foreign(entrant)
            return
        if fetched == "elsewhere":
            channel.rejected(ReasonCode.SERVER_BUSY, "its client has connected to another node since")
            return
        if fetched == "unavailable":
            channel.rejected(ReasonCode.SERVER_UNAVAILABLE, "no quorum has all of its session now")
        if not channel.is_closed:
            self._enter(entrant)
            return
        session = self._table.sessions.get(client_id)
        if session is not None and session.channel is None and session.deadline is None:
            self._table.rest(session)

    def _enter(self, entrant: _Entrant) -> None:
        session = self._table.sessions.get(entrant.client_id)
        if entrant.packet.clean_start and session is not None and session.store is not None:
            linked = entrant.channel.pid
            self._runtime.spawn(self._start_clean, entrant, label="mqtt_clean_start", link_to=linked)
        else:
            self._open(entrant)

    async def _start_clean(self, entrant: _Entrant) -> None:
        """The disc must have forgotten the old session before the client hears that it has a new one."""
        if self._is_foreign(entrant):
            return
        await self._table.end_clean(entrant.client_id)
        if not entrant.channel.is_closed:
            self._open(entrant)

    def _is_foreign(self, entrant: _Entrant) -> bool:
        """Return whether the session here is another user's; then the client is refused."""
        foreign = not self._table.belongs(self._table.sessions.get(entrant.client_id), entrant.username)
        if foreign:
            self._refuse_foreign(entrant)
        return foreign

    def _refuse_foreign(self, entrant: _Entrant) -> None:
        self._access.foreign(entrant.client_id, entrant.username, entrant.channel.peer)
        entrant.channel.rejected(ReasonCode.NOT_AUTHORIZED, "this client identifier is another user's")

    def _open(self, entrant: _Entrant) -> None:
        if self._is_foreign(entrant):
            return
        channel, packet, client_id = entrant.channel, entrant.packet, entrant.client_id
        asked = packet.properties
        keep_alive = packet.keep_alive
        if packet.version == V5:
            expiry = min(asked.session_expiry or 0, self._limits.max_expiry)
            properties = self._properties(entrant, expiry)
            if properties.server_keep_alive is not None:
                keep_alive = properties.server_keep_alive
        else:
            expiry = 0 if packet.clean_start else self._limits.max_expiry
            properties = NONE
        if packet.version == V5 and not explained(Connack(properties=properties), "", asked):
            channel.rejected(ReasonCode.PACKET_TOO_LARGE, "its maximum packet size has no room for CONNACK")
            return
        session, present = self._table.open(client_id, clean=packet.clean_start, expiry=expiry)
        present = present and not session.former and self._untold.get(client_id) is not session
        if not present:
            session.clean = packet.clean_start
        if channel.gate is not None:
            check_again(session, channel.gate, self._table, self._access, self._fanout.recorder)
        shape = session.shape
        session.username = entrant.username
        session.attach(
            channel,
            version=packet.version,
            receive_maximum=min(asked.receive_maximum or 65535, self._limits.receive_maximum),
            max_packet=asked.maximum_packet_size or 0,
            alias_maximum=asked.topic_alias_maximum or 0,
        )
        if present and session.shape != shape:
            self._table.forget_plans()
        channel.session = session
        channel.keep_alive = keep_alive
        connack = Connack(session_present=present, properties=properties)
        takeovers = self.takeovers
        if takeovers is not None and expiry and not present:
            establish = partial(self._establish, takeovers, channel, session, packet.will, connack)
            self._runtime.spawn(establish, label="mqtt_establish")
            return
        if takeovers is not None:
            takeovers.own(session, channel.stamp)
        self._welcome(channel, session, packet.will, connack)

    def _properties(self, entrant: _Entrant, expiry: int) -> Properties:
        """Return the properties of the CONNACK: this node's limits, and how it changed what was asked for."""
        packet, client_id, told = entrant.packet, entrant.client_id, entrant.told
        asked, limits = packet.properties, self._limits
        answer = missing_properties(limits.capabilities)
        answer["receive_maximum"] = limits.receive_maximum
        answer["maximum_packet_size"] = entrant.channel.max_packet
        answer["topic_alias_maximum"] = limits.topic_alias_maximum or None
        if expiry != (asked.session_expiry or 0):
            answer["session_expiry"] = expiry
        if limits.max_keep_alive < 65535 and not 0 < packet.keep_alive <= limits.max_keep_alive:
            answer["server_keep_alive"] = limits.max_keep_alive
        if not packet.client_id:
            answer["assigned_client_id"] = split(client_id)[1]
        if told is not NONE:
            answer["authentication_method"] = told.authentication_method
            answer["authentication_data"] = told.authentication_data
        if asked.request_response_information and self._response_information is not None:
            text = self._response_information.replace("%c", split(client_id)[1])
            answer["response_information"] = text.replace("%u", entrant.username or "")
        return Properties(**answer)

    async def _establish(
        self,
        takeovers: Takeovers,
        channel: Channel,
        session: Session,
        will: Will | None,
        connack: Connack,
    ) -> None:
        """All nodes know of a session before its client does, which may go to any of them next.

        One whose client does not wait for CONNACK ends: it would be found later in place of the one that the
        client had, whose node may be away.
        """
        client_id = session.client_id
        self._untold[client_id] = session
        await takeovers.establish(session, channel.stamp)
        if not channel.is_closed and session.channel is channel:
            self._untold.pop(client_id, None)
            self._welcome(channel, session, will, connack)
        elif session.channel is None and self._untold.get(client_id) is session:
            del self._untold[client_id]
            # What another node had of it may be here already.
            has = session.subscriptions or session.queue or session.inflight
            known = self._table.sessions.get(client_id) is session
            if known and not has and not takeovers.is_moving(client_id):
                self._table.end(session)

    def _welcome(self, channel: Channel, session: Session, will: Will | None, connack: Connack) -> None:
        channel.will, session.former = will, False
        channel.since = self._clock.wall()
        session.save()
        number = self._table.leave_will(session.client_id, will, session.expiry)
        self.on_return(session.client_id)
        keep_alive = channel.keep_alive
        if channel.deadline is not None:
            channel.deadline.cancel()
            channel.deadline = None
        if keep_alive:
            channel.deadline = self._wheel.at(
                self._fanout.now() + keep_alive * 1.5, partial(self.check, channel)
            )
        channel.admitted(session, connack, known=self.when_known(number, channel.welcome))


def _expired(channel: Channel, _now: float) -> None:
    """Disconnect a client whose credentials have expired."""
    if channel.is_up:
        channel.disconnect(ReasonCode.NOT_AUTHORIZED)
