"""Session with a peer, and the traffic of its open channels: frames one way, acknowledgements the other.

:class:`Sending` and :class:`Receiving` take a channel over after its handshake, and connect it to the stream
of one peer, whichever side opened it: a node calls its peers to send; a hidden node calls for both
directions.

A frame is delivered only while the peer is up and its purpose has a receiver; until then the channel is
paused, so that waiting frames cost the sender's retention and not this node's memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from gossamer.distribution.errors import Ending, LinkLostError, TlsError, WireError
from gossamer.distribution.events import Counts, Frame, OnAck, OnAhead, Receiver
from gossamer.distribution.links.seal import BrokenSeal, Seal
from gossamer.distribution.links.stream import ReceiveStream, Refresh, SendStream
from gossamer.distribution.transport.transport import Channel
from gossamer.distribution.wire import PURPOSES, Ack, Purpose, decode_ack, decode_batch, encode
from gossamer.network import Address

log = structlog.get_logger(__name__)

_ACK_DELAYS: dict[Purpose, float] = {"control": 0.25, "replication": 0.25}
"""Seconds. Users of these streams wait for replies, not for acks, and each ack is a message that costs both
ends what a frame costs them: all that an ack does is let go of what the sender has kept."""
_BROKEN = WireError(where="channel", expected="a message sealed by the peer", got="one that is not")
_ACKS_HELD, _BYTES_HELD = 256, 256 * 1024
"""Number of done frames, and bytes of them, after which a delayed ack is sent at once."""


@dataclass(slots=True)
class Users:
    """Callbacks of the streams' users per purpose: receivers, ack callbacks, refreshers of late frames."""

    batch_size: int
    """Bytes of frames per message, unless a single frame is longer."""
    receivers: dict[Purpose, Receiver] = field(default_factory=dict)
    on_acks: dict[Purpose, OnAck] = field(default_factory=dict)
    on_ahead: dict[Purpose, OnAhead] = field(default_factory=dict)
    refreshers: dict[Purpose, Refresh] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class PeerSession:
    """State of the session with peer ``name``: its streams, and their channels.

    Plain state: a link process that crashes loses only its connections.
    """

    name: str
    creation: int
    address: Address
    session: int
    sends: dict[Purpose, SendStream] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    purposes: tuple[Purpose, ...] = PURPOSES
    """Streams of this link; with a hidden node only control."""
    hidden: bool = False
    """True if the peer is no member: it is not counted, and only its connections show that it is down."""
    theirs: int = 0
    """The peer's number of this session; 0 while unknown."""
    protocol: int = 0
    """Version that the link speaks; 0 while unknown."""
    features: tuple[str, ...] = ()
    """Feature flags that the peer supports."""
    up: bool = False
    """True once control has been open both ways in this session."""
    renewing: bool = False
    """True while not up yet in this session, though it was in the one before: subscribers wait for it."""
    given_up: bool = False
    """True if the session ends with this turn."""
    receives: dict[Purpose, ReceiveStream] = field(
        default_factory=lambda: {purpose: ReceiveStream() for purpose in PURPOSES}
    )
    outbound: dict[Purpose, Traffic] = field(default_factory=dict)
    inbound: dict[Purpose, Traffic] = field(default_factory=dict)
    """Open channels from the peer, by purpose; ``outbound``: those to it."""

    @property
    def reached(self) -> bool:
        """True while control is open both ways; frames of other streams wait for their own connections."""
        return "control" in self.outbound and "control" in self.inbound


@dataclass(slots=True, eq=False)
class Traffic:
    """Frames one way and acks the other, on one open channel. ``ended`` is called once, with the reason."""

    users: Users
    peer: PeerSession
    purpose: Purpose
    channel: Channel
    seal: Seal
    ended: Callable[[Ending], None]
    ending: Ending = None
    open: bool = True

    def abort(self, error: WireError | None = None) -> None:
        """End now; ``error``: the peer broke the protocol."""
        if self.open:
            self.open = False
            self.ending = error
            self.channel.abort()

    def closed(self, error: LinkLostError | TlsError | None) -> None:
        """Handle the end of the channel."""
        self.open = False
        self.ended(self.ending or error)

    @property
    def siblings(self) -> dict[Purpose, Traffic]:
        """Open channels of this direction, by purpose."""
        raise NotImplementedError

    def pull(self) -> bytes | None:
        """Return the next message to write, or None."""
        raise NotImplementedError

    def received(self, messages: Sequence[bytes] = ()) -> None:
        """Handle messages; without any, retry those that wait."""
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class Sending(Traffic):
    """Traffic of outgoing frames and incoming acks."""

    @property
    def siblings(self) -> dict[Purpose, Traffic]:
        return self.peer.outbound

    def pull(self) -> bytes | None:
        """Return pending frames as one message, as many as fit."""
        users, stream = self.users, self.peer.sends[self.purpose]
        if not self.open or not stream.pending:
            return None
        now = asyncio.get_running_loop().time()
        batch = stream.next_batch(users.batch_size, now, users.refreshers.get(self.purpose))
        if stream.pending:
            self.channel.wake()
        return self.seal.encrypt(next(self.seal.sent), encode(batch), None)

    def received(self, messages: Sequence[bytes] = ()) -> None:
        """Handle acks, of which the last one counts; what is ahead of it, all of them name."""
        stream, on_ack = self.peer.sends[self.purpose], self.users.on_acks.get(self.purpose)
        on_ahead = self.users.on_ahead.get(self.purpose)
        try:
            number, seal = 0, self.seal
            named: list[int] = []
            parts: list[tuple[int, int, int]] = []
            for data in messages:
                ack = decode_ack(seal.decrypt(next(seal.received), data, None))
                number = ack.number
                named += ack.ahead
                parts += ack.parts
            if self.open and stream.ack(number, asyncio.get_running_loop().time()) and on_ack is not None:
                on_ack(self.peer.name, number)
            if (named or parts) and self.open and on_ahead is not None:
                on_ahead(self.peer.name, stream.ahead(named), stream.ahead_in_part(parts))
        except WireError as error:
            self.abort(error)
        except BrokenSeal:
            self.abort(_BROKEN)
        except Exception:
            log.exception("ack_callback_failed", peer=self.peer.name, purpose=self.purpose)


@dataclass(slots=True, eq=False)
class Receiving(Traffic):
    """Traffic of incoming frames and outgoing acks."""

    _waiting: deque[bytes] = field(default_factory=deque)
    _busy: bool = False
    _paused: bool = False
    _ack_waits: bool = False
    _unacked: int = 0
    """Bytes that came since the last ack."""

    @property
    def siblings(self) -> dict[Purpose, Traffic]:
        return self.peer.inbound

    def pull(self) -> bytes | None:
        """Return the ack that is due, or None."""
        stream = self.peer.receives[self.purpose]
        if not self.open or not (stream.more or stream.done > stream.acked):
            return None
        self._unacked = 0
        if stream.more:
            ack = stream.ack()
        else:
            stream.acked = stream.done
            ack = Ack(number=stream.acked)
        return self.seal.encrypt(next(self.seal.sent), encode(ack), None)

    def received(self, messages: Sequence[bytes] = ()) -> None:
        """Deliver frames; called without messages when waiting ones may have become deliverable.

        If a receiver re-enters here, the frames after its own wait until it returns.
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
                    self._unacked += len(payload)
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
        if stream.more or stream.done > stream.acked:
            delay = _ACK_DELAYS.get(purpose)
            held = stream.done - stream.acked >= _ACKS_HELD or self._unacked >= _BYTES_HELD
            if delay is None or held:
                self.channel.wake()
            elif not self._ack_waits:
                self._ack_waits = True
                asyncio.get_running_loop().call_later(delay, self._ack)

    def _ack(self) -> None:
        self._ack_waits = False
        self.channel.wake()
