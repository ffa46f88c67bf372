"""What other processes ask of gossip; what goes into its state machine, and what comes out of it.

A caller's mistake (metadata too large, an unknown key) comes back as the answer: a ``UsageError``, not
raised.

Inputs carry what happened; actions say what to do about it. Addresses are where to send, bodies are plain:
the shell seals and opens envelopes, so the state machine can be run by the thousand without cryptography.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from gossamer.gossip.member import LinkEvidence, LoopLag, MemberEvent, MemberMetadata
from gossamer.network import Address

Token = Hashable
STREAM_TIMEOUT = 3.0


# -- requests


class Join(Struct, frozen=True):
    """Call: exchange tables with these addresses. Answered with a :class:`~gossamer.gossip.JoinResult`."""

    addresses: tuple[Address, ...]


class Leave(Struct, frozen=True):
    """Call: tell everybody and be alone. Answered with None when it has spread.

    ``returning``: stopped, and expected back: the others hold it for down, not for gone.
    """

    returning: bool = False


class ForceLeave(Struct, frozen=True):
    """Call: remove a member for good. Answered with False where no such member is known.

    ``final`` False: only where it is down, and until it says that it lives.
    """

    name: str
    final: bool = True


class UpdateMetadata(Struct, frozen=True):
    """Call: say something new about this node. Answered with None, or the error."""

    metadata: MemberMetadata


class Keys(Struct, frozen=True):
    """Call: change the keyring of this node. Answered with the names of its keys, the one in use first, or
    with the error.

    ``key`` is 16 bytes or more for ``install``, and a key's name for ``use`` and ``remove``. Rotate without
    downtime: install everywhere, use everywhere, remove everywhere.
    """

    action: Literal["list", "install", "use", "remove"]
    key: bytes | str = ""


# -- in


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


# -- out


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
