"""The two ends of a channel: handlers between the transport and the streams of one peer.

A channel is one-way: frames go out on :class:`Outbound`, come in on :class:`Inbound`, acks travel against
them. Both begin with their side of the handshake. Neither decides anything but what to do with the next
bytes: membership and sessions are the :class:`Hub`'s, numbers are the stream's.

A frame is handed over only while the peer is up and somebody takes its purpose; until then the channel is
paused, so that waiting costs the sender's retention and not this node's memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from gossamer.distribution.errors import HandshakeError, LinkLostError, WireError
from gossamer.distribution.handshake import Acceptor, Initiator, Opened, Step
from gossamer.distribution.inbox import Inbox
from gossamer.distribution.peer import Peer
from gossamer.distribution.transport import Channel
from gossamer.distribution.wire import Ack, Batch, Hello, Message, Purpose, Skip, decode_message, encode

__all__ = ["Hub", "Inbound", "Outbound"]

Ending = HandshakeError | LinkLostError | WireError | None
"""How a channel ended; None: in order."""

_ACKS_HELD = 64
"""Frames done after which a held-back ack goes at once."""


class Hub(Protocol):
    """What the ends of a channel ask of the node."""

    max_message: int
    batch_size: int
    handshake_timeout: float
    ack_delays: dict[Purpose, float]
    inbox: Inbox

    def initiator(self, peer: Peer, purpose: Purpose, binding: bytes) -> Initiator: ...
    def strange(self, number: int) -> bool: ...
    def acceptor(self, admit: Callable[[Hello], int], binding: bytes) -> Acceptor: ...
    def admit(self, hello: Hello, address: str) -> Peer: ...
    def entered(self, peer: Peer, inbound: Inbound) -> None: ...
    def left(self, inbound: Inbound, error: Ending) -> None: ...
    def acknowledged(self, peer: Peer, purpose: Purpose, number: int) -> None: ...


class Outbound:
    """The sending end of one stream's channel. ``on_open`` and ``on_end`` tell the link process."""

    def __init__(
        self,
        hub: Hub,
        peer: Peer,
        purpose: Purpose,
        *,
        on_open: Callable[[Outbound, Opened], None],
        on_end: Callable[[Outbound, Ending], None],
    ) -> None:
        self._hub = hub
        self.peer = peer
        self.purpose: Purpose = purpose
        self._stream = peer.sends[purpose]
        self._on_open = on_open
        self._on_end = on_end
        self._channel: Channel | None = None
        self._handshake: Initiator | None = None
        self._greeting: bytes | None = None
        self._ending: Ending = None
        self._open = False
        self.over = False
        """The channel has ended, or could not be opened."""

    def opened(self, channel: Channel) -> None:
        self._channel = channel
        self._handshake = self._hub.initiator(self.peer, self.purpose, channel.binding)
        self._greeting = self._handshake.hello
        channel.wake()

    def wake(self) -> None:
        """Frames wait."""
        if self._channel:
            self._channel.wake()

    def close(self) -> None:
        """End in order."""
        if self._channel:
            self._channel.close()

    def abort(self) -> None:
        """End now."""
        self._open = False
        if self._channel:
            self._channel.abort()

    def next_message(self) -> bytes | None:
        if self._greeting is not None:
            greeting, self._greeting = self._greeting, None
            return greeting
        if not self._open:
            return None
        message = self._stream.next_message(self._hub.batch_size)
        return None if message is None else encode(message)

    def message(self, data: bytes) -> None:
        if self._channel is None:
            return
        if self._handshake is not None:
            self._step(self._handshake.receive(data), self._channel)
            return
        try:
            message = decode_message(data)
            if not isinstance(message, Ack):
                raise WireError(where="outgoing channel", expected="an Ack", got=type(message).__name__)
            if self._open and self._stream.ack(message.number):
                self._hub.acknowledged(self.peer, self.purpose, self._stream.acked)
        except WireError as error:
            self._ending = error
            self.abort()

    def closed(self, error: LinkLostError | None) -> None:
        self._open = False
        self._channel = None
        self.over = True
        self._on_end(self, self._ending or error)

    def _step(self, step: Step, channel: Channel) -> None:
        self._greeting = step.send
        if step.opened is not None:
            try:
                self._stream.resume(step.opened.received)
            except WireError as error:
                self._ending = error
                channel.abort()
                return
            self._handshake = None
            self._open = True
            channel.limit = self._hub.max_message
            self._on_open(self, step.opened)
            channel.wake()
        elif step.error is not None:
            self._ending = step.error
            channel.close()
        else:
            channel.wake()


class Inbound:
    """The receiving end: whoever called, then one stream of one peer."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.peer: Peer | None = None
        self.purpose: Purpose = "control"
        self._channel: Channel | None = None
        self._handshake: Acceptor | None = None
        self._greeting: bytes | None = None
        self._ending: Ending = None
        self.address = "unknown"
        """Where the caller is."""
        self._held: deque[Message] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._dead = False
        self._strange = False

    @property
    def caller(self) -> str:
        """The name that the caller gave, proved or not; blank before that."""
        return self.peer.name if self.peer else self._handshake.caller if self._handshake else ""

    def opened(self, channel: Channel) -> None:
        self._channel = channel
        self.address = channel.address
        self._strange = True
        if not self._hub.strange(1):
            self._fail(
                WireError(where="listener", expected="fewer callers that are not known yet", got="one more")
            )
            return
        self._handshake = self._hub.acceptor(self._admit, channel.binding)
        # A stranger that says nothing may not hold a connection.
        self._timer = asyncio.get_running_loop().call_later(self._hub.handshake_timeout, self._late)

    def abort(self) -> None:
        """End now."""
        self._dead = True
        self._held.clear()
        if self._channel:
            self._channel.abort()

    def release(self) -> None:
        """The peer is up, or somebody takes this purpose now: hand over what waited."""
        while self._held and self._flows():
            self._handle(self._held.popleft())
        if not self._held and self._channel and self._flows():
            self._channel.resume()

    def ack_due(self) -> None:
        """Frames are done: ack at the end of this turn, or a little later, as the purpose wants."""
        if self._channel is None or self.peer is None or self._dead:
            return
        delay = self._hub.ack_delays.get(self.purpose, 0.0)
        stream = self.peer.receives[self.purpose]
        if not delay or stream.done - stream.acked >= _ACKS_HELD:
            self._channel.wake()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(delay, self._ack)

    def next_message(self) -> bytes | None:
        if self._greeting is not None:
            greeting, self._greeting = self._greeting, None
            return greeting
        if self.peer is None or self._handshake is not None or self._dead:
            return None
        number = self.peer.receives[self.purpose].take_ack()
        return None if number is None else encode(Ack(number=number))

    def message(self, data: bytes) -> None:
        if self._channel is None or self._dead:
            return
        if self._handshake is not None:
            self._step(self._handshake.receive(data), self._channel)
            return
        try:
            message = decode_message(data)
        except WireError as error:
            self._fail(error)
            return
        if self._held or not self._flows():
            self._held.append(message)
            self._channel.pause()
        else:
            self._handle(message)

    def closed(self, error: LinkLostError | None) -> None:
        self._channel = None
        self._cancel_timer()
        self._known()
        self._hub.left(self, self._ending or error)

    def _handle(self, message: Message) -> None:
        peer, purpose = self.peer, self.purpose
        if peer is None:
            return
        stream = peer.receives[purpose]
        try:
            if isinstance(message, Batch):
                for number, payload in stream.batch(message):
                    self._hub.inbox.take(peer, purpose, number, payload)
                    if self._dead:
                        # Whoever took the frame ended the session, or itself.
                        return
            elif isinstance(message, Skip):
                lost = stream.skip(message.next)
                if lost:
                    self._hub.inbox.missed(peer, purpose, lost.first, lost.last)
                    self.ack_due()
            else:
                raise WireError(where="incoming channel", expected="frames", got=type(message).__name__)
        except WireError as error:
            self._fail(error)

    def _flows(self) -> bool:
        return self.peer is not None and not self._dead and self._hub.inbox.takes(self.peer, self.purpose)

    def _admit(self, hello: Hello) -> int:
        self.peer = self._hub.admit(hello, self.address)
        self.purpose = hello.purpose  # type: ignore[assignment]  # the acceptor has checked it
        return self.peer.receives[self.purpose].connected()

    def _step(self, step: Step, channel: Channel) -> None:
        self._greeting = step.send
        if step.opened is not None and self.peer is not None:
            self._handshake = None
            self._cancel_timer()
            self._known()
            channel.limit = self._hub.max_message
            channel.wake()
            self._hub.entered(self.peer, self)
        elif step.error is not None:
            self._ending = step.error
            channel.close()
        else:
            channel.wake()

    def _ack(self) -> None:
        self._timer = None
        if self._channel:
            self._channel.wake()

    def _late(self) -> None:
        self._timer = None
        seconds = self._hub.handshake_timeout
        self._fail(WireError(where="handshake", expected=f"to be done in {seconds:g} s", got="silence"))

    def _fail(self, error: WireError) -> None:
        self._ending = error
        self.abort()

    def _known(self) -> None:
        if self._strange:
            self._strange = False
            self._hub.strange(-1)

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
