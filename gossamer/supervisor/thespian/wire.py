"""Frames between a node and the host of its Thespian actors, over a socket pair that both inherit.

Each frame is one packet of a SOCK_SEQPACKET pair, so any number of actors can write to it without mixing
frames. msgpack, never pickle: a compromised actor must not get into the broker's
process. Values are plain data.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from gossamer.errors import UsageError
from gossamer.supervisor.thespian.messages import Delivered, Publish, Subscribe, Unsubscribe

MAX_FRAME = 128 * 1024
"""Maximum bytes of a frame; below Linux's limit of a socket pair."""


class BadValueError(UsageError):
    """A value cannot be sent to a Thespian actor or received from one."""

    def __init__(self, *, value: object, reason: str) -> None:
        self.got = type(value).__name__
        self.reason = reason
        super().__init__(
            f"message of a Thespian actor: got {self.got} ({reason}), expected plain data "
            f"(None, numbers, text, bytes, lists, dictionaries) of at most {MAX_FRAME} bytes"
        )


class Frame(Struct, array_like=True, tag=True):
    """Packet; the class name is its tag."""


class Create(Frame):
    actor: int
    target: str


class Tell(Frame):
    actor: int
    value: Any


class Ask(Frame):
    actor: int
    call: int
    value: Any
    timeout: float


class StopActor(Frame):
    actor: int


class Deliver(Frame):
    address: str
    message: Delivered


class Forget(Frame):
    """The actor that subscribed has ended."""

    address: str


class Halt(Frame):
    pass


class Up(Frame):
    port: int


class Refused(Frame):
    reason: str


class Created(Frame):
    actor: int
    address: str


class NotCreated(Frame):
    actor: int
    reason: str


class Answer(Frame):
    call: int
    value: Any
    failure: str | None


class Started(Frame):
    address: str
    pid: int


class Crashed(Frame):
    address: str
    error: str
    message: str
    traceback: str


class Ended(Frame):
    address: str
    of: str
    status: int


class Requested(Frame):
    """An actor's request to the broker."""

    address: str
    request: Publish | Subscribe | Unsubscribe


FrameToHost = Create | Tell | Ask | StopActor | Deliver | Forget | Halt
FrameToNode = Up | Refused | Created | NotCreated | Answer | Started | Crashed | Ended | Requested

_for_host: msgspec.msgpack.Decoder[FrameToHost] = msgspec.msgpack.Decoder(FrameToHost)
_for_node: msgspec.msgpack.Decoder[FrameToNode] = msgspec.msgpack.Decoder(FrameToNode)


def encode(frame: FrameToHost | FrameToNode) -> bytes:
    """Encode a frame.

    Raises:
        BadValueError: its value is not plain data, or too large.
    """
    value = getattr(frame, "value", None)
    try:
        packet = msgspec.msgpack.encode(frame)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadValueError(value=value, reason=str(error)) from None
    if len(packet) > MAX_FRAME:
        raise BadValueError(value=value, reason=f"{len(packet)} bytes")
    return packet


def to_host(packet: bytes) -> FrameToHost:
    """Decode a node's frame."""
    return _for_host.decode(packet)


def to_node(packet: bytes) -> FrameToNode:
    """Decode a frame of the host or an actor; raises ``msgspec.MsgspecError`` if it is invalid."""
    return _for_node.decode(packet)
