"""Distribution of one node: frames to peers, frames from peers, nodes up and down.

Membership drives it (:meth:`Distribution.connect`, :meth:`Distribution.disconnect`); every peer gets a link
process, every purpose a stream. The object holds the state that outlives its processes: sessions, streams,
counts, receivers. Its methods are synchronous and never block.

Guarantees:

1. No frame of a peer's session is delivered before its ``NodeUp`` or after its ``NodeDown``, and both ends
   of a session see both. A link that breaks and comes back is neither.
2. Reliable frames arrive once and in order within a session. Its end loses unacked frames, and ``NodeDown``
   reports it; a session ends when more is unacked than may be retained.
3. ``acked`` counts frames that took effect: their receiver returned True, or called ``done``.
4. A receiver that raises loses its frame, which is reported and counted: one that cannot be handled must not
   come again for ever. A subscriber that raises is logged and stays; the others still get the event.

A *hidden* node is no member: it has the cookie, calls for both directions, and is never called, so that it
can run anywhere from where a node is reachable. Only ``control`` runs between it and a node.
``nodes()`` and events leave it out unless asked for. It is down when it has had no connection for
:data:`HIDDEN_TIMEOUT` seconds, since it has no membership.

Frames sent within one turn of the loop leave as one message per stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from gossamer.distribution.errors import FrameTooLargeError, PeerGoneError
from gossamer.distribution.events import Counts, Frame, NodeUp, OnAck, OnAhead, Receiver, Subscriber
from gossamer.distribution.links.manager import LinkManager
from gossamer.distribution.links.processes import children
from gossamer.distribution.links.stream import Refresh
from gossamer.distribution.wire import Purpose
from gossamer.errors import UsageError
from gossamer.network import Address
from gossamer.supervisor import ChildSpec, Supervisor


class Distribution(LinkManager):
    """Authenticated links from one node to its peers. Sizes in bytes, times in seconds.

    ``random_bytes`` returns fresh random bytes for the keys of channels; the simulator passes a seeded one.
    Retention holds at least two of the largest frames, whatever ``config`` says.
    """

    def child_spec(self) -> ChildSpec:
        """Return the spec of the distribution's subtree: transport, links, dialer and listener."""
        start = partial(Supervisor.start_link, children(self), "rest_for_one", label="distribution")
        return ChildSpec(id="distribution", start=start, type="supervisor")

    # Membership.

    def connect(self, name: str, creation: int, address: Address) -> None:
        """Keep a link to the member ``name``. A newer creation ends the session with the older one."""
        if name == self.runtime.node:
            raise UsageError(f"connect() got this node's own name {name!r}; expected the name of a peer")
        peer = self.peers.get(name)
        if peer is not None and peer.hidden:
            # A member takes precedence over a hidden node of its name.
            self.end(peer, "replaced by a member")
            peer = None
        if peer is None:
            self.begin(name, creation, address, None)
        elif creation > peer.creation:
            peer.address = address
            self.renew(peer, creation, "restarted")
        elif creation == peer.creation and address != peer.address:
            peer.address = address
            self.retry(name)

    def disconnect(self, name: str, reason: str = "left") -> None:
        """Drop the link to ``name``, which is no longer a member; frames for it are refused from now on."""
        peer = self.peers.get(name)
        if peer is not None:
            self.end(peer, reason)
            self.retry(name)

    def creation_of(self, name: str) -> int | None:
        """Return the creation of a peer, None if there is no such peer."""
        peer = self.peers.get(name)
        return None if peer is None else peer.creation

    def session_of(self, name: str) -> int:
        """Return this node's number of its session with a peer; 0 if there is no such peer."""
        peer = self.peers.get(name)
        return 0 if peer is None else peer.session

    def session_at(self, name: str) -> int:
        """Return the peer's number of its session with this node, as in the frames that it receives
        (:attr:`Frame.session`); 0 if there is no such peer."""
        peer = self.peers.get(name)
        return 0 if peer is None else peer.theirs

    # Sending.

    def send(self, peer: str, purpose: Purpose, frame: bytes, reliable: bool = True) -> int:
        """Queue a frame; returns its number, 0 for an unreliable one.

        A peer accepts frames from its NodeUp to its NodeDown; they queue while the link is down in between.
        An unreliable frame that does not fit is dropped and counted.

        Raises:
            PeerGoneError: the peer is not up.
            FrameTooLargeError: the frame is longer than ``max_frame``.
        """
        to = self.peers.get(peer)
        # Not before it is up: if its session were given up until then, no event would report it.
        if to is None or not to.up:
            raise PeerGoneError(peer)
        size = len(frame)
        if size > self.max_frame:
            raise FrameTooLargeError(purpose=purpose, size=size, limit=self.max_frame)
        stream, counts, now = to.sends[purpose], to.counts.streams[purpose], asyncio.get_running_loop().time()
        number = 0
        if reliable:
            number = stream.push(frame, now)
            if stream.retained > stream.retain:
                self.give_up(peer, f"{purpose} stream overflowed")
        elif not stream.push_unreliable(frame, now):
            counts.dropped += 1
            return 0
        counts.frames_out += 1
        counts.bytes_out += size
        outbound = to.outbound.get(purpose)
        if outbound is not None:
            outbound.channel.wake()
        return number

    def on_ack(self, purpose: Purpose, callback: OnAck) -> None:
        """Call ``callback(peer, number)`` whenever more of the frames to a peer have taken effect."""
        self.users.on_acks[purpose] = callback

    def on_ahead(self, purpose: Purpose, callback: OnAhead) -> None:
        """Call ``callback(peer, numbers, parts)`` with frames, and parts of frames, that have taken effect
        before others that came first; those may have to wait for long. Frames may be named twice, and are
        part of ``on_ack`` too."""
        self.users.on_ahead[purpose] = callback

    def refresh_with(self, purpose: Purpose, refresh: Refresh) -> None:
        """Rewrite frames of ``purpose`` with ``refresh`` before they leave, if they waited for seconds."""
        self.users.refreshers[purpose] = refresh

    # Receiving.

    def on_frame(self, purpose: Purpose, receiver: Receiver) -> None:
        """Deliver the frames of ``purpose`` to ``receiver``.

        Frames wait at their senders while there is no receiver. Frames that a receiver had not finished come
        again, over a new connection, for the one that replaces it.
        """
        replaces = purpose in self.users.receivers
        self.users.receivers[purpose] = receiver
        for peer in list(self.peers.values()):
            inbound = peer.inbound.get(purpose)
            if replaces and peer.receives[purpose].rewind() and inbound is not None:
                inbound.abort()
            elif inbound is not None:
                inbound.received()

    def done(self, frame: Frame) -> None:
        """Acknowledge ``frame``, which has taken effect, whether those before it have or not."""
        peer = self.peers.get(frame.peer)
        # Frames of a session that is over are ignored.
        if frame.number and peer is not None and peer.session == frame.session:
            due, inbound = peer.receives[frame.purpose].finish(frame.number), peer.inbound.get(frame.purpose)
            if due and inbound is not None:
                inbound.received()

    def partly(self, frame: Frame, spans: Sequence[tuple[int, int]]) -> None:
        """Report bytes of ``frame``, as ``(start, stop)``, that have taken effect before the others."""
        peer = self.peers.get(frame.peer)
        if frame.number and peer is not None and peer.session == frame.session:
            inbound = peer.inbound.get(frame.purpose)
            if peer.receives[frame.purpose].part(frame.number, spans) and inbound is not None:
                inbound.received()

    # Nodes.

    def nodes(self, *, hidden: bool = False) -> list[str]:
        """Return the peers that are up; with ``hidden`` also the hidden ones."""
        return [peer.name for peer in self.peers.values() if peer.up and (hidden or not peer.hidden)]

    def subscribe(self, subscriber: Subscriber, *, hidden: bool = False) -> None:
        """Send every NodeUp and NodeDown to ``subscriber``; first a NodeUp for each peer that is up."""
        self.subscribers[subscriber] = hidden
        for name in self.nodes(hidden=hidden):
            self.tell(subscriber, NodeUp(name, self.peers[name].creation))

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Send no more events to ``subscriber``."""
        self.subscribers.pop(subscriber, None)

    def counts(self) -> dict[str, Counts]:
        """Return the counts of the links with each peer."""
        return {peer.name: peer.counts for peer in self.peers.values()}
