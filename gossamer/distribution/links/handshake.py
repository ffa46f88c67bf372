"""Mutual authentication of two nodes, before any frame: pure, no sockets, no clock.

::

    caller                                        called
      Hello(env, purpose, names, creation,
            sessions, nonce)            ───────►  right env, right name?
                                        ◄───────  Challenge(name, creation, nonce)
      Proof(HMAC)                       ───────►  knows the cookie? then: is it a member, of this session?
                                        ◄───────  Accept(HMAC, received, session)
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
from typing import NoReturn

import msgspec

import gossamer.distribution.wire as wire
from gossamer.distribution.errors import HandshakeError, WireError

_SAME_VERSION = "run the same version on all nodes"


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
    """A channel both sides agree on; ``session`` is the other side's, 0 unknown to the caller.

    ``received``: where whoever sends frames on it goes on; the last one that the other side has.
    """

    peer: str
    creation: int
    purpose: str
    session: int
    received: int


@dataclass(frozen=True, slots=True)
class Step:
    """What one message led to: bytes to send, and an end of the handshake, good or bad."""

    send: bytes | None = None
    opened: Opened | None = None
    error: HandshakeError | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    """A caller was let in: the last frame received of it, and our session with it."""

    received: int
    session: int


Admit = Callable[[wire.Hello], Admitted]
"""Lets a proved caller in; or raises HandshakeError."""


class _Side:
    """What both sides do: read, check, prove, and refuse in words."""

    def __init__(self, local: Local, binding: bytes) -> None:
        self._local = local
        self._binding = binding
        self._hello_bytes = b""
        self._challenge_bytes = b""

    def receive(self, data: bytes) -> Step:
        """Take one message from the other side."""
        try:
            message = wire.decode_handshake(data)
            if isinstance(message, wire.Refuse):
                return Step(error=HandshakeError(**msgspec.structs.asdict(message)))
            return self._take(message, data)
        except WireError as error:
            no = self._error("protocol", error.expected, error.got, _SAME_VERSION)
        except HandshakeError as error:
            no = error
        refuse = wire.Refuse(
            code=no.code,
            expected=no.expected[:500],
            got=no.got[:500],
            refused_by=no.refused_by,
            advice=no.advice[:500],
        )
        return Step(send=wire.encode(refuse), error=no)

    def _take(self, message: wire.Handshake, data: bytes) -> Step:
        raise NotImplementedError

    def _unexpected(self, message: wire.Handshake, wanted: str) -> NoReturn:
        raise self._error("protocol", wanted, type(message).__name__, _SAME_VERSION)

    def _check_version(self, version: int) -> None:
        if version != wire.VERSION:
            raise self._error("version", f"version {wire.VERSION}", f"{version}", "upgrade the older node")

    def _check_proof(self, mac: bytes, role: bytes, who: str) -> None:
        if not hmac.compare_digest(mac, self._mac(role)):
            expected = f"{who} to prove that it has this cluster's cookie"
            raise self._error("cookie", expected, "a wrong proof", "use one cookie on all nodes of a cluster")

    def _error(self, code: str, expected: str, got: str, advice: str) -> HandshakeError:
        name = self._local.name
        return HandshakeError(code=code, expected=expected, got=got, refused_by=name, advice=advice)

    def _mac(self, role: bytes) -> bytes:
        parts = hashlib.sha256()
        for part in (role, self._hello_bytes, self._challenge_bytes, self._binding):
            parts.update(len(part).to_bytes(4, "big"))
            parts.update(part)
        return hmac.digest(self._local.key, parts.digest(), "sha256")


_CALLER, _CALLED = b"caller", b"called"


class Initiator(_Side):
    """The calling side of one channel. ``hello`` has a fresh nonce; ``creation`` is the peer's, as known.

    A call to :data:`~gossamer.distribution.wire.ANYBODY` opens, for nothing to be sent, with the Challenge:
    it says who is there. Nothing is proved by it, to either side.
    """

    def __init__(self, local: Local, hello: wire.Hello, *, creation: int, binding: bytes = b"") -> None:
        super().__init__(local, binding)
        self._to, self._purpose = hello.to, hello.purpose
        self._to_creation = creation
        self._challenge: wire.Challenge | None = None
        self._hello_bytes = wire.encode(hello)

    @property
    def hello(self) -> bytes:
        """The first message to send."""
        return self._hello_bytes

    def _take(self, message: wire.Handshake, data: bytes) -> Step:
        if self._challenge is None:
            if not isinstance(message, wire.Challenge):
                self._unexpected(message, "a Challenge")
            return self._prove(message, data)
        if not isinstance(message, wire.Accept):
            self._unexpected(message, "an Accept")
        self._check_proof(message.mac, _CALLED, self._to)
        return Step(
            opened=Opened(
                self._to, self._challenge.creation, self._purpose, message.session, message.received
            )
        )

    def _prove(self, challenge: wire.Challenge, data: bytes) -> Step:
        self._check_version(challenge.version)
        if self._to == wire.ANYBODY:
            return Step(opened=Opened(challenge.name, challenge.creation, self._purpose, 0, 0))
        if challenge.name != self._to:
            advice = "the address given for that node belongs to another"
            raise self._error("name", self._to, challenge.name, advice)
        if challenge.creation < self._to_creation:
            raise self._error(
                "stale_creation",
                f"creation {self._to_creation} or later of {self._to}",
                str(challenge.creation),
                "an old instance of the node still runs, or its data directory was lost",
            )
        self._challenge = challenge
        self._challenge_bytes = data
        return Step(send=wire.encode(wire.Proof(mac=self._mac(_CALLER))))


class Acceptor(_Side):
    """The called side of one channel. ``nonce`` must be fresh; ``admit`` decides about a proved caller."""

    def __init__(self, local: Local, *, nonce: bytes, admit: Admit, binding: bytes = b"") -> None:
        super().__init__(local, binding)
        self._nonce = nonce
        self._admit = admit
        self._hello: wire.Hello | None = None

    @property
    def caller(self) -> str:
        """The name that the caller gave, proved or not; blank before that."""
        return self._hello.name if self._hello else ""

    def _take(self, message: wire.Handshake, data: bytes) -> Step:
        if self._hello is None:
            if not isinstance(message, wire.Hello):
                self._unexpected(message, "a Hello")
            return self._ask(message, data)
        if not isinstance(message, wire.Proof):
            self._unexpected(message, "a Proof")
        return self._decide(message, self._hello)

    def _ask(self, hello: wire.Hello, data: bytes) -> Step:
        local = self._local
        self._check_version(hello.version)
        if hello.env != local.env:
            advice = "nodes of different cluster.env stay apart"
            raise self._error("env", f"env {local.env!r}", f"{hello.env!r}", advice)
        if hello.to not in (local.name, wire.ANYBODY):
            advice = "the address belongs to another node"
            raise self._error("name", f"a call to {local.name}", f"a call to {hello.to}", advice)
        if hello.name == local.name:
            advice = "give every node its own node.name"
            raise self._error("same_name", "a peer of another name", hello.name, advice)
        if hello.purpose not in wire.PURPOSES:
            expected, got = f"one of {', '.join(wire.PURPOSES)}", f"purpose {hello.purpose[:64]!r}"
            raise self._error("protocol", expected, got, "upgrade the older node")
        self._hello = hello
        self._hello_bytes = data
        self._challenge_bytes = wire.encode(
            wire.Challenge(version=wire.VERSION, name=local.name, creation=local.creation, nonce=self._nonce)
        )
        return Step(send=self._challenge_bytes)

    def _decide(self, proof: wire.Proof, hello: wire.Hello) -> Step:
        if hello.to == wire.ANYBODY:
            expected = f"a call to {self._local.name}"
            raise self._error("name", expected, "a call to anybody", "call it by its name")
        self._check_proof(proof.mac, _CALLER, hello.name)
        admitted = self._admit(hello)
        accept = wire.Accept(mac=self._mac(_CALLED), received=admitted.received, session=admitted.session)
        received = admitted.received if hello.pull is None else hello.pull
        return Step(
            send=wire.encode(accept),
            opened=Opened(hello.name, hello.creation, hello.purpose, hello.session, received),
        )
