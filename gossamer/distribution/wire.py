"""What travels on a channel: handshake messages first, then batches of frames one way and acks the other.

A channel carries whole messages (``bytes``); this module gives each its shape. Every message is one msgpack
array whose first element is its tag, encoded and decoded in C by msgspec, because the cost of a message is
its handling in Python and not its length.

Rules: 1. Decoding takes any bytes and answers with a message or :class:`WireError`, nothing else.  2. A
message of the handshake is short (:data:`HANDSHAKE_LIMIT`), whatever an unauthenticated peer claims.
3. Tags are never reused; the version is raised when a shape changes.

A :class:`Batch` holds *runs*: ``(first, frames)`` are reliable frames numbered ``first``, ``first + 1``, …;
``(0, frames)`` are unreliable ones, which have no number. Runs stand in the order of sending.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from gossamer.distribution.errors import WireError

VERSION = 3
ANYBODY = "*"
"""Called by who knows an address and no name: the Challenge tells it, and the call ends there."""
NONCE_SIZE = 32
HANDSHAKE_LIMIT = 4096
Purpose = Literal["control", "replication", "data"]
PURPOSES: tuple[Purpose, ...] = ("control", "replication", "data")
"""The streams of a link, in the order in which they are opened."""

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
_Nonce = Annotated[bytes, msgspec.Meta(min_length=NONCE_SIZE, max_length=NONCE_SIZE)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Opens a channel: who calls, whom, for what, in which session. ``yours`` is 0 while unknown.

    A ``hidden`` node is no member. With ``pull`` it asks for the called node's frames after that number on
    this channel; without, the caller sends.
    """

    version: _Number
    env: Annotated[str, msgspec.Meta(max_length=255)]
    purpose: str
    name: _Name
    creation: _Number
    to: _Name
    session: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
    yours: _Number
    nonce: _Nonce
    hidden: bool = False
    pull: _Number | None = None


class Challenge(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The called node names itself and asks for proof."""

    version: _Number
    name: _Name
    creation: _Number
    nonce: _Nonce


class Proof(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The caller knows the cookie."""

    mac: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]


class Accept(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """So does the called node; ``received`` is the last frame number it has of this session.

    ``session`` is the called node's own, for a caller that is never called back.
    """

    mac: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    received: _Number
    session: _Number = 0


class Refuse(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Why not, in the words of :class:`~gossamer.distribution.errors.HandshakeError`."""

    code: Annotated[str, msgspec.Meta(max_length=64)]
    expected: Annotated[str, msgspec.Meta(max_length=512)]
    got: Annotated[str, msgspec.Meta(max_length=512)]
    refused_by: Annotated[str, msgspec.Meta(max_length=255)]
    advice: Annotated[str, msgspec.Meta(max_length=512)]


Handshake: TypeAlias = Hello | Challenge | Proof | Accept | Refuse


class Batch(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """Frames, in order, as runs."""

    runs: list[tuple[_Number, list[bytes]]]


class Ack(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """Every frame up to ``number`` has taken effect."""

    number: _Number


Message: TypeAlias = Batch | Ack

_encoder = msgspec.msgpack.Encoder()
_handshakes: msgspec.msgpack.Decoder[Handshake] = msgspec.msgpack.Decoder(Handshake)
_messages: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)

encode = _encoder.encode
"""The bytes of any message of this module."""


def decode_handshake(data: bytes) -> Handshake:
    """A message of the handshake. Raises WireError."""
    if len(data) > HANDSHAKE_LIMIT:
        raise WireError(
            where="handshake", expected=f"at most {HANDSHAKE_LIMIT} bytes", got=f"{len(data)} bytes"
        )
    try:
        return _handshakes.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise WireError(where="handshake", expected="a handshake message", got=_describe(error)) from None


def decode_message(data: bytes) -> Message:
    """A message of an open channel. Raises WireError."""
    try:
        return _messages.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise WireError(where="open channel", expected="a message", got=_describe(error)) from None


def _describe(error: Exception) -> str:
    return f"undecodable bytes ({str(error)[:200]})"
