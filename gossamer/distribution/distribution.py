"""The distribution of one node: frames to peers, frames from peers, who is up.

Membership drives it (:meth:`Distribution.connect`, :meth:`Distribution.disconnect`); every peer gets a link
process, every purpose a stream. The object holds what outlives its processes: sessions, streams, counts, who
takes frames. Its methods are synchronous and never block.

What a user may rely on:

1. Nothing of a peer's session is handed over before its ``NodeUp`` or after its ``NodeDown``, and both ends
   of a session see both. A link that breaks and comes back is neither.
2. Reliable frames arrive once and in order within a session. Its end loses what is unacked, and ``NodeDown``
   says so; a session ends where more is unacked than may be retained.
3. ``acked`` counts frames that took effect: whose receiver returned True, or called ``done``.
4. A receiver that raises loses its frame, which is reported and counted: one that cannot be handled must not
   come again for ever. A subscriber that raises is logged and stays; the others are told.

A *hidden* node is no member: it knows the cookie, calls by itself for both directions, and is never called,
so that it may be anywhere from where a node can be reached. Only ``control`` runs between it and a node.
``nodes()`` and events leave it out unless asked for. It is gone when it has had no connection for
:data:`HIDDEN_GRACE` seconds, since no membership speaks of it.

Frames sent within one turn of the loop leave as one message per stream.
"""

from __future__ import annotations

import asyncio
from functools import partial

from gossamer.distribution.errors import FrameTooLargeError, PeerGoneError
from gossamer.distribution.events import Counts, Frame, NodeUp, OnAck, Receiver, Subscriber
from gossamer.distribution.links.hub import Hub
from gossamer.distribution.links.processes import children
from gossamer.distribution.links.stream import Refresh
from gossamer.distribution.wire import Purpose
from gossamer.errors import UsageError
from gossamer.network import Address
from gossamer.supervisor import ChildSpec, Supervisor


class Distribution(Hub):
    """Authenticated links from one node to its peers. Sizes in bytes, times in seconds.

    ``random_bytes`` returns fresh random bytes for the keys of channels; the simulator passes a seeded one.
    At least two of the largest frames are retained, whatever ``config`` says.
    """

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
        """``name`` is no member any more; frames for it are refused from now on."""
        peer = self.peers.get(name)
        if peer is not None:
            self.end(peer, reason)
            self.retry(name)

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

    def refresh_with(self, purpose: Purpose, refresh: Refresh) -> None:
        """Frames of ``purpose`` that could not leave for seconds go out as ``refresh`` makes them."""
        self.users.refreshers[purpose] = refresh

    # Receiving.

    def on_frame(self, purpose: Purpose, receiver: Receiver) -> None:
        """Hand over the frames of ``purpose`` to ``receiver``.

        Frames wait at their senders while nobody takes them. What a receiver had not done comes again, over a
        new connection, for the one that replaces it.
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
        """``frame`` has taken effect; its sender will be told, cumulatively."""
        peer = self.peers.get(frame.peer)
        # Frames of a session that is over are nobody's.
        if frame.number and peer is not None and peer.session == frame.session:
            due, inbound = peer.receives[frame.purpose].finish(frame.number), peer.inbound.get(frame.purpose)
            if due and inbound is not None:
                inbound.received()

    # Nodes.

    def nodes(self, *, hidden: bool = False) -> list[str]:
        """The peers that are up; those that are ``hidden`` on demand."""
        return [peer.name for peer in self.peers.values() if peer.up and (hidden or not peer.hidden)]

    def subscribe(self, subscriber: Subscriber, *, hidden: bool = False) -> None:
        """Tell ``subscriber`` of every NodeUp and NodeDown; of the peers that are up already, at once."""
        self.subscribers[subscriber] = hidden
        for name in self.nodes(hidden=hidden):
            self.tell(subscriber, NodeUp(name, self.peers[name].creation))

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """No more events for ``subscriber``."""
        self.subscribers.pop(subscriber, None)

    def counts(self) -> dict[str, Counts]:
        """What the links with each peer carried and went through."""
        return {peer.name: peer.counts for peer in self.peers.values()}
