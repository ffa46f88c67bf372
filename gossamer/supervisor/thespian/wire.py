"""Frames between a node and the host of its Thespian actors, over a socket pair that both inherit.

Each frame is one packet of a SOCK_SEQPACKET pair, so any number of actors can write to it and none tears
another's frame. msgpack, never pickle: an actor that was taken over must not get into the broker's
process. Values are plain data.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from gossamer.errors import UsageError

__all__ = [
    "MAX_FRAME",
    "Answer",
    "Ask",
    "BadValueError",
    "Crashed",
    "Create",
    "Created",
    "Deliver",
    "Ended",
    "Forget",
    "FrameToHost",
    "FrameToNode",
    "Halt",
    "NotCreated",
    "Published",
    "Refused",
    "Started",
    "StopActor",
    "Subscribed",
    "Tell",
    "Unsubscribed",
    "Up",
    "encode",
    "to_host",
    "to_node",
]

MAX_FRAME = 128 * 1024
"""Bytes of a frame; below what Linux lets a socket pair hold."""


class BadValueError(UsageError):
    """A value cannot go to a Thespian actor or come from one."""

    def __init__(self, *, value: object, reason: str) -> None:
        self.got = type(value).__name__
        self.reason = reason
        super().__init__(
            f"message of a Thespian actor: got {self.got} ({reason}), expected plain data "
            f"(None, numbers, text, bytes, lists, dictionaries) of at most {MAX_FRAME} bytes"
        )


class Create(Struct, frozen=True, array_like=True, tag="create"):
    actor: int
    target: str


class Tell(Struct, frozen=True, array_like=True, tag="tell"):
    actor: int
    value: Any


class Ask(Struct, frozen=True, array_like=True, tag="ask"):
    actor: int
    call: int
    value: Any
    timeout: float


class StopActor(Struct, frozen=True, array_like=True, tag="stop"):
    actor: int


class Deliver(Struct, frozen=True, array_like=True, tag="deliver"):
    address: str
    topic: str
    payload: bytes
    qos: int
    retain: bool


class Forget(Struct, frozen=True, array_like=True, tag="forget"):
    address: str


class Halt(Struct, frozen=True, array_like=True, tag="halt"):
    pass


class Up(Struct, frozen=True, array_like=True, tag="up"):
    port: int


class Refused(Struct, frozen=True, array_like=True, tag="refused"):
    reason: str


class Created(Struct, frozen=True, array_like=True, tag="created"):
    actor: int
    address: str


class NotCreated(Struct, frozen=True, array_like=True, tag="not_created"):
    actor: int
    reason: str


class Answer(Struct, frozen=True, array_like=True, tag="answer"):
    call: int
    value: Any
    failure: str | None


class Started(Struct, frozen=True, array_like=True, tag="started"):
    address: str
    pid: int
    of: str


class Crashed(Struct, frozen=True, array_like=True, tag="crashed"):
    address: str
    of: str
    error: str
    message: str
    traceback: str


class Ended(Struct, frozen=True, array_like=True, tag="ended"):
    address: str
    of: str
    status: int


class Published(Struct, frozen=True, array_like=True, tag="published"):
    topic: str
    payload: bytes
    qos: int
    retain: bool


class Subscribed(Struct, frozen=True, array_like=True, tag="subscribed"):
    address: str
    filter: str
    qos: int


class Unsubscribed(Struct, frozen=True, array_like=True, tag="unsubscribed"):
    address: str
    filter: str


FrameToHost = Create | Tell | Ask | StopActor | Deliver | Forget | Halt
FrameToNode = (
    Up
    | Refused
    | Created
    | NotCreated
    | Answer
    | Started
    | Crashed
    | Ended
    | Published
    | Subscribed
    | Unsubscribed
)

_encoder = msgspec.msgpack.Encoder()
_for_host: msgspec.msgpack.Decoder[FrameToHost] = msgspec.msgpack.Decoder(FrameToHost)
_for_node: msgspec.msgpack.Decoder[FrameToNode] = msgspec.msgpack.Decoder(FrameToNode)


def encode(frame: FrameToHost | FrameToNode) -> bytes:
    """The bytes of a frame.

    Raises:
        BadValueError: what it carries is not plain data, or too much.
    """
    value = getattr(frame, "value", None)
    try:
        packet = _encoder.encode(frame)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadValueError(value=value, reason=str(error)) from None
    if len(packet) > MAX_FRAME:
        raise BadValueError(value=value, reason=f"{len(packet)} bytes")
    return packet


def to_host(packet: bytes) -> FrameToHost:
    """What a node said."""
    return _for_host.decode(packet)


def to_node(packet: bytes) -> FrameToNode:
    """What the host or one of its actors said; raises ``msgspec.MsgspecError`` for nonsense."""
    return _for_node.decode(packet)
