"""Mutual authentication of two nodes, and the keys of their channel, before any frame: no sockets, no clock.

::

    caller                                        called
      Hello(env, purpose, names, creation,
            sessions, key)              ───────►  right env, right name?
                                        ◄───────  Challenge(name, creation, key)
      Proof, sealed                     ───────►  knows the cookie? then: is it a member, of this session?
                                        ◄───────  Accept(received, session), sealed
      knows the cookie? open                      open

The keys of a channel come from two fresh X25519 keys, the cookie, both first messages and the channel binding
(what identifies the TLS channel below, empty without one), so that whoever seals or opens a message with them
knows the cookie and has seen the same Hello and Challenge on the same channel. Each direction has its own, so
that no message can be reflected. Every message after the Challenge is sealed, those of the traffic too.

Each side is a coroutine that reads as the picture above: it yields what is to be sent, and the seal of the
answer, and is sent that answer.

Rules: 1. The caller proves first: a stranger learns nothing that it could test cookies against.  2. Who may
come in (membership, stale creations, sessions) is asked only of a caller that has proved itself, since the
answer changes state.  3. Both sides end with an error that says what was expected and what came; a refusal
travels to the other side, sealed once both have the keys: what ends a session is believed of nobody else.
4. Deadlines are the shell's.
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

_SAME_VERSION = "run the same version on all nodes"


def cookie_key(cookie: str) -> bytes:
    """Return what the cookie gives to the keys of channels; the cookie itself is not kept."""
    return hmac.digest(cookie.encode(), b"gossamer distribution 2", "sha256")


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

    def seals(self, key: ChannelKey, public: bytes, *said: bytes) -> tuple[Seal, Seal]:
        """Return the seals of both sides. Raises WireError where ``public`` is no key."""
        try:
            return key.seals(public, self.key, *said)
        except ValueError:
            raise WireError(where="handshake", expected="an X25519 key", got="one without a secret") from None

    def check_version(self, version: int) -> None:
        """Raise HandshakeError where the other side's is not ours."""
        if version != VERSION:
            raise self.refusal("version", f"version {VERSION}", f"{version}", "upgrade the older node")


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
    seal: Seal | None = None
    """Of all messages from now on; None where the call ends with the Challenge."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one message led to: bytes to send, and an end of the handshake, good or bad."""

    send: bytes | None = None
    opened: Opened | None = None
    error: HandshakeError | None = None


Admit = Callable[[Hello], tuple[int, int]]
"""Lets a proved caller in: the last frame received of it, and our session. Or raises HandshakeError."""
Side: TypeAlias = Generator[tuple[bytes, Seal | None], tuple[Message, bytes], tuple[bytes | None, Opened]]
"""Yields what it sends, and the seal of the answer; is sent that, decoded and raw; returns the last bytes,
and what is open."""


class Handshake:
    """One side of the handshake of one channel. ``hello``: how the caller introduced itself, once it has."""

    def __init__(self, local: Local, side: Side, peer: str = "the caller") -> None:
        self._local = local
        self._side = side
        self._peer = peer
        self._seal: Seal | None = None
        self.greeting, _ = next(side)
        """What opens it; empty where the other side does."""
        self.hello: Hello | None = None

    def receive(self, data: bytes) -> Step:
        """Take one message from the other side."""
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
            # Who has no such key may say so readably; but not that a session is over, which ends ours.
            with suppress(WireError):
                refuse = decode_handshake(data)
                if isinstance(refuse, Refuse) and refuse.code != "stale_session":
                    return refuse
        expected = f"{self._peer} to prove that it has this cluster's cookie"
        advice = "use one cookie on all nodes of a cluster"
        raise self._local.refusal("cookie", expected, "a wrong proof", advice)


def calling(local: Local, hello: Hello, key: ChannelKey, *, creation: int, binding: bytes = b"") -> Side:
    """The calling side, whose ``hello`` has this fresh ``key``; ``creation`` is the peer's, as known.

    A call to :data:`~gossamer.distribution.wire.ANYBODY` opens, for nothing to be sent, with the Challenge:
    it says who is there. Nothing is proved by it, to either side.
    """
    greeting = encode(hello)
    challenge, data = _expect(Challenge, "a Challenge", (yield greeting, None))
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
    seal, _ = local.seals(key, challenge.key, greeting, data, binding)
    accept, _ = _expect(Accept, "an Accept", (yield seal.close(encode(Proof())), seal))
    opened = Opened(hello.to, challenge.creation, hello.purpose, accept.session, accept.received, seal)
    return None, opened


def called(local: Local, key: ChannelKey, *, admit: Admit, binding: bytes = b"") -> Side:
    """The called side. ``key`` must be fresh; ``admit`` decides about a proved caller."""
    hello, data = _expect(Hello, "a Hello", (yield b"", None))
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
    challenge = encode(Challenge(version=VERSION, name=local.name, creation=local.creation, key=key.public))
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
