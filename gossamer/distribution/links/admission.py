"""Admission of callers, and when two nodes must drop their session.

Rules: 1. A caller must be a member, or hidden; any other is refused and will retry.  2. Sessions are compared
before any frame.  3. A member takes precedence over a hidden node of its name.  4. The number of callers in
their handshake, and of hidden nodes linked, is bounded.  5. A refusal of a caller is logged once, since it
retries for ever.

A session is one node's state about one peer instance: frame numbers, unacked frames, links and monitors
across. It outlives connections. It ends when membership reports the peer down, or when the peer began a new
one, because a peer that lost its record of received frames cannot be resumed. The end must be mutual: if A
declared B down, A's processes saw ``noconnection``, and so must B's.

Each side identifies its session by a number drawn at its start. A caller's Hello carries its own session and,
as ``yours``, the session of the called node as last seen (0 while unknown). :func:`admit` decides for the
called node, in this order:

1. An older creation than the known one is refused: a ghost.
2. A newer creation proves that the known one is dead: begin a new session, then accept.
3. ``yours`` is a session of ours that is over: refuse, and the caller must begin a new one.
4. ``yours`` is 0 while we know another session of the caller: it dropped our session, so we drop its.
5. Otherwise accept, and store the caller's session.

Termination: only rules 3 and 4 begin sessions; after either, the next Hello names our current session, so
rule 5 applies. A session is *up*, and frames are delivered, once both directions are open; so ``yours`` is
known on both sides whenever any frame was exchanged.

Rejected: one connection used both ways, as Erlang does. It needs a tie-break for simultaneous connects and
couples both directions' flow control; two one-way links need neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import structlog

from gossamer.distribution.errors import Ending, HandshakeError
from gossamer.distribution.links.traffic import PeerSession
from gossamer.distribution.wire import Hello, spoken
from gossamer.log_limit import LogLimit
from gossamer.places import Places

if TYPE_CHECKING:
    from gossamer.distribution.links.manager import LinkManager

log = structlog.get_logger(__name__)

MAX_HIDDEN = 1000
"""Maximum number of hidden nodes linked with one node."""
MAX_UNAUTHENTICATED = 512
MAX_UNAUTHENTICATED_EACH = 128
"""Maximum number of accepted connections in their handshake at once, from all addresses and from one."""
REFUSED_KEPT = 1000


Admission = Literal["accept", "renew", "stale_creation", "stale_session"]
"""Decision about a caller that proved that it has the cookie: accept it; renew our session with it, then
accept it; or refuse it as an older instance, or as one that resumes a session that is over."""


def admit(*, creation: int, session: int, theirs: int, hello: Hello) -> Admission:
    """Decide about ``hello``, given the peer's ``creation``, our ``session`` and ``theirs`` (0: unknown)."""
    if hello.creation < creation:
        return "stale_creation"
    if hello.creation > creation:
        return "renew"
    if hello.yours not in (0, session):
        return "stale_session"
    if hello.yours == 0 and theirs not in (0, hello.session):
        return "renew"
    return "accept"


class Caller(Protocol):
    """End of an accepted channel."""

    address: str

    def abort(self) -> None:
        """End now."""


class Acceptor:
    """Admission of callers at one node."""

    def __init__(self, manager: LinkManager) -> None:
        self._manager = manager
        self.unauthenticated = Places(MAX_UNAUTHENTICATED, MAX_UNAUTHENTICATED_EACH, self._evict)
        """Accepted channels in their handshake."""
        self._turned_away = LogLimit(self._now, lines=1)
        self._handshakes = LogLimit(self._now)
        self._refused: dict[str, str] = {}

    def _now(self) -> float:
        # A node is made before its loop runs.
        return self._manager.runtime.loop.time()

    def enter(self, caller: Caller, address: str) -> bool:
        """Return whether an accepted channel may begin its handshake, and count it until it is over."""
        full = self.unauthenticated.take(caller, address.rpartition(":")[0])
        if full:
            self._turned_away.write(log.warning, "callers_turned_away", address=address, in_handshake=full)
        return not full

    def _evict(self, caller: Caller) -> None:
        full = f"{MAX_UNAUTHENTICATED} callers, most of them of this address"
        self._turned_away.write(log.warning, "callers_turned_away", address=caller.address, in_handshake=full)
        caller.abort()

    def admit(self, hello: Hello, address: str) -> PeerSession:
        """Admit an authenticated caller. Raises HandshakeError."""
        peer = self._manager.peers.get(hello.name)
        if hello.hidden:
            peer = self._admit_hidden(hello, address, peer)
        if peer is None:
            raise self._manager.local.refusal(
                "unknown_node", "a member", hello.name, "it is tried again; wait until membership has spread"
            )
        verdict = admit(creation=peer.creation, session=peer.session, theirs=peer.theirs, hello=hello)
        if verdict == "stale_creation":
            expected = f"creation {peer.creation} of {hello.name}"
            advice = "an older instance of the node still runs: stop it"
            raise self._manager.local.refusal("stale_creation", expected, str(hello.creation), advice)
        if verdict == "stale_session":
            raise self._manager.local.refusal(
                "stale_session", "a current session", "one that is over", "a new one is begun"
            )
        # After the sessions, so that a node whose session was ended for it sees that end first.
        if not hello.hidden:
            self._manager.local.check_features(hello)
        if verdict == "renew":
            reason = "restarted" if hello.creation > peer.creation else "forgotten by the peer"
            self._manager.renew(peer, hello.creation, reason)
            peer = self._manager.peers[hello.name]
        peer.theirs, peer.protocol, peer.features = hello.session, spoken(hello), hello.features
        return peer

    def log_ending(self, caller: str, address: str, error: Ending) -> None:
        """Log the end of an accepted channel."""
        if isinstance(error, HandshakeError):
            quiet = error.code in ("unknown_node", "stale_session") or self._refused.get(caller) == error.code
            facts = {"caller": caller, "address": address, "error": str(error)}
            if quiet:
                log.debug("handshake_refused", **facts)
            else:
                # The name is what a stranger gave, so that there may be any number of them.
                self._handshakes.write(log.warning, "handshake_refused", **facts)
            self._refused[caller] = error.code
            if len(self._refused) > REFUSED_KEPT:
                self._refused.clear()
        elif error is not None:
            log.debug("channel_lost", peer=caller or None, error=str(error))

    def _admit_hidden(self, hello: Hello, address: str, peer: PeerSession | None) -> PeerSession:
        if peer is not None and not peer.hidden:
            advice = "give the hidden node another name"
            raise self._manager.local.refusal("name", "a name that no member has", hello.name, advice)
        if hello.purpose != "control":
            advice = "a hidden node has no other stream"
            raise self._manager.local.refusal("protocol", "control", hello.purpose, advice)
        if peer is not None:
            return peer
        if sum(other.hidden for other in self._manager.peers.values()) >= MAX_HIDDEN:
            expected = f"at most {MAX_HIDDEN} hidden nodes"
            raise self._manager.local.refusal("full", expected, "one more", "try another node of the cluster")
        return self._manager.begin(hello.name, hello.creation, (address, 0), None, hidden=True)
