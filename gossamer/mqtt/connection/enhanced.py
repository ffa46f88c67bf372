"""The exchange of AUTH packets (MQTT 5.0, 4.12), by the methods of ``auth.sources``.

Rules: 1. Every AUTH, and a CONNACK that lets the client in, names the method ([MQTT-4.12.0-5]); without one
in CONNECT no AUTH is sent and none is accepted ([MQTT-4.12.0-6], [MQTT-4.12.0-7]).  2. Before CONNACK nothing
but AUTH and DISCONNECT is taken ([MQTT-3.1.2-30]); ``connect_timeout`` bounds the whole exchange.  3. A
client in service may authenticate again at any time, by the same method and as the same user; meanwhile
everything else goes on. If it fails the connection ends ([MQTT-4.12.1-2]).  4. A method that fails refuses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping

import structlog

from gossamer.errors import GossamerError
from gossamer.mqtt.auth.sources import Challenge, Done, Exchange, Login, Method, Step, Verdict, named
from gossamer.mqtt.codec.encoder import explained
from gossamer.mqtt.codec.errors import violation
from gossamer.mqtt.codec.packets import Auth, Connect, Disconnect, Packet
from gossamer.mqtt.codec.properties import Properties
from gossamer.mqtt.codec.reasons import ReasonCode
from gossamer.mqtt.connection.channel import Channel
from gossamer.tenants import split

log = structlog.get_logger(__name__)


class Conversation:
    """An exchange and whom it is with; ``connect`` is there until the client is let in."""

    __slots__ = ("_waiting", "busy", "connect", "exchange", "login", "method")

    def __init__(self, method: str, exchange: Exchange, login: Login, connect: Connect | None) -> None:
        self.method = method
        self.exchange = exchange
        self.login = login
        self.connect = connect
        self.busy = False
        """A step is being taken."""
        self._waiting: Awaitable[Step] | None = None

    def say(self, channel: Channel, packet: Auth) -> None:
        """AUTH, to a client that waits to be let in or is in service."""
        if self.connect is not None:
            channel.ask(packet)
        else:
            channel.session.push(explained(packet, "", channel.asked))

    def wait_for(self, step: Awaitable[Step]) -> None:
        self.busy = True
        self._waiting = step

    def begun(self) -> Awaitable[Step]:
        """Return what is waited for, to the process that waits for it."""
        waiting, self._waiting = self._waiting, None
        assert waiting is not None  # noqa: S101 - there is one process for each
        return waiting

    def close(self) -> None:
        """The connection is over, perhaps before anybody began to wait."""
        if isinstance(self._waiting, Coroutine):
            self._waiting.close()
        self._waiting = None


class Enhanced:
    """Server side of AUTH exchanges, at most one for each channel.

    ``decided`` takes the verdict on a CONNECT, ``again`` the verdict on a client in service.
    """

    def __init__(
        self,
        methods: Mapping[str, Method],
        *,
        decided: Callable[[Channel, Connect, Login, Verdict, Properties], None],
        again: Callable[[Channel, Login, Verdict], None],
    ) -> None:
        self._methods = methods
        self._decided = decided
        self._again = again

    # Before CONNACK.

    def begin(self, channel: Channel, packet: Connect, login: Login) -> None:
        """A CONNECT that names a method."""
        name = packet.properties.authentication_method or ""
        method = self._methods.get(name)
        if method is None:
            channel.rejected(
                ReasonCode.BAD_AUTHENTICATION_METHOD, f"no authentication method {name[:64]!r} here"
            )
            return
        channel.exchange = Conversation(name, method.begin(login), login, packet)
        self._step(channel, packet.properties.authentication_data)

    def answered(self, channel: Channel, packet: Packet) -> None:
        """Take the answer of a client that is not let in yet.

        Raises:
            MqttProtocolError: something else than what it was asked for.
        """
        if isinstance(packet, Disconnect):
            channel.finish("disconnected by client")
            return
        if not isinstance(packet, Auth):
            raise violation("MQTT-3.1.2-30", f"{type(packet).__name__.upper()} comes before CONNACK")
        self._check(channel, packet, ReasonCode.CONTINUE_AUTHENTICATION, "MQTT-4.12.0-3")
        self._step(channel, packet.properties.authentication_data)

    # In service.

    def auth(self, channel: Channel, packet: Auth) -> None:
        """AUTH from a client in service.

        Raises:
            MqttProtocolError: it may not authenticate again, or not like this.
        """
        name = channel.asked.authentication_method
        if name is None:
            raise violation("MQTT-4.12.0-7", "AUTH from a client that named no authentication method")
        conversation: Conversation | None = channel.exchange
        if conversation is None:
            self._check(channel, packet, ReasonCode.RE_AUTHENTICATE, "MQTT-4.12.1-1")
            method = self._methods.get(name)
            session = channel.session
            _, client_id = split(session.client_id)
            login = Login(client_id=client_id, username=session.username, peer=channel.peer)
            if method is None:
                # The configuration no longer has it.
                self._again(channel, login, Verdict(ReasonCode.NOT_AUTHORIZED, name))
                return
            channel.exchange = Conversation(name, method.begin(login), login, None)
        else:
            if conversation.busy:
                raise violation("MQTT 4.12.1", "AUTH comes while the one before it is being looked at")
            self._check(channel, packet, ReasonCode.CONTINUE_AUTHENTICATION, "MQTT-4.12.0-3")
        self._step(channel, packet.properties.authentication_data)

    # Both.

    def _check(self, channel: Channel, packet: Auth, reason: ReasonCode, statement: str) -> None:
        if packet.reason != reason:
            raise violation(
                statement, f"AUTH with reason code 0x{packet.reason:02X}, expected 0x{reason:02X}"
            )
        name = packet.properties.authentication_method
        if name != channel.asked.authentication_method:
            raise violation(
                "MQTT-4.12.0-5" if reason == ReasonCode.CONTINUE_AUTHENTICATION else "MQTT-4.12.1-1",
                "AUTH does not name the authentication method of CONNECT",
            )

    def _step(self, channel: Channel, data: bytes | None) -> None:
        """Take what the client said."""
        conversation: Conversation = channel.exchange
        try:
            step = conversation.exchange.step(data)
        except GossamerError as error:
            step = _failed(conversation, error)
        if isinstance(step, Challenge | Done):
            self._taken(channel, conversation, step)
            return
        conversation.wait_for(step)
        channel.runtime.spawn(
            self._wait, channel, conversation, label="mqtt_authenticate", link_to=channel.pid
        )

    async def _wait(self, channel: Channel, conversation: Conversation) -> None:
        try:
            step = await conversation.begun()
        except (GossamerError, OSError) as error:
            step = _failed(conversation, error)
        conversation.busy = False
        if channel.exchange is conversation and not channel.is_closed:
            self._taken(channel, conversation, step)

    def _taken(self, channel: Channel, conversation: Conversation, step: Step) -> None:
        """Ask on, or let the verdict have its effect."""
        told = Properties(authentication_method=conversation.method, authentication_data=step.data)
        if isinstance(step, Challenge):
            conversation.say(channel, Auth(reason=ReasonCode.CONTINUE_AUTHENTICATION, properties=told))
            return
        channel.exchange = None
        verdict = named(step.verdict, conversation.login)
        if conversation.connect is not None:
            self._decided(channel, conversation.connect, conversation.login, verdict, told)
            return
        if verdict.reason == ReasonCode.SUCCESS:
            conversation.say(channel, Auth(reason=verdict.reason, properties=told))
        self._again(channel, conversation.login, verdict)


def _failed(conversation: Conversation, error: Exception) -> Done:
    """Nobody comes in because something is broken."""
    log.error("authentication_method_failed", method=conversation.method, error=str(error))
    return Done(Verdict(ReasonCode.UNSPECIFIED_ERROR, conversation.method))
