"""The distribution of one node: frames to peers, frames from peers, who is up.

Membership drives it (:meth:`Distribution.connect`, :meth:`Distribution.disconnect`); every peer gets a link
process, every purpose a stream. The object holds what outlives its processes: sessions, streams, counts, who
takes frames. Its methods are synchronous and never block.

What a user may rely on:

1. Nothing of a peer's session is handed over before its ``NodeUp`` or after its ``NodeDown``, and both ends
   of a session see both. A link that breaks and comes back is neither.
2. Reliable frames arrive once and in order within a session. Its end loses what is unacked, and ``NodeDown``
   says so; a session ends where more is unacked than may be retained.
3. ``acked`` counts frames that took effect: whose receiver called ``done``.
4. A receiver that raises loses its frame, which is reported and counted.

A *hidden* node is no member: it knows the cookie, calls by itself for both directions, and is never called,
so that it may be anywhere from where a node can be reached. Only ``control`` runs between it and a node.
``nodes()`` and events leave it out unless asked for. It is gone when it has had no connection for
:data:`HIDDEN_GRACE` seconds, since no membership speaks of it.

Frames sent within one turn of the loop leave as one message per stream.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable
from functools import partial

import structlog

from gossamer.config import DistributionConfig
from gossamer.distribution.errors import FrameTooLargeError, PeerGoneError
from gossamer.distribution.events import Counts, Frame, NodeDown, NodeUp
from gossamer.distribution.links.admission import Door
from gossamer.distribution.links.bulletin import Bulletin, Event, OnAck, Subscriber
from gossamer.distribution.links.channels import Ending
from gossamer.distribution.links.handshake import Acceptor, Admitted, Initiator, Local, cookie_key
from gossamer.distribution.links.inbox import Inbox, Receiver
from gossamer.distribution.links.link import Backoff, Link, retry
from gossamer.distribution.links.peer import Peer
from gossamer.distribution.links.stream import Refresh
from gossamer.distribution.links.traffic import Receiving, Sending
from gossamer.distribution.links.tree import DIALER, LOOK, children
from gossamer.distribution.transport.transport import LinkListener, LinkTransport
from gossamer.distribution.wire import NONCE_SIZE, PURPOSES, Hello, Purpose
from gossamer.errors import UsageError
from gossamer.network import Address
from gossamer.supervisor import ChildSpec, Pid, Runtime, Supervisor

__all__ = ["HIDDEN_GRACE", "Distribution", "Event", "Evidence", "Receiver"]

log = structlog.get_logger(__name__)

Evidence = Callable[[str, str], None]
"""Told ``(name, "ok" | "refused" | "reset")`` by the links; what the failure detector wants to know."""

MIB = 1024 * 1024
HIDDEN_GRACE = 5.0
"""Seconds a hidden node may be without a connection."""


class Distribution:
    """Authenticated links from one node to its peers. Sizes in bytes, times in seconds.

    ``nonce`` returns fresh random bytes for handshakes; the simulator passes a seeded one. At least two
    of the largest frames are retained, whatever ``config`` says.
    """

    def __init__(
        self,
        runtime: Runtime,
        transport: LinkTransport,
        *,
        cookie: str,
        env: str = "",
        config: DistributionConfig | None = None,
        address: Address | None = None,
        rng: random.Random | None = None,
        nonce: Callable[[int], bytes] = secrets.token_bytes,
        evidence: Evidence | None = None,
        queue: int = 16 * MIB,
        hidden: bool = False,
    ) -> None:
        config = config or DistributionConfig()
        self.runtime = runtime
        self.transport = transport
        self.address = address or (config.host or "0.0.0.0", config.port)  # noqa: S104 - blank: every address
        """Where peers reach this node; the port is the real one once it listens."""
        self.evidence = evidence
        self.max_frame = config.max_frame
        # A message holds frames of about a batch's size, or one longer frame.
        self.batch_size = min(MIB // 4, config.max_frame)
        self.max_message = config.max_frame + 4096
        self.handshake_timeout = config.handshake_timeout
        # Whoever waits for control traffic waits for an answer, not for an ack.
        self.ack_delays: dict[Purpose, float] = {"control": 0.02}
        self.refreshers: dict[Purpose, Refresh] = {}
        self.env = env
        self.hidden = hidden
        """This node itself is a hidden one."""
        self.peers: dict[str, Peer] = {}
        self.inbox = Inbox(runtime, self.peers)
        self.links: dict[str, Pid] = {}
        self.listening: LinkListener | None = None
        self._local = Local(name=runtime.node, creation=runtime.creation, env=env, key=cookie_key(cookie))
        self._rng = rng or random.Random()
        self._nonce = nonce
        self._retain = max(config.retention, 2 * config.max_frame)
        self._queue = queue
        self._backoff = (config.reconnect_min, config.reconnect_max)
        self._bulletin = Bulletin(runtime)
        self._door = Door(self)

    def child_spec(self) -> ChildSpec:
        """The distribution as one child of a supervisor: listener, links and what they need."""
        start = partial(Supervisor.start_link, children(self), "rest_for_one", label="distribution")
        return ChildSpec(id="distribution", start=start, type="supervisor")

    # Membership.

    def connect(self, name: str, creation: int, address: Address) -> None:
        """``name`` is a member: keep a link to it. A newer creation ends the session with the older."""
        if name == self.runtime.node:
            raise UsageError(f"connect() got this node's own name {name!r}; expected the name of a peer")
        peer = self.peers.get(name)
        if peer is not None and peer.hidden:
            # A member comes before a hidden node that took its name.
            self._end(peer, "replaced by a member")
            peer = None
        if peer is None:
            self._begin(name, creation, address, None)
        elif creation > peer.creation:
            peer.address = address
            self.renew(peer, creation, "restarted")
        elif creation == peer.creation and address != peer.address:
            peer.address = address
            retry(self, name)

    def disconnect(self, name: str, reason: str = "left") -> None:
        """``name`` is no member any more; frames for it are refused from now on."""
        peer = self.peers.get(name)
        if peer is not None:
            self._end(peer, reason)
            retry(self, name)

    def nodes(self, *, hidden: bool = False) -> list[str]:
        """The peers that are up; those that are ``hidden`` on demand."""
        return [peer.name for peer in self.peers.values() if peer.up and (hidden or not peer.hidden)]

    def creation_of(self, name: str) -> int | None:
        """The creation of a peer, None when it is none."""
        peer = self.peers.get(name)
        return None if peer is None else peer.creation

    def session_of(self, name: str) -> int:
        """The number under which this node knows its session with a peer; 0 when it is none."""
        peer = self.peers.get(name)
        return 0 if peer is None else peer.session

    def session_at(self, name: str) -> int:
        """The number under which a peer that is up knows its session with this node: that of the frames it
        takes in (:attr:`Frame.session`); 0 when it is none."""
        peer = self.peers.get(name)
        return 0 if peer is None else peer.theirs

    def subscribe(self, subscriber: Subscriber, *, hidden: bool = False) -> None:
        """Tell ``subscriber`` of every NodeUp and NodeDown; of the peers that are up already, at once."""
        self._bulletin.subscribe(subscriber, hidden=hidden)
        for peer in list(self.peers.values()):
            if peer.up and (hidden or not peer.hidden):
                self._bulletin.tell(subscriber, NodeUp(peer.name, peer.creation))

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """No more events for ``subscriber``."""
        self._bulletin.unsubscribe(subscriber)

    # Sending.

    def send(self, peer: str, purpose: Purpose, frame: bytes, reliable: bool = True) -> int:
        """Queue a frame; returns its number, 0 for an unreliable one.

        A peer takes frames from its NodeUp to its NodeDown; they queue while the link is down in between. An
        unreliable frame that finds no room is dropped and counted.

        Raises:
            PeerGoneError: it is not up.
            FrameTooLargeError: longer than ``max_frame``.
        """
        to = self.peers.get(peer)
        # Not before it is up: were its session given up until then, nobody would be told.
        if to is None or not to.up:
            raise PeerGoneError(peer)
        size = len(frame)
        if size > self.max_frame:
            raise FrameTooLargeError(purpose=purpose, size=size, limit=self.max_frame)
        stream = to.sends[purpose]
        counts = to.counts.streams[purpose]
        number = 0
        if reliable:
            if not stream.fits(size):
                self.give_up(peer, f"{purpose} stream overflowed")
            number = stream.push(frame, self.now())
        elif stream.fits(size, reliable=False):
            stream.push_unreliable(frame, self.now())
        else:
            counts.dropped += 1
            return 0
        counts.frames_out += 1
        counts.bytes_out += size
        outbound = to.outbound.get(purpose)
        if outbound is not None:
            outbound.wake()
        return number

    def acked(self, peer: str, purpose: Purpose) -> int:
        """Every frame up to this number has taken effect at ``peer``; 0 when it is no peer."""
        to = self.peers.get(peer)
        return 0 if to is None else to.sends[purpose].acked

    def on_ack(self, purpose: Purpose, callback: OnAck) -> None:
        """Call ``callback(peer, number)`` whenever ``acked`` moves."""
        self._bulletin.on_ack(purpose, callback)

    def refresh_with(self, purpose: Purpose, refresh: Refresh) -> None:
        """Frames of ``purpose`` that could not leave for seconds go out as ``refresh`` makes them."""
        self.refreshers[purpose] = refresh

    def now(self) -> float:
        """The loop's own time."""
        return asyncio.get_running_loop().time()

    # Receiving.

    def on_frame(self, purpose: Purpose, receiver: Receiver) -> None:
        """Hand over the frames of ``purpose`` to ``receiver``.

        Frames wait at their senders while nobody takes them. A process that ends stops taking; whoever takes
        over gets again what was not done.
        """
        self.inbox.on_frame(purpose, receiver)

    def done(self, frame: Frame) -> None:
        """``frame`` has taken effect; its sender will be told, cumulatively."""
        self.inbox.done(frame)

    def give_up(self, name: str, reason: str) -> None:
        """End the session with a peer with this turn, and begin another: something of it was lost.

        What is tied across is told as of any session that ends.
        """
        peer = self.peers.get(name)
        if peer is not None and not peer.given_up:
            peer.given_up = True
            log.error("session_given_up", peer=name, reason=reason)
            self.runtime.loop.call_soon(self.renew, peer, peer.creation, reason)

    def counts(self) -> dict[str, Counts]:
        """What the links with each peer carried and went through."""
        return {peer.name: peer.counts for peer in self.peers.values()}

    def unacked(self, peer: str, purpose: Purpose) -> int:
        """How many reliable frames are held for ``peer``."""
        to = self.peers.get(peer)
        return 0 if to is None else to.sends[purpose].unacked

    # For the link processes and the ends of channels: the Hub.

    def new_link(self, name: str) -> Link:
        """The body of the link process of ``name``."""
        initial, maximum = self._backoff
        return Link(self, name, Backoff(self._rng, initial=initial, maximum=maximum))

    def note(self, name: str, kind: str) -> None:
        """Evidence of a link about its peer."""
        if self.evidence is not None:
            self.evidence(name, kind)

    def renew(self, peer: Peer, creation: int, reason: str) -> None:
        """End the session and begin another with the same peer, or with its next creation."""
        if self.peers.get(peer.name) is peer:
            awaited = peer.up or peer.renewing
            self._end(peer, reason, renewing=True)
            self._begin(peer.name, creation, peer.address, peer.counts, hidden=peer.hidden)
            self.peers[peer.name].renewing = awaited

    def initiator(self, peer: Peer, purpose: Purpose, binding: bytes, *, pull: bool) -> Initiator:
        return Initiator(
            self._local,
            to=(peer.name, peer.creation),
            purpose=purpose,
            session=peer.session,
            yours=peer.theirs,
            nonce=self._nonce(NONCE_SIZE),
            binding=binding,
            hidden=self.hidden,
            pull=peer.receives[purpose].connected() if pull else None,
        )

    def acceptor(self, admit: Callable[[Hello], Admitted], binding: bytes) -> Acceptor:
        return Acceptor(self._local, nonce=self._nonce(NONCE_SIZE), admit=admit, binding=binding)

    def strange(self, number: int) -> bool:
        return self._door.strange(number)

    def admit(self, hello: Hello, address: str) -> Peer:
        return self._door.admit(hello, address)

    def turned_away(self, caller: str, address: str, error: Ending) -> None:
        self._door.turned_away(caller, address, error)

    def begin_hidden(self, name: str, creation: int, address: str) -> Peer:
        """A hidden node came; ``address`` is for people."""
        self._begin(name, creation, (address, 0), None, hidden=True)
        return self.peers[name]

    def sends(self, sending: Sending) -> None:
        """A channel for frames to a peer is open."""
        peer, purpose = sending.peer, sending.purpose
        if self.peers.get(peer.name) is not peer:
            sending.abort()
            return
        previous = peer.outbound.get(purpose)
        peer.outbound[purpose] = sending
        if previous is not None:
            previous.abort()
        self._progress(peer)

    def sends_no_more(self, sending: Sending) -> None:
        """It is closed."""
        outbound = sending.peer.outbound
        if outbound.get(sending.purpose) is sending:
            del outbound[sending.purpose]

    def receives(self, receiving: Receiving) -> None:
        """A channel for frames of a peer is open."""
        peer, purpose = receiving.peer, receiving.purpose
        if self.peers.get(peer.name) is not peer:
            receiving.abort()
            return
        previous = peer.inbound.get(purpose)
        peer.inbound[purpose] = receiving
        if previous is not None:
            previous.abort()
        if not peer.outbound:
            retry(self, peer.name)
        self._progress(peer)

    def receives_no_more(self, receiving: Receiving) -> None:
        """It is closed."""
        peer = receiving.peer
        if peer.inbound.get(receiving.purpose) is receiving:
            del peer.inbound[receiving.purpose]
        if peer.hidden and not peer.inbound:
            self.runtime.loop.call_later(HIDDEN_GRACE, self._forsaken, peer)

    def acknowledged(self, peer: Peer, purpose: Purpose, number: int) -> None:
        """The peer is done up to ``number``."""
        self._bulletin.acknowledged(peer.name, purpose, number)

    # Inside.

    def _begin(
        self, name: str, creation: int, address: Address, counts: Counts | None, *, hidden: bool = False
    ) -> None:
        session = self._rng.getrandbits(62) + 1
        peer = self.peers[name] = Peer(
            name,
            creation,
            address,
            session=session,
            retain=self._retain,
            queue=self._queue,
            counts=counts,
            purposes=("control",) if hidden or self.hidden else PURPOSES,
            hidden=hidden,
        )
        if hidden:
            self.runtime.loop.call_later(HIDDEN_GRACE, self._forsaken, peer)
        self.runtime.send(DIALER, LOOK)

    def _forsaken(self, peer: Peer) -> None:
        """A hidden node may have had no connection for a while."""
        if self.peers.get(peer.name) is peer and not peer.inbound:
            self.disconnect(peer.name, "gone")

    def _end(self, peer: Peer, reason: str, *, renewing: bool = False) -> None:
        del self.peers[peer.name]
        for purpose, stream in peer.sends.items():
            peer.counts.streams[purpose].lost_out += stream.unacked
        for stream_counts, receiving in zip(
            peer.counts.streams.values(), peer.receives.values(), strict=True
        ):
            stream_counts.duplicates += receiving.duplicates
        for sending in list(peer.outbound.values()):
            sending.abort()
        for inbound in list(peer.inbound.values()):
            inbound.abort()
        peer.outbound.clear()
        peer.inbound.clear()
        # Who was told that it renews is told again only when it does so no more.
        if peer.up or (peer.renewing and not renewing):
            peer.up = False
            log.info("node_down", peer=peer.name, creation=peer.creation, reason=reason)
            self._bulletin.publish(NodeDown(peer.name, peer.creation, reason, renewing), hidden=peer.hidden)

    def _progress(self, peer: Peer) -> None:
        if not peer.up and peer.connected:
            peer.up, peer.renewing = True, False
            log.info("node_up", peer=peer.name, creation=peer.creation)
            self._bulletin.publish(NodeUp(peer.name, peer.creation), hidden=peer.hidden)
        if peer.up:
            for inbound in list(peer.inbound.values()):
                inbound.release()
