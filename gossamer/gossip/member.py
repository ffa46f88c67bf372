"""What is known of a member, and what happens to it: the values other packages see.

The vocabulary is swim-protocol's: :class:`swimprotocol.status.Status` with ONLINE, SUSPECT and OFFLINE. A
member that left on its own word is OFFLINE with ``left`` set, which that vocabulary has no word for.

A *name* is the node's; an *id* is one life of it (random, new at every start); an *incarnation* counts the
statements that life makes about itself and is owned by it alone.
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
"""Bytes, encoded. The smallest ``cluster.gossip.mtu`` has room for as much and a full member record."""
Number = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]


class MemberMetadata(msgspec.Struct, frozen=True, array_like=True):
    """What a member says of itself; at most 512 bytes encoded.

    ``start_time`` is wall-clock seconds since 1970; ``ports`` maps a service to its port
    (``mqtt``, ``api``, ``gossip``, ``distribution``).
    """

    name: Name
    creation: Number = 0
    start_time: float = 0.0
    ports: dict[str, Port] = {}
    services: tuple[str, ...] = ()
    version: Annotated[str, Meta(max_length=64)] = ""
    pid: Number = 0


class MetadataTooLargeError(UsageError):
    """Metadata of a member that no packet has room for."""

    def __init__(self, *, got: int) -> None:
        self.got = got
        super().__init__(
            f"member metadata: got {got} bytes encoded, expected at most {MAX_METADATA}; "
            "name fewer services or ports"
        )


def check_metadata(metadata: MemberMetadata) -> None:
    """Raise MetadataTooLargeError where a packet has no room for ``metadata``."""
    size = len(msgspec.msgpack.encode(metadata))
    if size > MAX_METADATA:
        raise MetadataTooLargeError(got=size)


@dataclass(frozen=True, slots=True)
class Member:
    """One member as this node sees it now."""

    id: str
    name: str
    address: str
    port: int
    status: Status
    incarnation: int
    metadata: MemberMetadata
    left: bool = False
    removed: bool = False
    """Gone because it was down for too long; one that lives comes back by saying so. ``left`` is set too."""
    stopped: bool = False
    """Down by its own word, as far as this node heard it, and expected back."""

    @property
    def endpoint(self) -> Address:
        """Where its gossip listens."""
        return (self.address, self.port)


@dataclass(frozen=True)
class _OfMember:
    member: Member


class MemberUp(_OfMember):
    """A member was heard of for the first time, or came back."""


class MemberSuspect(_OfMember):
    """A member does not answer; it may still refute."""


class MemberAlive(_OfMember):
    """A suspected member refuted."""


@dataclass(frozen=True, slots=True)
class MemberDown:
    """A member is considered dead. ``reason``: ``unreachable``, ``refused``, ``reported``,
    ``replaced``, or ``stopped`` by its own word."""

    member: Member
    reason: str


class MemberLeft(_OfMember):
    """A member left on its own word, was forced to, or was down for too long."""


class MemberUpdated(_OfMember):
    """A member's metadata or address changed."""


HintKind = Literal[
    "minority", "burst", "own-link", "partial", "udp-blocked", "accused", "healed-split", "view-mismatch"
]


@dataclass(frozen=True, slots=True)
class PartitionHint:
    """A sign that the network, not a member, is at fault. A hint: only a quorum or a lease fences.

    ``evidence`` is plain data that explains the kind to a person.
    """

    kind: HintKind
    evidence: dict[str, object]


@dataclass(frozen=True, slots=True)
class NameConflict:
    """Another living node has this node's name and is older; this one has to go."""

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
    """What a data link to ``name`` saw: evidence beside the probes."""

    name: str
    kind: Literal["reset", "refused", "ok"]


@dataclass(frozen=True, slots=True)
class LoopLag:
    """This node's event loop ran ``seconds`` late: what it did not hear meanwhile is no evidence."""

    seconds: float
