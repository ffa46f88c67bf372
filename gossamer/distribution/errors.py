"""Errors between two nodes, as leaves of the one error tree.

::

    UsageError
    ├── FrameTooLargeError     a frame longer than both ends agreed to carry
    ├── TermError              a value that may not leave the node, or an unregistered message type
    └── NotAllowedError        a remote call of a function that this node does not offer
    PeerError
    ├── TlsError               no TLS with a peer: a certificate that one side refuses, or no TLS there
    ├── WireError              bytes that the protocol does not allow at this point
    └── HandshakeError         cookie, env, name, creation, version or features differ
    TransportError
    └── LinkLostError          the connection to a peer broke, or was never there
    UnavailableError
    └── PeerGoneError          no such peer now: not up yet, left, or declared down

No field ever holds the cookie, a key or a message authentication code.
"""

from __future__ import annotations

from gossamer.errors import PeerError, TransportError, UnavailableError, UsageError


class FrameTooLargeError(UsageError):
    """A frame is longer than ``limit`` bytes."""

    def __init__(self, *, purpose: str, size: int, limit: int) -> None:
        self.purpose = purpose
        self.size = size
        self.limit = limit
        super().__init__(
            f"a frame on stream {purpose!r} has {size} bytes, expected at most {limit}; "
            "send it in pieces or raise the frame limit on every node"
        )


class TermError(UsageError):
    """A value cannot travel between nodes; ``got`` names its type, never its content."""

    def __init__(self, got: str, expected: str) -> None:
        self.got = got
        self.expected = expected
        super().__init__(f"got {got}; expected {expected}")


class NotAllowedError(UsageError):
    """A remote call names a function that the node does not offer."""

    def __init__(self, *, function: str, node: str) -> None:
        self.function = function
        self.node = node
        super().__init__(
            f"node {node} offers no function {function!r} to its peers; expected one of the "
            "functions that its rpc server was started with"
        )


class WireError(PeerError):
    """Bytes from a peer that the protocol does not allow at this point."""

    def __init__(self, *, where: str, expected: str, got: str) -> None:
        self.where = where
        self.expected = expected
        self.got = got
        super().__init__(
            f"{where}: expected {expected}, got {got}; the peer runs another version or is broken"
        )


class HandshakeError(PeerError):
    """Refused handshake between two nodes, with the reason.

    ``code`` is one of ``version``, ``env``, ``cookie``, ``certificate``, ``name``, ``same_name``,
    ``unknown_node``, ``stale_creation``, ``stale_session``, ``feature``, ``full`` and ``protocol``.
    ``refused_by`` is the refusing node.
    """

    def __init__(self, *, code: str, expected: str, got: str, refused_by: str, advice: str) -> None:
        self.code = code
        self.expected = expected
        self.got = got
        self.refused_by = refused_by
        self.advice = advice
        super().__init__(
            f"handshake refused by {refused_by} ({code}): expected {expected}, got {got}; {advice}"
        )


class TlsError(PeerError):
    """The TLS handshake with a peer failed, or its certificate is that of another node."""

    def __init__(self, *, address: str, got: str, expected: str, advice: str) -> None:
        self.address = address
        self.got = got
        self.expected = expected
        self.advice = advice
        super().__init__(f"TLS with {address}: got {got}; expected {expected}; {advice}")


class LinkLostError(TransportError):
    """The connection to a peer was ``refused``, its host is ``unreachable``, or it broke (``reset``)."""

    def __init__(self, *, address: str, kind: str, detail: str) -> None:
        self.address = address
        self.kind = kind
        self.detail = detail
        super().__init__(
            f"connection to {address} {kind}: {detail}; it is tried again while the peer is a member"
        )


class PeerGoneError(UnavailableError):
    """A frame for a node that is not up."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        super().__init__(
            f"node {peer!r} is not up; expected a peer between its NodeUp and its NodeDown, wait for NodeUp"
        )


Ending = HandshakeError | LinkLostError | TlsError | WireError | None
"""Reason for the end of a channel; None: in order."""
