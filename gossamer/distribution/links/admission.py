"""Who may come in: callers that proved that they know the cookie, and those that have not yet.

Rules: 1. A caller is a member, or hidden; whoever is neither is refused and will try again.  2. Sessions are
compared before anything flows (:func:`~gossamer.distribution.links.session.admit`).  3. A member comes before
a hidden node of its name.  4. How many strangers may be in their handshake, and how many hidden nodes linked,
is bounded.  5. What is wrong with a caller is logged once: it tries again for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from gossamer.distribution.errors import Ending, HandshakeError
from gossamer.distribution.links.session import Admission, admit
from gossamer.distribution.links.traffic import Peer
from gossamer.distribution.wire import Hello

if TYPE_CHECKING:
    from gossamer.distribution.links.hub import Hub

__all__ = ["Door"]

log = structlog.get_logger(__name__)

MAX_HIDDEN = 1000
"""Hidden nodes that may be linked with one node."""
STRANGERS = 512
"""Accepted connections that may be in their handshake at once."""
REFUSED_KEPT = 1000


class Door:
    """The door of one node."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._strangers = 0
        self._refused: dict[str, str] = {}

    def strange(self, number: int) -> bool:
        """One more, or one less, caller in its handshake; False when there are too many."""
        self._strangers += number
        return self._strangers <= STRANGERS

    def admit(self, hello: Hello, address: str) -> Peer:
        """Let a proved caller in. Raises HandshakeError."""
        peer = self._hub.peers.get(hello.name)
        if hello.hidden:
            peer = self._admit_hidden(hello, address, peer)
        if peer is None:
            raise self._refusal(
                "unknown_node", "a member", hello.name, "it is tried again; wait until membership has spread"
            )
        verdict = admit(creation=peer.creation, session=peer.session, theirs=peer.theirs, hello=hello)
        if verdict is Admission.STALE_CREATION:
            expected = f"creation {peer.creation} of {hello.name}"
            advice = "an older instance of the node still runs: stop it"
            raise self._refusal("stale_creation", expected, str(hello.creation), advice)
        if verdict is Admission.STALE_SESSION:
            raise self._refusal(
                "stale_session", "a current session", "one that is over", "a new one is begun"
            )
        if verdict is Admission.RENEW:
            reason = "restarted" if hello.creation > peer.creation else "forgotten by the peer"
            self._hub.renew(peer, hello.creation, reason)
            peer = self._hub.peers[hello.name]
        peer.theirs = hello.session
        return peer

    def turned_away(self, caller: str, address: str, error: Ending) -> None:
        """An accepted channel ended, well or badly."""
        if isinstance(error, HandshakeError):
            quiet = error.code in ("unknown_node", "stale_session") or self._refused.get(caller) == error.code
            level = log.debug if quiet else log.warning
            level("handshake_refused", caller=caller, address=address, error=str(error))
            self._refused[caller] = error.code
            if len(self._refused) > REFUSED_KEPT:
                self._refused.clear()
        elif error is not None:
            log.debug("channel_lost", peer=caller or None, error=str(error))

    def _admit_hidden(self, hello: Hello, address: str, peer: Peer | None) -> Peer:
        if peer is not None and not peer.hidden:
            advice = "give the hidden node another name"
            raise self._refusal("name", "a name that no member has", hello.name, advice)
        if hello.purpose != "control":
            advice = "a hidden node has no other stream"
            raise self._refusal("protocol", "control", hello.purpose, advice)
        if peer is not None:
            return peer
        if sum(other.hidden for other in self._hub.peers.values()) >= MAX_HIDDEN:
            expected = f"at most {MAX_HIDDEN} hidden nodes"
            raise self._refusal("full", expected, "one more", "try another node of the cluster")
        return self._hub.begin_hidden(hello.name, hello.creation, address)

    def _refusal(self, code: str, expected: str, got: str, advice: str) -> HandshakeError:
        node = self._hub.runtime.node
        return HandshakeError(code=code, expected=expected, got=got, refused_by=node, advice=advice)
