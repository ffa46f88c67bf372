"""Messages between the servers of nodes, over the links' control stream, and requests of clients.

Nothing here is acknowledged: whoever lacks a message asks again.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gossamer.distribution import register_message

RAFT = "raft"
"""Registered name of the server on every node."""


NO_GROUP = "no group of replicas is known"
NO_LEADER = "no leader is known: fewer than half of the voters can be reached"
PACKETS_BYTES = 1024 * 1024
"""Bytes of messages that leave together, unless a single one is longer. The largest frame is far longer."""


class Packets(Struct, frozen=True):
    """Messages of the replicas at ``node``: of each its group, and itself as ``messages.encode`` has it."""

    node: str
    messages: list[tuple[int, bytes]]


class Create(Struct, frozen=True):
    """A leader admitted a replica at the receiver."""

    group: int
    replica: int


class Gone(Struct, frozen=True):
    """``node`` has not the replica to which a message was sent."""

    group: int
    replica: int
    node: str


class Removed(Struct, frozen=True):
    """A leader tells the receiver that its replica is no member of the group any more."""

    group: int
    replica: int


class Told(Struct, frozen=True):
    """Whether ``node`` can have replicas, and the term in which it leads each group that it leads.

    ``answer``: its server has just begun, and wants to be told the same.
    """

    node: str
    able: bool
    leads: dict[int, int]
    answer: bool = False


class Where(Struct, frozen=True):
    """Call: the number of the group of a kind, and the node that leads it; 0 and blank where not known."""

    kind: str


class Wanted(Struct, frozen=True):
    """Call, which has it cast to all nodes: there should be a group of a kind, unless there is."""

    kind: str


class Submit(Struct, frozen=True):
    """Call: commit a request."""

    group: int
    request: bytes


class Read(Struct, frozen=True):
    """Call: answer a question by the state as of now; with ``more`` of them the result is a list."""

    group: int
    question: bytes
    more: list[bytes] = []
    """A release that does not know them answers the first alone."""


class Ask(Struct, frozen=True):
    """Call of the node's own: have the leader of the group of a kind answer a question, as :class:`Read`."""

    kind: str
    question: bytes


class ReadHere(Struct, frozen=True):
    """Call: answer a question by the replica of this node, by a state that is at most so many seconds old;
    None: it has none."""

    kind: str
    question: bytes
    max_staleness: float


class GiveUp(Struct, frozen=True):
    """Call of the node's own: have no group of a kind any more; whether this node led one."""

    kind: str


class Transfer(Struct, frozen=True):
    """Call: hand leadership of a group to the voter at ``node``."""

    group: int
    node: str


class Done(Struct, frozen=True):
    """Answer to a call that was taken: the result."""

    value: object


class NotDone(Struct, frozen=True):
    """Answer to a call that was not taken here, or of which that is not known; the ``leader`` to ask."""

    why: str
    leader: str = ""


def parts(messages: list[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    """Divide messages into those that leave together."""
    part: list[tuple[int, bytes]] = []
    size = 0
    for number, data in messages:
        if part and size + len(data) > PACKETS_BYTES:
            yield part
            part, size = [], 0
        part.append((number, data))
        size += len(data)
    yield part


for _type in (Packets, Create, Gone, Removed, Told, Wanted, Submit, Read, Transfer, Done, NotDone):
    register_message(_type, f"raft.{_type.__name__}")
