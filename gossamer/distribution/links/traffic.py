"""A session with a peer, and what runs on its open channels: frames, and against them acknowledgements.

:class:`Sending` and :class:`Receiving` stand between the channel and the stream of one peer. Who opened the
channel does not matter to them: a node calls its peers to send; a hidden node calls for both directions.

A frame is handed over only while the peer is up and somebody takes its purpose; until then the channel is
paused, so that waiting costs the sender's retention and not this node's memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from gossamer.distribution.errors import WireError
from gossamer.distribution.events import Counts, StreamCounts
from gossamer.distribution.links.stream import ReceiveStream, SendStream
from gossamer.distribution.links.users import LinkUsers
from gossamer.distribution.transport.transport import Channel
from gossamer.distribution.wire import PURPOSES, Ack, Batch, Message, Purpose, decode_message, encode
from gossamer.network import Address

_ACK_DELAYS: dict[Purpose, float] = {"control": 0.02}
"""Seconds: whoever waits for control traffic waits for an answer, not for an ack."""
_ACKS_HELD = 64
"""Frames done after which a held-back ack goes at once."""


class Peer:
    """What this node knows of ``name`` in the session ``session``: its streams, and their channels.

    Plain state: a link process that crashes loses its connections, and nothing else.
    """

    __slots__ = (
        "address",
        "counts",
        "creation",
        "given_up",
        "hidden",
        "inbound",
        "name",
        "outbound",
        "purposes",
        "receives",
        "renewing",
        "sends",
        "session",
        "theirs",
        "up",
    )

    def __init__(
        self,
        name: str,
        creation: int,
        address: Address,
        *,
        session: int,
        retain: int,
        queue: int,
        counts: Counts | None = None,
        purposes: tuple[Purpose, ...] = PURPOSES,
        hidden: bool = False,
    ) -> None:
        self.name = name
        self.creation = creation
        self.address = address
        self.session = session
        self.theirs = 0
        self.purposes = purposes
        """The streams of this link; with a hidden node control alone."""
        self.hidden = hidden
        """It is no member: nobody counts it, and its going is seen by its connections alone."""
        self.up = False
        """Both directions have been open in this session."""
        self.renewing = False
        """Not up yet in this session, though it was in the one before: somebody waits for it."""
        self.given_up = False
        """The session ends with this turn."""
        self.sends: dict[Purpose, SendStream] = {
            purpose: SendStream(retain=retain, queue=queue) for purpose in PURPOSES
        }
        self.receives: dict[Purpose, ReceiveStream] = {purpose: ReceiveStream() for purpose in PURPOSES}
        self.outbound: dict[Purpose, Sending] = {}
        self.inbound: dict[Purpose, Receiving] = {}
        self.counts = counts or Counts(streams={purpose: StreamCounts() for purpose in PURPOSES})

    @property
    def connected(self) -> bool:
        """Every stream is open both ways."""
        return len(self.outbound) == len(self.inbound) == len(self.purposes)


class Sending:
    """Frames go out, acks come in. Raises WireError where the other side does not have what it says."""

    def __init__(
        self, users: LinkUsers, peer: Peer, purpose: Purpose, channel: Channel, received: int
    ) -> None:
        self.peer = peer
        self.purpose: Purpose = purpose
        self._users = users
        self._channel = channel
        self._stream = peer.sends[purpose]
        self._open = True
        self._stream.resume(received)

    def wake(self) -> None:
        """Frames wait."""
        self._channel.wake()

    def abort(self) -> None:
        """End now."""
        self._open = False
        self._channel.abort()

    def next_message(self) -> bytes | None:
        if not self._open or not self._stream.pending:
            return None
        refresh = self._users.refreshers.get(self.purpose)
        message = self._stream.next_message(self._users.batch_size, self._users.now(), refresh)
        return None if message is None else encode(message)

    def message(self, data: bytes) -> None:
        """Take an ack. Raises WireError."""
        message = decode_message(data)
        if not isinstance(message, Ack):
            raise WireError(where="outgoing frames", expected="an Ack", got=type(message).__name__)
        if self._open and self._stream.ack(message.number):
            self._users.acknowledged(self.peer.name, self.purpose, self._stream.acked)

    def closed(self) -> None:
        """The channel is no more."""
        self._open = False


class Receiving:
    """Frames come in, acks go out. ``fail`` ends the channel over what a peer may not send."""

    def __init__(
        self,
        users: LinkUsers,
        peer: Peer,
        purpose: Purpose,
        channel: Channel,
        fail: Callable[[WireError], None],
    ) -> None:
        self.peer = peer
        self.purpose: Purpose = purpose
        self._users = users
        self._channel = channel
        self._fail = fail
        self._stream = peer.receives[purpose]
        self._held: deque[Message] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._dead = False

    def abort(self) -> None:
        """End now."""
        if not self._dead:
            self.closed()
            self._channel.abort()

    def release(self) -> None:
        """The peer is up, or somebody takes this purpose now: hand over what waited."""
        while self._held and self._flows():
            self._handle(self._held.popleft())
        if not self._held and self._flows():
            self._channel.resume()

    def ack_due(self) -> None:
        """Frames are done: ack at the end of this turn, or a little later, as the purpose wants."""
        if self._dead:
            return
        delay = _ACK_DELAYS.get(self.purpose, 0.0)
        stream = self._stream
        if not delay or stream.done - stream.acked >= _ACKS_HELD:
            self._channel.wake()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(delay, self._ack)

    def next_message(self) -> bytes | None:
        if self._dead:
            return None
        number = self._stream.take_ack()
        return None if number is None else encode(Ack(number=number))

    def message(self, data: bytes) -> None:
        """Take frames. Raises WireError."""
        if self._dead:
            return
        message = decode_message(data)
        if self._held or not self._flows():
            self._held.append(message)
            self._channel.pause()
        else:
            self._handle(message)

    def closed(self) -> None:
        """The channel is no more."""
        self._dead = True
        self._held.clear()
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _handle(self, message: Message) -> None:
        peer, purpose, stream = self.peer, self.purpose, self._stream
        try:
            if isinstance(message, Batch):
                for number, payload in stream.batch(message):
                    self._users.take(peer, purpose, number, payload)
                    if self._dead:
                        # Whoever took the frame ended the session, or itself.
                        return
            else:
                raise WireError(where="incoming frames", expected="frames", got=type(message).__name__)
        except WireError as error:
            self._fail(error)

    def _flows(self) -> bool:
        return not self._dead and self._users.takes(self.peer, self.purpose)

    def _ack(self) -> None:
        self._timer = None
        self._channel.wake()
