"""Members and their events: the values that other packages see.

The vocabulary is swim-protocol's: :class:`swimprotocol.status.Status` with ONLINE, SUSPECT and OFFLINE. A
member that left voluntarily is OFFLINE with ``left`` set, for which that vocabulary has no word.

A *name* is the node's; an *id* is one instance of it (random, new at every start); an *incarnation* counts
the statements of that instance about itself, and only it may raise it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from swimprotocol.status import Status

from gossamer.errors import UsageError
from gossamer.network import Address

Name = Annotated[str, Meta(min_length=1, max_length=255)]
Port = Annotated[int, Meta(ge=0, le=65535)]
MAX_NUMBER = 2**53
MAX_METADATA = 512
"""Encoded bytes. The smallest ``cluster.gossip.mtu`` has room for them and a full member record."""
Number = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]


class MemberMetadata(msgspec.Struct, frozen=True, array_like=True):
    """Metadata of a member, set by itself; at most 512 bytes encoded.

    ``start_time`` is wall-clock seconds since 1970; ``ports`` maps a service to its port
    (``mqtt``, ``api``, ``gossip``, ``distribution``). A release that does not know the last ones skips them.
    """

    name: Name
    creation: Number = 0
    start_time: float = 0.0
    ports: dict[str, Port] = {}
    services: tuple[str, ...] = ()
    version: Annotated[str, Meta(max_length=64)] = ""
    pid: Number = 0
    rack: Annotated[str, Meta(max_length=64)] = ""
    off: tuple[str, ...] = ()
    """Services that it could run and does not."""


class MetadataTooLargeError(UsageError):
    """Metadata of a member that does not fit a packet."""

    def __init__(self, *, got: int) -> None:
        self.got = got
        super().__init__(
            f"member metadata: got {got} bytes encoded, expected at most {MAX_METADATA}; "
            "name fewer services or ports"
        )


def check_metadata(metadata: MemberMetadata) -> None:
    """Raise MetadataTooLargeError if ``metadata`` does not fit a packet."""
    size = len(msgspec.msgpack.encode(metadata))
    if size > MAX_METADATA:
        raise MetadataTooLargeError(got=size)


@dataclass(frozen=True, slots=True)
class Member:
    """Member in this node's current view."""

    id: str
    name: str
    address: str
    port: int
    status: Status
    incarnation: int
    metadata: MemberMetadata
    left: bool = False
    removed: bool = False
    """Removed after it was down for too long; a live one comes back by refuting. ``left`` is set too."""
    stopped: bool = False
    """Down after it announced its stop, if this node got the message, and expected back."""

    @property
    def endpoint(self) -> Address:
        """Address at which its gossip listens."""
        return (self.address, self.port)


@dataclass(frozen=True)
class _OfMember:
    member: Member


class MemberUp(_OfMember):
    """A member is new, or came back."""


class MemberSuspect(_OfMember):
    """A member does not answer, and may still refute."""


class MemberAlive(_OfMember):
    """A suspected member refuted."""


@dataclass(frozen=True, slots=True)
class MemberDown:
    """A member is declared down. ``reason``: ``unreachable``, ``refused``, ``reported``,
    ``replaced``, or ``stopped`` as it announced itself."""

    member: Member
    reason: str


class MemberLeft(_OfMember):
    """A member left voluntarily, was forced out, or was down for too long."""


class MemberUpdated(_OfMember):
    """A member's metadata or address changed."""


HintKind = Literal[
    "minority", "burst", "own-link", "partial", "udp-blocked", "accused", "healed-split", "view-mismatch"
]


@dataclass(frozen=True, slots=True)
class PartitionHint:
    """Sign that the network, not a member, is at fault. It is a hint: only a quorum or a lease fences.

    ``evidence`` is plain data that explains the hint to an operator.
    """

    kind: HintKind
    evidence: dict[str, object]


@dataclass(frozen=True, slots=True)
class NameConflict:
    """An older live node has this node's name; this one must stop."""

    name: str
    holder: Member


@dataclass(frozen=True, slots=True)
class ForcedOut:
    """An operator of another member removed this node from the cluster."""

    by: str


MemberEvent = (
    MemberUp
    | MemberSuspect
    | MemberAlive
    | MemberDown
    | MemberLeft
    | MemberUpdated
    | PartitionHint
    | NameConflict
    | ForcedOut
)


@dataclass(frozen=True, slots=True)
class LinkEvidence:
    """State of a data link to ``name``: evidence in addition to probes."""

    name: str
    kind: Literal["reset", "refused", "ok"]


@dataclass(frozen=True, slots=True)
class LoopLag:
    """This node's event loop was ``seconds`` late: missing answers in that time are no evidence."""

    seconds: float
