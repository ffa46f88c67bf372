"""Values of consensus: entries of the log, members, what a disc must keep, what a host is asked for.

A **replica** is one copy of one group. Its number is unique in the group for ever: a replica that lost its
disc has promised things that it cannot know any more, so it returns under a new number, as a new member.

A **membership** is whole, not a difference, and is an entry of the log. It takes effect when it is appended,
not when it is committed, as in Ongaro's thesis (section 4.1): so the members are a function of the log alone,
and a restart or a truncation needs no other rule.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from gossamer.raft.quorum import Vote, joint_outcome, jointly_acknowledged


class Kind(enum.IntEnum):
    """Kind of an entry."""

    DATA = 0
    MEMBERSHIP = 1


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Entry of the log; ``data`` is the state machine's, blank in a leader's first entry.

    It is in no cycle, so the collector need not look at the thousands that there are.
    """

    index: int
    term: int
    data: bytes = b""
    kind: Kind = Kind.DATA

    @property
    def size(self) -> int:
        """Size in bytes, near enough for limits."""
        return len(self.data) + 16


class Membership(msgspec.Struct, frozen=True, array_like=True):
    """Members of a group, as sorted numbers.

    ``outgoing`` are the voters before a change that is under way; both sets must agree to everything until
    it is empty again. Learners get the log and decide nothing; one that is in ``outgoing`` too is a voter
    that becomes a learner.
    """

    voters: tuple[int, ...] = ()
    outgoing: tuple[int, ...] = ()
    learners: tuple[int, ...] = ()

    @property
    def joint(self) -> bool:
        """True while a change of voters is under way."""
        return bool(self.outgoing)

    @property
    def members(self) -> tuple[int, ...]:
        """Everyone who gets the log."""
        return tuple(sorted({*self.voters, *self.outgoing, *self.learners}))

    def votes(self, replica: int) -> bool:
        """Return whether a replica is a voter."""
        return replica in self.voters or replica in self.outgoing

    def acknowledged(self, acks: Mapping[int, int]) -> int:
        """Return the largest index that a quorum has acknowledged."""
        return jointly_acknowledged(self.voters, self.outgoing, acks)

    def outcome(self, votes: Mapping[int, bool]) -> Vote:
        """Return the state of a vote."""
        return joint_outcome(self.voters, self.outgoing, votes)

    def left(self) -> Membership:
        """Return the members after the change that is under way."""
        return Membership(self.voters, (), self.learners)


class HardState(msgspec.Struct, frozen=True, array_like=True):
    """What must be on disc before a promise is sent; ``commit`` may be late."""

    term: int = 0
    vote: int = 0
    commit: int = 0


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """Position of a snapshot in the log: the entry that it ends with, and the members there."""

    index: int = 0
    term: int = 0
    membership: Membership = Membership()


class ReadState(msgspec.Struct, frozen=True):
    """A read that may be answered once ``index`` is applied: it then sees all that was acknowledged before
    it was asked for."""

    context: int
    index: int


class ChunkWanted(msgspec.Struct, frozen=True):
    """Wish for one chunk: read it from the snapshot at this position and hand it to ``Replica.chunk``."""

    to: int
    snapshot: Snapshot
    offset: int


_encode = msgspec.msgpack.Encoder().encode
_membership = msgspec.msgpack.Decoder(Membership).decode


def membership_of(entry: Entry) -> Membership:
    """Return the members that an entry says."""
    return _membership(entry.data)


def membership_entry(index: int, term: int, membership: Membership) -> Entry:
    """Return an entry that says who the members are."""
    return Entry(index, term, _encode(membership), Kind.MEMBERSHIP)
