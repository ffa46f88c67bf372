"""Requests to gossip, inputs of its state machine, and its actions.

A caller's mistake (metadata too large, an unknown key) is returned as the answer: a ``UsageError``, not
raised.

Inputs are events; actions are their consequences. Bodies are plain: the shell seals and opens envelopes, so
thousands of state machines can run without cryptography.
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
    """Call: announce the departure and leave the cluster. Answered with None when it has spread.

    ``returning``: stopped, and expected back: the others consider it down, not left.
    """

    returning: bool = False


class ForceLeave(Struct, frozen=True):
    """Call: remove a member permanently. Answered with False if no such member is known.

    ``final`` False: only if it is down, and until it announces that it is alive.
    """

    name: str
    final: bool = True


class UpdateMetadata(Struct, frozen=True):
    """Call: change this node's metadata. Answered with None, or the error."""

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
    """Time passed; ``deadline`` may be due."""


@dataclass(frozen=True, slots=True)
class PacketReceived:
    """An authenticated datagram of the instance ``sender``."""

    sender: str
    source: Address
    body: bytes


@dataclass(frozen=True, slots=True)
class StreamRequested:
    """A peer's request on a stream; answered by :class:`ReplyStream` with the same token, or not at
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
    """An :class:`OpenStream` got no answer. ``refused``: the host is up, the port is closed."""

    token: Token
    reason: str


@dataclass(frozen=True, slots=True)
class Requested:
    """A request of this node's own processes; an :class:`RequestResult` to the token follows."""

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
    """Seeds that answered, and the failures of the others."""

    joined: tuple[Address, ...] = ()
    failed: Mapping[Address, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SendPacket:
    """Send a datagram to whoever is at ``address``, or as an answer to the instance ``to`` only."""

    address: Address
    body: bytes
    to: str = ""


@dataclass(frozen=True, slots=True)
class OpenStream:
    """Connect, send ``body`` and wait for one answer, within ``timeout`` seconds."""

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
    """Send an event to subscribers."""

    event: MemberEvent


@dataclass(frozen=True, slots=True)
class RequestResult:
    """Result of a request."""

    token: Token
    result: object


Action = SendPacket | OpenStream | ReplyStream | Emit | RequestResult
