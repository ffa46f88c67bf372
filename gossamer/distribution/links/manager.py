"""State shared by the distribution's processes and the ends of channels: sessions, peers and subscribers.

It outlives them: a link that crashes loses only its connections.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable

import structlog

from gossamer.config import DistributionConfig
from gossamer.distribution.events import Counts, Event, NodeDown, NodeUp, Subscriber
from gossamer.distribution.links.admission import Acceptor
from gossamer.distribution.links.handshake import Admit, Handshake, Local, called, calling, cookie_key
from gossamer.distribution.links.seal import ChannelKey
from gossamer.distribution.links.stream import SendStream
from gossamer.distribution.links.traffic import PeerSession, Traffic, Users
from gossamer.distribution.links.turns import Turns
from gossamer.distribution.transport.transport import LinkListener, LinkTransport
from gossamer.distribution.wire import KEY_SIZE, OLDEST, PURPOSES, VERSION, Hello, Purpose
from gossamer.features import Features
from gossamer.log_limit import LogLimit
from gossamer.network import Address
from gossamer.supervisor import Pid, Runtime

log = structlog.get_logger(__name__)

Evidence = Callable[[str, str], None]
"""Called by links with ``(name, "ok" | "refused" | "reset")``, as evidence for the failure detector."""

MIB = 1024 * 1024
_BATCH = 256 * 1024
HIDDEN_TIMEOUT = 5.0
"""Seconds after which a hidden node without a connection is down."""
DIALER = "distribution_dialer"
NEW_PEER = "new_peer"
"""Message to the dialer: there is a new peer."""
RETRY = "retry"
"""Message to a link: retry now."""


class LinkManager:
    """Sessions of one node with its peers; see :class:`gossamer.distribution.Distribution`."""

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
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        evidence: Evidence = lambda _name, _kind: None,
        queue: int = 16 * MIB,
        hidden: bool = False,
        features: Features | None = None,
    ) -> None:
        config = config or DistributionConfig()
        self.runtime = runtime
        self.peers: dict[str, PeerSession] = {}
        self.users = Users(batch_size=min(_BATCH, config.max_frame))
        self.subscribers: dict[Subscriber, bool] = {}
        """Subscribers of node events, and whether they include hidden nodes."""
        self.transport = transport
        self.address = address or (config.host or "0.0.0.0", config.port)  # noqa: S104 - blank: every address
        """Address at which peers reach this node; the port is the real one once it listens."""
        self.evidence = evidence
        self.max_frame = config.max_frame
        self.max_message = config.max_frame + 4096
        self.handshake_timeout = config.handshake_timeout
        self.hidden = hidden
        """True if this node itself is hidden."""
        self.links: dict[str, Pid] = {}
        self.turns = Turns(runtime)
        # A node is made before its loop runs.
        self.missing_log = LogLimit(lambda: runtime.loop.time(), lines=1)
        """Log of streams that do not open."""
        self.listening: LinkListener | None = None
        self.local = Local(
            name=runtime.node,
            creation=runtime.creation,
            env=env,
            key=cookie_key(cookie),
            features=features or Features(),
        )
        self.rng = rng or random.Random()
        self._random_bytes = random_bytes
        self._retain = max(config.retention, 2 * config.max_frame)
        self._queue = queue
        self.backoff = (config.reconnect_min, config.reconnect_max)
        self.acceptor = Acceptor(self)

    def give_up(self, name: str, reason: str) -> None:
        """Renew the session with a peer at the end of this turn, because something of it was lost.

        Links and monitors across it see its end, as of any session.
        """
        peer = self.peers.get(name)
        if peer is not None and not peer.given_up:
            peer.given_up = True
            log.error("session_given_up", peer=name, reason=reason)
            self.runtime.loop.call_soon(self.renew, peer, peer.creation, reason)

    def retry(self, name: str) -> None:
        """Make a link that waits retry now."""
        pid = self.links.get(name)
        if pid is not None:
            self.runtime.send(pid, RETRY)

    def renew(self, peer: PeerSession, creation: int, reason: str) -> None:
        """End the session and begin another with the same peer, or with its next creation."""
        if self.peers.get(peer.name) is peer:
            awaited = peer.up or peer.renewing
            self.end(peer, reason, renewing=True)
            renewed = self.begin(peer.name, creation, peer.address, peer.counts, hidden=peer.hidden)
            renewed.renewing = awaited

    def calling(self, peer: PeerSession, purpose: Purpose, binding: bytes, *, pull: bool) -> Handshake:
        """Create the handshake of a channel that this node opens."""
        local, key = self.local, self._key()
        hello = Hello(
            version=OLDEST,
            env=local.env,
            purpose=purpose,
            name=local.name,
            creation=local.creation,
            to=peer.name,
            session=peer.session,
            yours=peer.theirs,
            key=key.public,
            hidden=self.hidden,
            pull=peer.receives[purpose].connected() if pull else None,
            newest=VERSION,
            features=tuple(local.features.declared),
        )
        side = calling(local, hello, key, creation=peer.creation, binding=binding)
        return Handshake(local, side, peer.name)

    def answering(self, admit: Admit, binding: bytes) -> Handshake:
        """Create the handshake of a channel that was opened to this node."""
        return Handshake(self.local, called(self.local, self._key(), admit=admit, binding=binding))

    def _key(self) -> ChannelKey:
        return ChannelKey(self._random_bytes(KEY_SIZE))

    def publish(self, event: Event, *, hidden: bool) -> None:
        """Send an event of a node, which is ``hidden`` or not, to all subscribers."""
        for subscriber, wants_hidden in list(self.subscribers.items()):
            if wants_hidden or not hidden:
                self.tell(subscriber, event)

    def tell(self, subscriber: Subscriber, event: Event) -> None:
        """Send an event to one subscriber; one that raises stays, a process that has ended is removed."""
        if isinstance(subscriber, Pid):
            if not self.runtime.send(subscriber, event):
                self.subscribers.pop(subscriber, None)
            return
        try:
            subscriber(event)
        except Exception:
            log.exception("subscriber_failed", event_type=type(event).__name__, peer=event.name)

    def opened(self, traffic: Traffic) -> None:
        """Register an open channel of a peer."""
        peer, siblings = traffic.peer, traffic.siblings
        if self.peers.get(peer.name) is not peer:
            traffic.abort()
            return
        previous = siblings.get(traffic.purpose)
        siblings[traffic.purpose] = traffic
        if previous is not None:
            previous.abort()
        if not peer.outbound:
            self.retry(peer.name)
        if not peer.up and peer.reached:
            peer.up, peer.renewing = True, False
            log.info("node_up", peer=peer.name, creation=peer.creation)
            self.publish(NodeUp(peer.name, peer.creation), hidden=peer.hidden)
        if peer.up:
            for inbound in list(peer.inbound.values()):
                inbound.received()

    def closed(self, traffic: Traffic) -> None:
        """Remove a closed channel."""
        peer, siblings = traffic.peer, traffic.siblings
        if siblings.get(traffic.purpose) is traffic:
            del siblings[traffic.purpose]
        if peer.hidden and not peer.inbound:
            self.runtime.loop.call_later(HIDDEN_TIMEOUT, self._expire_hidden, peer)

    def begin(
        self, name: str, creation: int, address: Address, counts: Counts | None, *, hidden: bool = False
    ) -> PeerSession:
        """Begin a session with a peer; ``counts`` are those of an earlier session."""
        counts = counts or Counts()
        peer = self.peers[name] = PeerSession(
            name,
            creation,
            address,
            session=self.rng.getrandbits(62) + 1,
            sends={
                purpose: SendStream(
                    retain=self._retain, queue=self._queue, latency=counts.streams[purpose].latency
                )
                for purpose in PURPOSES
            },
            counts=counts,
            purposes=("control",) if hidden or self.hidden else PURPOSES,
            hidden=hidden,
        )
        if hidden:
            self.runtime.loop.call_later(HIDDEN_TIMEOUT, self._expire_hidden, peer)
        self.runtime.send(DIALER, NEW_PEER)
        return peer

    def _expire_hidden(self, peer: PeerSession) -> None:
        """End a hidden node's session if it still has no connection."""
        if self.peers.get(peer.name) is peer and not peer.inbound:
            self.end(peer, "gone")

    def end(self, peer: PeerSession, reason: str, *, renewing: bool = False) -> None:
        del self.peers[peer.name]
        for purpose in PURPOSES:
            counts = peer.counts.streams[purpose]
            counts.lost_out += peer.sends[purpose].unacked
            counts.duplicates += peer.receives[purpose].duplicates
        for traffic in (*peer.outbound.values(), *peer.inbound.values()):
            traffic.abort()
        peer.outbound.clear()
        peer.inbound.clear()
        # Subscribers that got NodeDown with ``renewing`` get another only when it renews no more.
        if peer.up or (peer.renewing and not renewing):
            peer.up = False
            log.info("node_down", peer=peer.name, creation=peer.creation, reason=reason)
            self.publish(NodeDown(peer.name, peer.creation, reason, renewing), hidden=peer.hidden)
