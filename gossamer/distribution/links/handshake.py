"""Mutual authentication of two nodes, and key agreement of their channel, before any frame: pure.

::

    caller                                        called
      Hello(env, purpose, names, creation,
            sessions, key)              ───────►  right env, right name?
                                        ◄───────  Challenge(name, creation, key)
      Proof, sealed                     ───────►  knows the cookie? then: is it a member, of this session?
                                        ◄───────  Accept(received, session), sealed
      knows the cookie? open                      open

The keys of a channel are derived from two fresh X25519 keys, the cookie, both first messages and the channel
binding (the identity of the TLS channel below, empty without one), so only a node that has the cookie and saw
the same Hello and Challenge on the same channel can seal or open a message. Each direction has its own key,
so no message can be reflected. Every message after the Challenge is sealed, including those of the traffic.

Each side is a generator that reads like the diagram: it yields a message to send and the seal of the answer,
and is sent that answer.

Rules: 1. The caller proves first: an unauthenticated caller gets nothing to test cookies against.  2.
Admission (membership, stale creations, sessions) is decided only for an authenticated caller, since it
changes state. 3. Both sides end with an error that says what was expected and what was received; a refusal is
sent to the other side, sealed once both have the keys: only an authenticated one can end a session.
4. Deadlines are the shell's.  5. Both sides name the protocol versions that they speak; the newest common one
counts, and nobody between them can choose an older one, since the keys depend on both messages.  6. A member
that lacks a feature which is enabled here gets no link.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import msgspec

from gossamer.distribution.errors import HandshakeError, WireError
from gossamer.distribution.links.seal import BrokenSeal, ChannelKey, Seal
from gossamer.distribution.transport.certificates import Names, expected_names
from gossamer.distribution.wire import (
    ANYBODY,
    OLDEST,
    VERSION,
    Accept,
    Challenge,
    Hello,
    Proof,
    Purpose,
    Refuse,
    decode_handshake,
    encode,
    spoken,
)
from gossamer.distribution.wire import Handshake as Message
from gossamer.features import Features

M = TypeVar("M")

_SAME_VERSION = "run the same version on all nodes"


def cookie_key(cookie: str) -> bytes:
    """Derive the cookie's part of the channel keys; the cookie itself is not kept."""
    return hmac.digest(cookie.encode(), b"gossamer distribution 2", "sha256")


@dataclass(frozen=True, slots=True)
class Local:
    """This node's identity towards its peers."""

    name: str
    creation: int
    env: str
    key: bytes = field(repr=False)
    features: Features = field(default_factory=Features)

    def refusal(self, code: str, expected: str, got: str, advice: str) -> HandshakeError:
        """Build this node's refusal."""
        return HandshakeError(code=code, expected=expected, got=got, refused_by=self.name, advice=advice)

    def not_named(self, node: str, names: Names) -> HandshakeError:
        """Build the refusal of ``node``, to which the certificate that it showed does not belong."""
        advice = f"have the certificate in distribution.tls.cert_file of {node} issued for its node.name"
        return self.refusal("certificate", expected_names(node), str(names), advice)

    def seals(self, key: ChannelKey, public: bytes, *said: bytes) -> tuple[Seal, Seal]:
        """Return the seals of both sides. Raises WireError if ``public`` is not a key."""
        try:
            return key.seals(public, self.key, *said)
        except ValueError:
            raise WireError(where="handshake", expected="an X25519 key", got="one without a secret") from None

    def check_version(self, said: Hello | Challenge) -> None:
        """Raise HandshakeError if there is no version that both sides speak."""
        if not spoken(said):
            newest = said.newest or said.version
            got = f"{said.version}" if newest == said.version else f"{said.version} to {newest}"
            older = self.name if said.version > VERSION else said.name
            advice = f"upgrade {older}, one release at a time: a release speaks to the one before it"
            raise self.refusal("version", f"version {OLDEST} to {VERSION}", got, advice)

    def check_features(self, said: Hello | Challenge) -> None:
        """Raise HandshakeError if the other side lacks a feature that is enabled in this cluster."""
        if lacked := self.features.lacked_by(said.features):
            expected = " and ".join(
                f"feature {name} (since {self.features.enabled[name]})" for name in lacked
            )
            got = ", ".join(said.features) or "none"
            advice = f"{self.name} has it enabled, which cannot be undone; upgrade {said.name}"
            raise self.refusal("feature", expected, got, advice)


@dataclass(frozen=True, slots=True)
class Opened:
    """Channel that both sides agreed on; ``session`` is the other side's, 0 if unknown to the caller.

    ``received`` is the number of the last frame that the receiver has; the sender continues after it.
    """

    peer: str
    creation: int
    purpose: Purpose
    session: int
    received: int
    seal: Seal | None = None
    """Of all messages from now on; None where the call ends with the Challenge."""


@dataclass(frozen=True, slots=True)
class Step:
    """Result of one message: bytes to send, and the end of the handshake, if reached."""

    send: bytes | None = None
    opened: Opened | None = None
    error: HandshakeError | None = None


Admit = Callable[[Hello], tuple[int, int]]
"""Admits an authenticated caller: returns its last frame received and our session, or raises."""
Side: TypeAlias = Generator[tuple[bytes, Seal | None], tuple[Message, bytes], tuple[bytes | None, Opened]]
"""Yields a message to send and the seal of the answer; is sent that, decoded and raw; returns the last
bytes, and the channel."""


class Handshake:
    """One side of the handshake of one channel. ``hello`` is the caller's, once received."""

    def __init__(self, local: Local, side: Side, peer: str = "the caller") -> None:
        self._local = local
        self._side = side
        self._peer = peer
        self._seal: Seal | None = None
        self.greeting, _ = next(side)
        """First message of this side; empty if the other side begins."""
        self.hello: Hello | None = None

    def receive(self, data: bytes) -> Step:
        """Handle one message from the other side."""
        try:
            message = self._read(data)
            if isinstance(message, Refuse):
                return Step(error=HandshakeError(**msgspec.structs.asdict(message)))
            if isinstance(message, Hello):
                self.hello, self._peer = message, message.name
            send, self._seal = self._side.send((message, data))
            return Step(send)
        except StopIteration as end:
            return Step(*end.value)
        except WireError as error:
            no = self._local.refusal("protocol", error.expected, error.got, _SAME_VERSION)
        except HandshakeError as error:
            no = error
        refuse = encode(Refuse(no.code, no.expected[:500], no.got[:500], no.refused_by, no.advice[:500]))
        if self._seal is not None and no.code != "cookie":
            refuse = self._seal.close(refuse)
        return Step(refuse, error=no)

    def _read(self, data: bytes) -> Message:
        if self._seal is None:
            return decode_handshake(data)
        try:
            return decode_handshake(self._seal.open(data))
        except BrokenSeal:
            # A peer without the key may refuse in plain text; but not with an over session, which ends ours.
            with suppress(WireError):
                refuse = decode_handshake(data)
                if isinstance(refuse, Refuse) and refuse.code != "stale_session":
                    return refuse
        expected = f"{self._peer} to prove that it has this cluster's cookie"
        advice = "use one cookie on all nodes of a cluster"
        raise self._local.refusal("cookie", expected, "a wrong proof", advice)


def calling(local: Local, hello: Hello, key: ChannelKey, *, creation: int, binding: bytes = b"") -> Side:
    """Run the calling side. ``hello`` has this fresh ``key``; ``creation`` is the peer's known one.

    A call to :data:`~gossamer.distribution.wire.ANYBODY` ends with the Challenge, which names the called
    node; no frames follow, and neither side is authenticated.
    """
    greeting = encode(hello)
    challenge, data = _expect(Challenge, "a Challenge", (yield greeting, None))
    local.check_version(challenge)
    if hello.to == ANYBODY:
        return None, Opened(challenge.name, challenge.creation, hello.purpose, 0, 0)
    if challenge.name != hello.to:
        advice = "the address given for that node belongs to another"
        raise local.refusal("name", hello.to, challenge.name, advice)
    if challenge.creation < creation:
        expected = f"creation {creation} or later of {hello.to}"
        advice = "an old instance of the node still runs, or its data directory was lost"
        raise local.refusal("stale_creation", expected, str(challenge.creation), advice)
    local.check_features(challenge)
    seal, _ = local.seals(key, challenge.key, greeting, data, binding)
    accept, _ = _expect(Accept, "an Accept", (yield seal.close(encode(Proof())), seal))
    opened = Opened(hello.to, challenge.creation, hello.purpose, accept.session, accept.received, seal)
    return None, opened


def called(local: Local, key: ChannelKey, *, admit: Admit, binding: bytes = b"") -> Side:
    """Run the called side. ``key`` must be fresh; ``admit`` decides about an authenticated caller."""
    hello, data = _expect(Hello, "a Hello", (yield b"", None))
    local.check_version(hello)
    if hello.env != local.env:
        advice = "nodes of different cluster.env stay apart"
        raise local.refusal("env", f"env {local.env!r}", f"{hello.env!r}", advice)
    if hello.to not in (local.name, ANYBODY):
        advice = "the address belongs to another node"
        raise local.refusal("name", f"a call to {local.name}", f"a call to {hello.to}", advice)
    if hello.name == local.name:
        advice = "give every node its own node.name"
        raise local.refusal("same_name", "a peer of another name", hello.name, advice)
    challenge = encode(
        Challenge(
            version=OLDEST,
            name=local.name,
            creation=local.creation,
            key=key.public,
            newest=VERSION,
            features=tuple(local.features.declared),
        )
    )
    _, seal = local.seals(key, hello.key, data, challenge, binding)
    _expect(Proof, "a Proof", (yield challenge, seal))
    if hello.to == ANYBODY:
        expected = f"a call to {local.name}"
        raise local.refusal("name", expected, "a call to anybody", "call it by its name")
    received, session = admit(hello)
    resumes = received if hello.pull is None else hello.pull
    opened = Opened(hello.name, hello.creation, hello.purpose, hello.session, resumes, seal)
    return seal.close(encode(Accept(received, session))), opened


def _expect(kind: type[M], wanted: str, came: tuple[object, bytes]) -> tuple[M, bytes]:
    message, data = came
    if not isinstance(message, kind):
        raise WireError(where="handshake", expected=wanted, got=type(message).__name__)
    return message, data
