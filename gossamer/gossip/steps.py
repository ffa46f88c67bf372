"""What goes into the gossip state machine and what comes out of it.

Inputs carry what happened; actions say what to do about it. Addresses are where to send, bodies are plain:
the shell seals and opens envelopes, so the state machine can be run by the thousand without cryptography.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from gossamer.gossip.member import LinkEvidence, LoopLag, MemberEvent
from gossamer.gossip.requests import ForceLeave, Join, Leave, UpdateMetadata
from gossamer.network import Address

__all__ = [
    "STREAM_TIMEOUT",
    "Action",
    "Answer",
    "Emit",
    "Input",
    "JoinResult",
    "OpenStream",
    "PacketReceived",
    "ReplyStream",
    "Requested",
    "SendPacket",
    "StreamFailed",
    "StreamReplied",
    "StreamRequested",
    "Tick",
]

Token = Hashable
STREAM_TIMEOUT = 3.0


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed; ``deadline`` may have come."""


@dataclass(frozen=True, slots=True)
class PacketReceived:
    """An authentic datagram of the life ``sender``."""

    sender: str
    source: Address
    body: bytes


@dataclass(frozen=True, slots=True)
class StreamRequested:
    """A peer opened a stream and asked; answered by :class:`ReplyStream` with the same token, or not at
    all."""

    token: Token
    sender: str
    source: Address
    body: bytes


@dataclass(frozen=True, slots=True)
class StreamReplied:
    """The answer to an :class:`OpenStream`."""

    token: Token
    sender: str
    body: bytes


@dataclass(frozen=True, slots=True)
class StreamFailed:
    """An :class:`OpenStream` got no answer. ``refused``: the host is there, nobody listens."""

    token: Token
    reason: str


@dataclass(frozen=True, slots=True)
class Requested:
    """This node's own side asks for something; what it gets is an :class:`Answer` to the token."""

    token: Token
    request: Join | Leave | ForceLeave | UpdateMetadata


Input = (
    Tick
    | PacketReceived
    | StreamRequested
    | StreamReplied
    | StreamFailed
    | Requested
    | LinkEvidence
    | LoopLag
)


@dataclass(frozen=True, slots=True)
class JoinResult:
    """Which seeds answered, and what the others did instead."""

    joined: tuple[Address, ...] = ()
    failed: Mapping[Address, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SendPacket:
    address: Address
    body: bytes


@dataclass(frozen=True, slots=True)
class OpenStream:
    """Connect, send ``body``, wait for one answer, all within ``timeout`` seconds."""

    token: Token
    address: Address
    body: bytes
    timeout: float


@dataclass(frozen=True, slots=True)
class ReplyStream:
    token: Token
    body: bytes


@dataclass(frozen=True, slots=True)
class Emit:
    """Tell subscribers."""

    event: MemberEvent


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a request."""

    token: Token
    result: object


Action = SendPacket | OpenStream | ReplyStream | Emit | Answer
