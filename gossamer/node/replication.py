"""Tables over links: what replication asks of a link, answered by the distribution."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gossamer.distribution import Distribution, Event, Frame, NodeUp, PeerGoneError
from gossamer.mnesia_like import ReplicationSink


class TableLinks:
    """Implements :class:`gossamer.mnesia_like.ReplicationLink`."""

    def __init__(self, distribution: Distribution) -> None:
        self._distribution = distribution
        self._sink: ReplicationSink | None = None
        distribution.subscribe(self._event)

    def peers(self) -> Mapping[str, tuple[int, int]]:
        """Peers that are up, with their creations and sessions."""
        peers = self._distribution.peers
        return {
            name: (peer.creation, peer.session) for name, peer in peers.items() if peer.up and not peer.hidden
        }

    def renewing(self) -> set[str]:
        """Return the members whose link begins a new session."""
        return {name for name, peer in self._distribution.peers.items() if peer.renewing and not peer.hidden}

    def send(self, peer: str, session: int, frame: bytes) -> None:
        """Queue a frame for a peer; it is dropped if the peer is gone, or has another session."""
        if self._distribution.session_of(peer) != session:
            return
        try:
            self._distribution.send(peer, "replication", frame)
        except PeerGoneError:
            return

    def renew(self, peer: str) -> None:
        """End the session with a peer, and begin another."""
        self._distribution.give_up(peer, "tables lost a frame of it")

    def left(self, peer: str) -> None:
        """Let the rows of a peer go that has left permanently, if it was down already."""
        if self._sink is not None and peer not in self._distribution.nodes():
            self._sink.peer_down(peer, left=True)

    def attach(self, sink: ReplicationSink) -> None:
        """Pass frames and events to ``sink`` from now on; until then frames wait at their senders."""
        self._sink = sink
        self._distribution.on_frame("replication", self._frame)

    def _event(self, event: Event) -> None:
        if self._sink is None:
            return
        if isinstance(event, NodeUp):
            session = self._distribution.session_of(event.name)
            self._sink.peer_up(event.name, event.creation, session)
        else:
            self._sink.peer_down(event.name, left=event.reason == "left", renewing=event.renewing)

    def _frame(self, frame: Frame) -> None:
        if self._sink is not None:
            self._sink.frame(frame.peer, frame.payload, partial(self._distribution.done, frame))
