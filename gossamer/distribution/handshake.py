"""Mutual authentication of two nodes, before any frame: pure, no sockets, no clock.

::

    caller                                        called
      Hello(env, purpose, names, creation,
            sessions, nonce)            ───────►  right env, right name?
                                        ◄───────  Challenge(name, creation, nonce)
      Proof(HMAC)                       ───────►  knows the cookie? then: is it a member, of this session?
                                        ◄───────  Accept(HMAC, received)
      knows the cookie? open                      open

Each side proves that it knows the cookie by an HMAC-SHA256 over both messages before it, which hold both
nonces, names and creations, over the channel binding (what identifies the TLS channel below, empty
without one) and over its role, so that a proof cannot be played back, relayed to another channel or
reflected. Macs are compared in constant time.

Rules: 1. The caller proves first: a stranger learns no mac that it could test cookies against.  2. Who may
come in (membership, stale creations, sessions) is asked only of a caller that has proved itself, since the
answer changes state.  3. Both sides end with an error that says what was expected and what came; a refusal
travels to the other side.  4. Deadlines are the shell's.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field

from gossamer.distribution.errors import HandshakeError, WireError
from gossamer.distribution.wire import (
    ANYBODY,
    PURPOSES,
    VERSION,
    Accept,
    Challenge,
    Hello,
    Proof,
    Refuse,
    decode_handshake,
    encode,
)

__all__ = ["Acceptor", "Initiator", "Local", "Opened", "Step", "cookie_key"]

_COOKIE = "use one cookie on all nodes of a cluster"


def cookie_key(cookie: str) -> bytes:
    """The key that proofs are made with; the cookie itself is not kept."""
    return hmac.digest(cookie.encode(), b"gossamer distribution 1", "sha256")


@dataclass(frozen=True, slots=True)
class Local:
    """This node, as its peers know it."""

    name: str
    creation: int
    env: str
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Opened:
    """A channel both sides agree on: ``session`` is the caller's, ``yours`` the called node's, 0 unknown."""

    peer: str
    creation: int
    purpose: str
    session: int
    yours: int
    received: int


@dataclass(frozen=True, slots=True)
class Step:
    """What one message led to: bytes to send, and an end of the handshake, good or bad."""

    send: bytes | None = None
    opened: Opened | None = None
    error: HandshakeError | None = None


Admit = Callable[[Hello], int]
"""Lets a proved caller in and answers with the last frame number received; or raises HandshakeError."""


def _refusal(local: Local, code: str, expected: str, got: str, advice: str) -> Step:
    error = HandshakeError(code=code, expected=expected, got=got, refused_by=local.name, advice=advice)
    return _refuse(error)


def _refuse(error: HandshakeError) -> Step:
    refuse = Refuse(
        code=error.code,
        expected=error.expected[:500],
        got=error.got[:500],
        refused_by=error.refused_by,
        advice=error.advice[:500],
    )
    return Step(send=encode(refuse), error=error)


def _refused(message: Refuse) -> Step:
    error = HandshakeError(
        code=message.code,
        expected=message.expected,
        got=message.got,
        refused_by=message.refused_by,
        advice=message.advice,
    )
    return Step(error=error)


def _protocol(local: Local, error: WireError) -> Step:
    return _refusal(local, "protocol", error.expected, error.got, "run the same version on all nodes")


def _mac(key: bytes, role: bytes, hello: bytes, challenge: bytes, binding: bytes) -> bytes:
    parts = hashlib.sha256()
    for part in (role, hello, challenge, binding):
        parts.update(len(part).to_bytes(4, "big"))
        parts.update(part)
    return hmac.digest(key, parts.digest(), "sha256")


class Initiator:
    """The calling side of one channel. ``nonce`` must be fresh; ``to`` is the peer's name and creation."""

    def __init__(
        self,
        local: Local,
        *,
        to: tuple[str, int],
        purpose: str,
        session: int,
        yours: int,
        nonce: bytes,
        binding: bytes = b"",
        hidden: int = 0,
    ) -> None:
        self._local = local
        self._to, self._to_creation = to
        self._binding = binding
        self._challenge: Challenge | None = None
        self._challenge_bytes = b""
        self._hello = Hello(
            version=VERSION,
            env=local.env,
            purpose=purpose,
            name=local.name,
            creation=local.creation,
            to=self._to,
            session=session,
            yours=yours,
            nonce=nonce,
            hidden=hidden,
        )
        self.hello = encode(self._hello)
        """The first message to send."""

    def receive(self, data: bytes) -> Step:
        """Take one message from the called node."""
        try:
            message = decode_handshake(data)
        except WireError as error:
            return _protocol(self._local, error)
        match message:
            case Refuse():
                return _refused(message)
            case Challenge() if self._challenge is None:
                return self._prove(message, data)
            case Accept() if self._challenge is not None:
                return self._verify(message, self._challenge)
        wanted = "a Challenge" if self._challenge is None else "an Accept"
        return _refusal(
            self._local, "protocol", wanted, type(message).__name__, "run the same version on all nodes"
        )

    def _prove(self, challenge: Challenge, data: bytes) -> Step:
        local = self._local
        if challenge.version != VERSION:
            return _refusal(
                local, "version", f"version {VERSION}", f"{challenge.version}", "upgrade the older node"
            )
        if challenge.name != self._to:
            return _refusal(
                local, "name", self._to, challenge.name, "the address given for that node belongs to another"
            )
        if challenge.creation < self._to_creation:
            return _refusal(
                local,
                "stale_creation",
                f"creation {self._to_creation} or later of {self._to}",
                str(challenge.creation),
                "an old instance of the node still runs, or its data directory was lost",
            )
        self._challenge = challenge
        self._challenge_bytes = data
        return Step(send=encode(Proof(mac=self._mac(b"caller"))))

    def _verify(self, accept: Accept, challenge: Challenge) -> Step:
        if not hmac.compare_digest(accept.mac, self._mac(b"called")):
            return _refusal(
                self._local,
                "cookie",
                f"{self._to} to prove that it has this cluster's cookie",
                "a wrong proof",
                _COOKIE,
            )
        hello = self._hello
        return Step(
            opened=Opened(
                peer=self._to,
                creation=challenge.creation,
                purpose=hello.purpose,
                session=hello.session,
                yours=hello.yours,
                received=accept.received,
            )
        )

    def _mac(self, role: bytes) -> bytes:
        return _mac(self._local.key, role, self.hello, self._challenge_bytes, self._binding)


class Acceptor:
    """The called side of one channel. ``nonce`` must be fresh; ``admit`` decides about a proved caller."""

    def __init__(self, local: Local, *, nonce: bytes, admit: Admit, binding: bytes = b"") -> None:
        self._local = local
        self._nonce = nonce
        self._admit = admit
        self._binding = binding
        self._hello: Hello | None = None
        self._hello_bytes = b""
        self._challenge_bytes = b""

    @property
    def caller(self) -> str:
        """The name that the caller gave, proved or not; blank before that."""
        return self._hello.name if self._hello else ""

    def receive(self, data: bytes) -> Step:
        """Take one message from the caller."""
        try:
            message = decode_handshake(data)
        except WireError as error:
            return _protocol(self._local, error)
        match message:
            case Refuse():
                return _refused(message)
            case Hello() if self._hello is None:
                return self._challenge(message, data)
            case Proof() if self._hello is not None:
                return self._decide(message, self._hello)
        wanted = "a Hello" if self._hello is None else "a Proof"
        return _refusal(
            self._local, "protocol", wanted, type(message).__name__, "run the same version on all nodes"
        )

    def _challenge(self, hello: Hello, data: bytes) -> Step:
        local = self._local
        if hello.version != VERSION:
            return _refusal(
                local, "version", f"version {VERSION}", f"{hello.version}", "upgrade the older node"
            )
        if hello.env != local.env:
            return _refusal(
                local,
                "env",
                f"env {local.env!r}",
                f"{hello.env!r}",
                "nodes of different cluster.env stay apart",
            )
        if hello.to not in (local.name, ANYBODY):
            return _refusal(
                local,
                "name",
                f"a call to {local.name}",
                f"a call to {hello.to}",
                "the address belongs to another node",
            )
        if hello.name == local.name:
            return _refusal(
                local, "same_name", "a peer of another name", hello.name, "give every node its own node.name"
            )
        if hello.purpose not in PURPOSES:
            return _refusal(
                local,
                "protocol",
                f"one of {', '.join(PURPOSES)}",
                f"purpose {hello.purpose[:64]!r}",
                "upgrade the older node",
            )
        self._hello = hello
        self._hello_bytes = data
        self._challenge_bytes = encode(
            Challenge(version=VERSION, name=local.name, creation=local.creation, nonce=self._nonce)
        )
        return Step(send=self._challenge_bytes)

    def _decide(self, proof: Proof, hello: Hello) -> Step:
        if hello.to == ANYBODY:
            return _refusal(
                self._local,
                "name",
                f"a call to {self._local.name}",
                "a call to anybody",
                "call it by its name",
            )
        if not hmac.compare_digest(proof.mac, self._mac(b"caller")):
            return _refusal(
                self._local,
                "cookie",
                f"{hello.name} to prove that it has this cluster's cookie",
                "a wrong proof",
                _COOKIE,
            )
        try:
            received = self._admit(hello)
        except HandshakeError as error:
            return _refuse(error)
        return Step(
            send=encode(Accept(mac=self._mac(b"called"), received=received)),
            opened=Opened(
                peer=hello.name,
                creation=hello.creation,
                purpose=hello.purpose,
                session=hello.session,
                yours=hello.yours,
                received=received,
            ),
        )

    def _mac(self, role: bytes) -> bytes:
        return _mac(self._local.key, role, self._hello_bytes, self._challenge_bytes, self._binding)
