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

Each side is a coroutine that reads as the picture above: it yields what is to be sent and is sent what came.

Rules: 1. The caller proves first: a stranger learns no mac that it could test cookies against.  2. Who may
come in (membership, stale creations, sessions) is asked only of a caller that has proved itself, since the
answer changes state.  3. Both sides end with an error that says what was expected and what came; a refusal
travels to the other side.  4. Deadlines are the shell's.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import msgspec

from gossamer.distribution.errors import HandshakeError, WireError
from gossamer.distribution.wire import (
    ANYBODY,
    VERSION,
    Accept,
    Challenge,
    Hello,
    Proof,
    Purpose,
    Refuse,
    decode_handshake,
    encode,
)
from gossamer.distribution.wire import Handshake as Message

M = TypeVar("M")

_CALLER, _CALLED = b"caller", b"called"
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

    def refusal(self, code: str, expected: str, got: str, advice: str) -> HandshakeError:
        """What this node says no with."""
        return HandshakeError(code=code, expected=expected, got=got, refused_by=self.name, advice=advice)

    def mac(self, role: bytes, hello: bytes, challenge: bytes, binding: bytes) -> bytes:
        """That the one in ``role`` knows the cookie."""
        parts = hashlib.sha256()
        for part in (role, hello, challenge, binding):
            parts.update(len(part).to_bytes(4, "big"))
            parts.update(part)
        return hmac.digest(self.key, parts.digest(), "sha256")

    def check_version(self, version: int) -> None:
        """Raise HandshakeError where the other side's is not ours."""
        if version != VERSION:
            raise self.refusal("version", f"version {VERSION}", f"{version}", "upgrade the older node")

    def check_proof(self, mac: bytes, right: bytes, who: str) -> None:
        """Raise HandshakeError where ``who`` does not know the cookie."""
        if not hmac.compare_digest(mac, right):
            expected = f"{who} to prove that it has this cluster's cookie"
            raise self.refusal(
                "cookie", expected, "a wrong proof", "use one cookie on all nodes of a cluster"
            )


@dataclass(frozen=True, slots=True)
class Opened:
    """A channel both sides agree on; ``session`` is the other side's, 0 unknown to the caller.

    ``received``: where whoever sends frames on it goes on; the last one that the other side has.
    """

    peer: str
    creation: int
    purpose: Purpose
    session: int
    received: int


@dataclass(frozen=True, slots=True)
class Step:
    """What one message led to: bytes to send, and an end of the handshake, good or bad."""

    send: bytes | None = None
    opened: Opened | None = None
    error: HandshakeError | None = None


Admit = Callable[[Hello], tuple[int, int]]
"""Lets a proved caller in: the last frame received of it, and our session. Or raises HandshakeError."""
Side: TypeAlias = Generator[bytes, tuple[Message, bytes], tuple[bytes | None, Opened]]
"""Yields what it sends; is sent what came, decoded and raw; returns the last bytes, and what is open."""


class Handshake:
    """One side of the handshake of one channel. ``hello``: how the caller introduced itself, once it has."""

    def __init__(self, local: Local, side: Side) -> None:
        self._local = local
        self._side = side
        self.greeting = next(side)
        """What opens it; empty where the other side does."""
        self.hello: Hello | None = None

    def receive(self, data: bytes) -> Step:
        """Take one message from the other side."""
        try:
            message = decode_handshake(data)
            if isinstance(message, Refuse):
                return Step(error=HandshakeError(**msgspec.structs.asdict(message)))
            if isinstance(message, Hello):
                self.hello = message
            return Step(self._side.send((message, data)))
        except StopIteration as end:
            return Step(*end.value)
        except WireError as error:
            no = self._local.refusal("protocol", error.expected, error.got, _SAME_VERSION)
        except HandshakeError as error:
            no = error
        refuse = Refuse(no.code, no.expected[:500], no.got[:500], no.refused_by, no.advice[:500])
        return Step(encode(refuse), error=no)


def calling(local: Local, hello: Hello, *, creation: int, binding: bytes = b"") -> Side:
    """The calling side. ``hello`` has a fresh nonce; ``creation`` is the peer's, as known.

    A call to :data:`~gossamer.distribution.wire.ANYBODY` opens, for nothing to be sent, with the Challenge:
    it says who is there. Nothing is proved by it, to either side.
    """
    greeting = encode(hello)
    challenge, data = _expect(Challenge, "a Challenge", (yield greeting))
    local.check_version(challenge.version)
    if hello.to == ANYBODY:
        return None, Opened(challenge.name, challenge.creation, hello.purpose, 0, 0)
    if challenge.name != hello.to:
        advice = "the address given for that node belongs to another"
        raise local.refusal("name", hello.to, challenge.name, advice)
    if challenge.creation < creation:
        expected = f"creation {creation} or later of {hello.to}"
        advice = "an old instance of the node still runs, or its data directory was lost"
        raise local.refusal("stale_creation", expected, str(challenge.creation), advice)
    proof = encode(Proof(local.mac(_CALLER, greeting, data, binding)))
    accept, _ = _expect(Accept, "an Accept", (yield proof))
    local.check_proof(accept.mac, local.mac(_CALLED, greeting, data, binding), hello.to)
    return None, Opened(hello.to, challenge.creation, hello.purpose, accept.session, accept.received)


def called(local: Local, *, nonce: bytes, admit: Admit, binding: bytes = b"") -> Side:
    """The called side. ``nonce`` must be fresh; ``admit`` decides about a proved caller."""
    hello, data = _expect(Hello, "a Hello", (yield b""))
    local.check_version(hello.version)
    if hello.env != local.env:
        advice = "nodes of different cluster.env stay apart"
        raise local.refusal("env", f"env {local.env!r}", f"{hello.env!r}", advice)
    if hello.to not in (local.name, ANYBODY):
        advice = "the address belongs to another node"
        raise local.refusal("name", f"a call to {local.name}", f"a call to {hello.to}", advice)
    if hello.name == local.name:
        advice = "give every node its own node.name"
        raise local.refusal("same_name", "a peer of another name", hello.name, advice)
    challenge = encode(Challenge(version=VERSION, name=local.name, creation=local.creation, nonce=nonce))
    proof, _ = _expect(Proof, "a Proof", (yield challenge))
    if hello.to == ANYBODY:
        expected = f"a call to {local.name}"
        raise local.refusal("name", expected, "a call to anybody", "call it by its name")
    local.check_proof(proof.mac, local.mac(_CALLER, data, challenge, binding), hello.name)
    received, session = admit(hello)
    accept = Accept(local.mac(_CALLED, data, challenge, binding), received, session)
    resumes = received if hello.pull is None else hello.pull
    return encode(accept), Opened(hello.name, hello.creation, hello.purpose, hello.session, resumes)


def _expect(kind: type[M], wanted: str, came: tuple[object, bytes]) -> tuple[M, bytes]:
    message, data = came
    if not isinstance(message, kind):
        raise WireError(where="handshake", expected=wanted, got=type(message).__name__)
    return message, data
