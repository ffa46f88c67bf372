"""A session with a peer, and what runs on its open channels: frames, and against them acknowledgements.

:class:`Sending` and :class:`Receiving` take a channel over once its handshake is done, and stand between it
and the stream of one peer. Who opened the channel does not matter to them: a node calls its peers to send; a
hidden node calls for both directions.

A frame is handed over only while the peer is up and somebody takes its purpose; until then the channel is
paused, so that waiting costs the sender's retention and not this node's memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from gossamer.distribution.errors import Ending, LinkLostError, WireError
from gossamer.distribution.events import Counts, Frame, OnAck, Receiver
from gossamer.distribution.links.seal import BrokenSeal, Seal
from gossamer.distribution.links.stream import ReceiveStream, Refresh, SendStream
from gossamer.distribution.transport.transport import Channel
from gossamer.distribution.wire import PURPOSES, Ack, Purpose, decode_ack, decode_batch, encode
from gossamer.network import Address

log = structlog.get_logger(__name__)

_ACK_DELAYS: dict[Purpose, float] = {"control": 0.02}
"""Seconds: whoever waits for control traffic waits for an answer, not for an ack."""
_BROKEN = WireError(where="channel", expected="a message sealed by the peer", got="one that is not")
_ACKS_HELD = 64
"""Frames done after which a held-back ack goes at once."""


@dataclass(slots=True)
class Users:
    """Those above the streams, one a purpose: who takes frames, is told of acks, refreshes late frames."""

    batch_size: int
    """Bytes of frames that go into one message, or one longer frame."""
    receivers: dict[Purpose, Receiver] = field(default_factory=dict)
    on_acks: dict[Purpose, OnAck] = field(default_factory=dict)
    refreshers: dict[Purpose, Refresh] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Peer:
    """What this node knows of ``name`` in the session ``session``: its streams, and their channels.

    Plain state: a link process that crashes loses its connections, and nothing else.
    """

    name: str
    creation: int
    address: Address
    session: int
    sends: dict[Purpose, SendStream] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    purposes: tuple[Purpose, ...] = PURPOSES
    """The streams of this link; with a hidden node control alone."""
    hidden: bool = False
    """It is no member: nobody counts it, and its going is seen by its connections alone."""
    theirs: int = 0
    """The number by which it knows this session; 0 while unknown."""
    up: bool = False
    """Both directions have been open in this session."""
    renewing: bool = False
    """Not up yet in this session, though it was in the one before: somebody waits for it."""
    given_up: bool = False
    """The session ends with this turn."""
    receives: dict[Purpose, ReceiveStream] = field(
        default_factory=lambda: {purpose: ReceiveStream() for purpose in PURPOSES}
    )
    outbound: dict[Purpose, Traffic] = field(default_factory=dict)
    inbound: dict[Purpose, Traffic] = field(default_factory=dict)
    """The open channels to it and from it."""

    @property
    def connected(self) -> bool:
        """Every stream is open both ways."""
        return len(self.outbound) == len(self.inbound) == len(self.purposes)


@dataclass(slots=True, eq=False)
class Traffic:
    """Frames one way and acks the other, on one open channel. ``ended`` is told, once, how that came."""

    users: Users
    peer: Peer
    purpose: Purpose
    channel: Channel
    seal: Seal
    ended: Callable[[Ending], None]
    ending: Ending = None
    open: bool = True

    def abort(self, error: WireError | None = None) -> None:
        """End now; over ``error``, which is what the peer may not send."""
        if self.open:
            self.open = False
            self.ending = error
            self.channel.abort()

    def closed(self, error: LinkLostError | None) -> None:
        """The channel is no more."""
        self.open = False
        self.ended(self.ending or error)

    @property
    def beside(self) -> dict[Purpose, Traffic]:
        """The open channels of this direction, by their purposes."""
        raise NotImplementedError

    def pull(self) -> bytes | None:
        """The message that is to be written."""
        raise NotImplementedError

    def received(self, messages: Sequence[bytes] = ()) -> None:
        """Take messages; without any, look again at what waits."""
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class Sending(Traffic):
    """Frames go out, acks come in."""

    @property
    def beside(self) -> dict[Purpose, Traffic]:
        return self.peer.outbound

    def pull(self) -> bytes | None:
        """The frames that wait, as one message, or as many of them as go into one."""
        users, stream = self.users, self.peer.sends[self.purpose]
        if not self.open or not stream.pending:
            return None
        now = asyncio.get_running_loop().time()
        batch = stream.next_batch(users.batch_size, now, users.refreshers.get(self.purpose))
        if stream.pending:
            self.channel.wake()
        return self.seal.encrypt(next(self.seal.sent), encode(batch), None)

    def received(self, messages: Sequence[bytes] = ()) -> None:
        """Take acks, of which the last one counts."""
        stream, on_ack = self.peer.sends[self.purpose], self.users.on_acks.get(self.purpose)
        try:
            number, seal = 0, self.seal
            for data in messages:
                number = decode_ack(seal.decrypt(next(seal.received), data, None)).number
            if self.open and stream.ack(number, asyncio.get_running_loop().time()) and on_ack is not None:
                on_ack(self.peer.name, number)
        except WireError as error:
            self.abort(error)
        except BrokenSeal:
            self.abort(_BROKEN)
        except Exception:
            log.exception("ack_callback_failed", peer=self.peer.name, purpose=self.purpose)


@dataclass(slots=True, eq=False)
class Receiving(Traffic):
    """Frames come in, acks go out."""

    _waiting: deque[bytes] = field(default_factory=deque)
    _busy: bool = False
    _paused: bool = False
    _ack_waits: bool = False

    @property
    def beside(self) -> dict[Purpose, Traffic]:
        return self.peer.inbound

    def pull(self) -> bytes | None:
        """The ack that is due."""
        stream = self.peer.receives[self.purpose]
        if not self.open or stream.done <= stream.acked:
            return None
        stream.acked = stream.done
        return self.seal.encrypt(next(self.seal.sent), encode(Ack(number=stream.acked)), None)

    def received(self, messages: Sequence[bytes] = ()) -> None:
        """Hand frames over; what may have changed that they can be calls this without any.

        Where the receiver of a frame leads here, what came after that frame waits until it is done.
        """
        peer, purpose, waiting = self.peer, self.purpose, self._waiting
        waiting.extend(messages)
        if self._busy:
            return
        stream, counts, receivers = peer.receives[purpose], peer.counts.streams[purpose], self.users.receivers
        seal = self.seal
        self._busy = True
        try:
            while waiting and peer.up and purpose in receivers:
                batch = decode_batch(seal.decrypt(next(seal.received), waiting.popleft(), None))
                for number, payload in stream.fresh(batch):
                    if not self.open:
                        return
                    counts.frames_in += 1
                    counts.bytes_in += len(payload)
                    if number:
                        stream.received = number
                    try:
                        done = receivers[purpose](Frame(peer.name, purpose, number, payload, peer.session))
                    except Exception:
                        log.exception("receiver_failed", peer=peer.name, purpose=purpose, number=number)
                        counts.failed += 1
                        done = True
                    if done and number:
                        stream.finish(number)
        except WireError as error:
            self.abort(error)
        except BrokenSeal:
            self.abort(_BROKEN)
        finally:
            self._busy = False
        if self._paused is not bool(waiting):
            self._paused = not self._paused
            (self.channel.pause if self._paused else self.channel.resume)()
        if stream.done > stream.acked and not self._ack_waits:
            delay = _ACK_DELAYS.get(purpose)
            if delay is None or stream.done - stream.acked >= _ACKS_HELD:
                self.channel.wake()
            else:
                self._ack_waits = True
                asyncio.get_running_loop().call_later(delay, self._ack)

    def _ack(self) -> None:
        self._ack_waits = False
        self.channel.wake()
