"""What the entries of a group add up to: its kind, the node of each replica, and its user's state machine.

An entry's first byte says whose it is. A replica's number is the index of the entry that admitted it, so no
number is given twice, also not to the same node after its disc was lost. The kind, which says what state
machine the group has, is in the entry of its founder.

A group may have *offspring*: a request has another group begin at the same replicas, with their numbers, and
with entries behind the index of that request's. What it begins with stays in the state, and so in snapshots,
until somebody leads it: then a quorum of its voters has its beginning on disc.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

import msgspec

from gossamer.raft.errors import DamagedLogError
from gossamer.raft.values import Entry, Kind, Membership

FOUNDER = 1
"""Number of the first replica of a group, which no entry admits."""
NAMES = "names"
"""Kind of a group whose founder's entry says none."""
_ADMIT, _REQUEST, _FOUND, _STANDS = b"\0", b"\1", b"\2", b"\3"
_DIGEST = 16


class Durable(msgspec.Struct, frozen=True):
    """Result of a request that is answered only once the discs of so many voters have it."""

    value: object
    voters: int


class Born(msgspec.Struct, frozen=True):
    """Result of a request with which another group begins: its number, its kind, and what the snapshot of its
    state machine is at first."""

    value: object
    group: int
    kind: str
    state: bytes


class Offspring(msgspec.Struct, frozen=True, array_like=True):
    """A group as it begins: behind which index, with which members, and with which snapshot."""

    group: int
    index: int
    membership: Membership
    snapshot: bytes


class StateMachine(Protocol):
    """The user's part. Deterministic: equal requests in equal order make equal states and results."""

    released: bool
    """Whether nobody wants the group any more: its leader has all nodes drop it."""

    def apply(self, index: int, request: bytes) -> object:
        """Take a request that is committed as entry ``index``; return its result, a :class:`Durable` or
        :class:`Born`."""

    def read(self, question: bytes) -> object:
        """Answer a question by the state as it is."""

    def snapshot(self) -> bytes:
        """Return the whole state."""

    def restore(self, data: bytes) -> None:
        """Replace the state by that of a snapshot."""

    def upkeep(self, leading_for: float, in_sync: int | None) -> list[bytes]:
        """Return requests that time has made due. The leader asks about once a second; ``in_sync`` voters,
        with itself, keep up with it; None: it does not know yet."""


Machines = Callable[[str], StateMachine]
"""Makes the state machine of a group by its kind."""


class _Image(msgspec.Struct, frozen=True, array_like=True):
    nodes: dict[int, str]
    state: bytes
    kind: str = NAMES
    offspring: list[Offspring] = []
    began: int = 0


_image = msgspec.msgpack.Decoder(_Image).decode
_founder = msgspec.msgpack.Decoder(tuple[str, str]).decode


def admission(node: str) -> bytes:
    """Return the entry that admits a replica at a node."""
    return _ADMIT + node.encode()


def founding(node: str, kind: str) -> bytes:
    """Return the first entry of a group of this kind, which was founded at a node."""
    return admission(node) if kind == NAMES else _FOUND + msgspec.msgpack.encode((node, kind))


def request_entry(request: bytes) -> bytes:
    """Return the entry of a request to the state machine."""
    return _REQUEST + request


def standing(group: int) -> bytes:
    """Return the entry that says that somebody leads a group which began here."""
    return _STANDS + msgspec.msgpack.encode(group)


def offspring_in(snapshot: bytes, where: str) -> list[Offspring]:
    """Return the groups that begin with a snapshot, unless their replicas are there. Raises
    DamagedLogError."""
    return _image(sound(snapshot, where)).offspring


def sound(data: bytes, where: str) -> bytes:
    """Return a snapshot without its checksum.

    Raises:
        DamagedLogError: it is not what was stored.
    """
    digest, body = data[:_DIGEST], data[_DIGEST:]
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
        raise DamagedLogError(where, got="another checksum", expected="the snapshot that was stored")
    return body


class Replicated:
    """State up to the last entry that was applied."""

    def __init__(self, machines: Machines, kind: str = NAMES) -> None:
        self._machines = machines
        self.kind = kind
        self.machine = machines(kind)
        self.nodes: dict[int, str] = {}
        """Node of each replica that was ever admitted."""
        self.offspring: list[Offspring] = []
        """Groups that have begun here, and are not known to be led yet."""
        self.began = 0
        """Index behind which the group began: up to there, numbers of replicas are those of another one."""

    def apply(self, entry: Entry) -> object:
        """Take the next entry; return what its request came to."""
        if entry.kind is not Kind.DATA or not entry.data:
            return None
        form, body = entry.data[:1], entry.data[1:]
        if form == _REQUEST:
            return self.machine.apply(entry.index, body)
        if form == _STANDS:
            stands = msgspec.msgpack.decode(body)
            self.offspring = [one for one in self.offspring if one.group != stands]
            return None
        # The founder's own entry comes first, and says what its node is called.
        if form == _FOUND:
            node, kind = _founder(body)
            # A group that was recovered begins with the state of the one before.
            if kind != self.kind:
                self.kind, self.machine = kind, self._machines(kind)
            self.nodes[FOUNDER] = node
            return FOUNDER
        number = entry.index if self.nodes else FOUNDER
        self.nodes[number] = body.decode()
        return number

    def bear(self, born: Born, index: int, membership: Membership) -> Offspring:
        """Return the group that begins with the result of entry ``index``."""
        # Of a change of voters that is under way the later ones: a quorum of them has the entry, too.
        snapshot = _checked(_Image(self.nodes, born.state, born.kind, began=index))
        offspring = Offspring(born.group, index, membership.left(), snapshot)
        self.offspring.append(offspring)
        return offspring

    def snapshot(self) -> bytes:
        """Return everything, with a checksum."""
        return _checked(_Image(self.nodes, self.machine.snapshot(), self.kind, self.offspring, self.began))

    def restore(self, data: bytes, where: str) -> None:
        """Take over a snapshot.

        Raises:
            DamagedLogError: it is not what was stored.
        """
        image = _image(sound(data, where))
        self.nodes = dict(image.nodes)
        self.offspring, self.began = list(image.offspring), image.began
        if image.kind != self.kind:
            self.kind, self.machine = image.kind, self._machines(image.kind)
        self.machine.restore(image.state)


def _checked(image: _Image) -> bytes:
    body = msgspec.msgpack.encode(image)
    return hashlib.blake2b(body, digest_size=_DIGEST).digest() + body
