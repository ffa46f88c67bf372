"""Messages of a channel: the handshake first, then batches of frames one way and acks the other.

A channel carries whole messages (``bytes``); this module defines their format. Every message is one msgpack
array whose first element is its tag, encoded and decoded in C by msgspec, because the cost of a message is
its handling in Python and not its length.

Rules: 1. Decoding takes any bytes and returns a message or raises :class:`WireError`, nothing else.  2. A
handshake message is short (:data:`HANDSHAKE_LIMIT`), whatever an unauthenticated peer claims.
3. Tags are never reused; the version is raised when a shape changes, here or in frames of the users of links.
4. An element after those that are known is skipped: a field is added at the end, with a default.

A :class:`Batch` holds *runs*: ``(first, frames)`` are reliable frames numbered ``first``, ``first + 1``, …;
``(0, frames)`` are unreliable ones, which have no number. Runs are in the order of sending.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec

from gossamer.distribution.errors import WireError

M = TypeVar("M")

OLDEST, VERSION = 4, 5
"""Versions of the protocol that this release speaks: that of the release before, and its own."""
ANYBODY = "*"
"""Name to call when only an address is known: the Challenge contains the name, and the call ends there."""
KEY_SIZE = 32
"""Bytes of a public X25519 key."""
HANDSHAKE_LIMIT = 4096
Purpose = Literal["control", "replication", "data"]
PURPOSES: tuple[Purpose, ...] = ("control", "replication", "data")
"""Streams of a link, in the order of opening."""

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
_Key = Annotated[bytes, msgspec.Meta(min_length=KEY_SIZE, max_length=KEY_SIZE)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Features = tuple[Annotated[str, msgspec.Meta(max_length=64)], ...]


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Opens a channel: caller, called node, purpose, sessions. ``yours`` is 0 while unknown.

    ``version`` is the oldest protocol that the caller speaks, where that of a node before version 5 stands;
    ``newest`` its own, 0 from such a node. ``features`` are the flags that it supports.

    ``key`` is a public key made for this channel.

    A ``hidden`` node is no member. With ``pull`` it asks for the called node's frames after that number on
    this channel; without, the caller sends.
    """

    version: _Number
    env: Annotated[str, msgspec.Meta(max_length=255)]
    purpose: Purpose
    name: _Name
    creation: _Number
    to: _Name
    session: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
    yours: _Number
    key: _Key
    hidden: bool = False
    pull: _Number | None = None
    newest: _Number = 0
    features: _Features = ()


class Challenge(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The called node's name, and its request for proof; versions and features as in a Hello."""

    version: _Number
    name: _Name
    creation: _Number
    key: _Key
    newest: _Number = 0
    features: _Features = ()


class Proof(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The caller knows the cookie: it could seal this."""


class Accept(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """So does the called node. ``received`` is the last frame number it has of this session.

    ``session`` is the called node's own, for a caller that is never called back.
    """

    received: _Number
    session: _Number = 0


class Refuse(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Refusal, with the fields of :class:`~gossamer.distribution.errors.HandshakeError`."""

    code: Annotated[str, msgspec.Meta(max_length=64)]
    expected: Annotated[str, msgspec.Meta(max_length=512)]
    got: Annotated[str, msgspec.Meta(max_length=512)]
    refused_by: Annotated[str, msgspec.Meta(max_length=255)]
    advice: Annotated[str, msgspec.Meta(max_length=512)]


Handshake: TypeAlias = Hello | Challenge | Proof | Accept | Refuse


def spoken(said: Hello | Challenge) -> int:
    """Return the version that a link with the other side speaks: the newest of both; 0 if there is none."""
    common = min(said.newest or said.version, VERSION)
    return common if common >= max(said.version, OLDEST) else 0


class Batch(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """Frames, in order, as runs."""

    runs: list[tuple[_Number, list[bytes]]]


class Ack(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """Acknowledgement that every frame up to ``number`` has taken effect, and of those after it some.

    Of these each is named once on a connection, and of others ``parts``, each with the number of its frame,
    its first byte and the one behind its last. A release that does not know them waits for the others.
    """

    number: _Number
    ahead: tuple[_Number, ...] = ()
    parts: tuple[tuple[_Number, _Number, _Number], ...] = ()


encode = msgspec.msgpack.Encoder().encode
"""Encode any message of this module."""


def _decoder(kind: type[M], where: str, expected: str, limit: int = sys.maxsize) -> Callable[[bytes], M]:
    read = msgspec.msgpack.Decoder(kind).decode

    def decode(data: bytes) -> M:
        if len(data) > limit:
            raise WireError(where=where, expected=f"at most {limit} bytes", got=f"{len(data)} bytes")
        try:
            return read(data)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            got = f"undecodable bytes ({str(error)[:200]})"
            raise WireError(where=where, expected=expected, got=got) from None

    return decode


decode_handshake: Callable[[bytes], Handshake] = _decoder(
    Handshake,  # type: ignore[arg-type]  # a union
    "handshake",
    "a handshake message",
    HANDSHAKE_LIMIT,
)
"""Decode a message of the handshake. Raises WireError; so do the two below."""
decode_batch = _decoder(Batch, "incoming frames", "a Batch")
decode_ack = _decoder(Ack, "outgoing frames", "an Ack")
