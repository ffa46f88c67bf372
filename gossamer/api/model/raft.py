"""Replicas of the cluster's groups, and the names that one gives, as the API shows them."""

from __future__ import annotations

from pydantic import Field

from gossamer.api.model.base import Value


class ReplicaInfo(Value):
    """A member of the group."""

    node: str
    """Blank: not known yet."""
    replica: int
    voter: bool
    match: int | None = None
    """How far the leader knows its log to be on its disc; null: this is not the leader."""
    flow: str = ""
    """How entries go to it: `probe`, `replicate` or `snapshot`."""


class GroupInfo(Value):
    """A group, as its leader sees it, or this node where none leads."""

    kind: str
    """What it decides: `names`, or a range of keys, such as `basekv/0`."""
    group: str
    """Its number in hexadecimal; another where it was founded anew."""
    leader: str = ""
    """Node; blank: none leads, so fewer than half of the voters are up."""
    told_by: str
    """The node that told this."""
    term: int = 0
    committed: int = 0
    applied: int = 0
    changing: bool = False
    """True while its voters change."""
    members: tuple[ReplicaInfo, ...] = ()


class TransferRequest(Value):
    """The voter that becomes leader, and of which group."""

    node: str = Field(min_length=1, max_length=255)
    kind: str = Field("names", min_length=1, max_length=255)


class KeyRange(Value):
    """A range of keys: a group of replicas has those from `start` up to `end`, excluded."""

    range: int
    """Its number, which is no other's."""
    kind: str
    """The kind of its group."""
    start: str
    """In hexadecimal."""
    end: str | None
    """In hexadecimal; null: it goes up to the last key."""
    version: int
    """It rises with each change of the borders."""
    leader: str = ""
    """Node; blank: none is known to lead."""
    size: int | None = None
    """Bytes of its keys and values at most, and at least half of that; null: nobody has told yet."""


class SplitRequest(Value):
    """Where a range is split: the first key of the one that begins, in hexadecimal."""

    key: str = Field(min_length=2, max_length=64, pattern="^([0-9a-fA-F]{2})+$")


class MergeRequest(Value):
    """The range that takes over its neighbour on the right, by its number."""

    range: int = Field(ge=0, lt=2**63, strict=True)


class UniqueName(Value):
    """A name with one holder."""

    name: str
    node: str
    pid: str
    fence: int
    """Fencing token: greater than that of every earlier holder."""
