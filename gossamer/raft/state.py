"""State of a replica that all of its roles share, and how it becomes a follower.

What a replica sends is in two lists. ``messages`` may leave before the disc has anything: a leader's entries
are on their way while it writes them itself. ``promises`` may not: who has a promise relies on what the disc
must hold by then, the vote, the term and the entries.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from random import Random

import msgspec

from gossamer.raft.freshness import Freshness
from gossamer.raft.log import Log
from gossamer.raft.messages import Chunk, Message
from gossamer.raft.progress import Progress
from gossamer.raft.values import ChunkWanted, Entry, HardState, Membership, ReadState, Snapshot


class Role(enum.Enum):
    """Role of a replica in its term."""

    FOLLOWER = "follower"
    TRIAL = "trial candidate"
    """It asks whether it would be elected, before it begins a term."""
    CANDIDATE = "candidate"
    LEADER = "leader"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and times of a group, times in ticks of its host.

    A follower campaigns after ``election_ticks`` to twice that without a leader, busy or idle: so no interval
    of heartbeats may be more than half of that.
    """

    election_ticks: int = 10
    heartbeat_ticks: int = 1
    idle_heartbeat_ticks: int = 1
    """Of a group whose members all have the whole log, and whose leader has nothing to say."""
    max_append_bytes: int = 256 * 1024
    """Of one message; an entry that is larger goes alone."""
    max_inflight: int = 64
    """Messages with entries on their way to one member."""
    max_unstable_bytes: int = 16 * 2**20
    """Entries that wait for the disc, or at a leader for a quorum; more are refused."""
    max_apply_bytes: int = 2**20
    """Committed entries that are handed out at once."""


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of work for the host, see ``replica``."""

    hard: HardState | None
    """None: as before."""
    entries: list[Entry]
    """To be written in place of all that is there from the first one's index on."""
    snapshot: Snapshot | None
    """To be installed in place of everything: the chunks that were staged are whole."""
    chunks: list[Chunk]
    messages: list[Message]
    promises: list[Message]
    committed: list[Entry]
    reads: list[ReadState]
    wanted: list[ChunkWanted]
    must_sync: bool


class Staged(msgspec.Struct):
    """Snapshot that is being received, and from whom: two replicas' snapshots of one position differ."""

    sender: int
    term: int
    snapshot: Snapshot
    received: int = 0


class Round(msgspec.Struct, frozen=True):
    """Heartbeats to all: what was committed when they were sent, and the last stamp of each member then."""

    number: int
    committed: int
    stamps: dict[int, int]
    reads: list[tuple[int, int]]
    """Context and replica of each read that waits for it."""


NO_ROUND = Round(0, 0, {}, [])


class State:
    """One replica: what it knows, what it is, and what it wants to send."""

    def __init__(
        self,
        replica: int,
        log: Log,
        hard: HardState,
        settings: Settings,
        random: Random,
        clock: Callable[[], float],
    ) -> None:
        self.id = replica
        self.log = log
        self.settings = settings
        self.random = random
        self.term = hard.term
        self.vote = hard.vote
        log.commit_to(hard.commit)
        self.role = Role.FOLLOWER
        self.leader = 0
        """Number of the leader; 0: not known."""
        self.elapsed = 0
        """Ticks since a leader was heard of; at a leader, since quorums were checked."""
        self.since_heartbeat = 0
        self.draw = 0.0
        """Drawn anew with each role and term, from 0 to 1."""
        # A disc that lost what it had acknowledged is found out when the leader mentions it. Until it had the
        # time to, a vote of this replica could elect one that lacks the same entries.
        self.guarded = settings.election_ticks if hard.term else 0
        """Ticks in which it does not vote, because it has just restarted."""
        self.elections = 0
        """Elections that it has begun."""
        self.votes: dict[int, bool] = {}
        self.progress: dict[int, Progress] = {}
        """At a leader, all members with itself."""
        self.transferee = 0
        """The member to which leadership goes; 0: none."""
        self.round = 0
        self.reads_asked: list[tuple[int, int]] = []
        """Context and replica of each read that has no round yet."""
        self.rounds: deque[Round] = deque()
        """Those that are not confirmed."""
        self.confirmed = NO_ROUND
        """The last one that a quorum answered."""
        self.freshness = Freshness(clock)
        self.staged: Staged | None = None

        self.messages: list[Message] = []
        self.promises: list[Message] = []
        self.chunks: list[Chunk] = []
        self.install: Snapshot | None = None
        self.wanted: list[ChunkWanted] = []
        self.reads: list[ReadState] = []
        self.reset(self.term)

    @property
    def membership(self) -> Membership:
        """The members, by its log."""
        return self.log.membership

    @property
    def may_campaign(self) -> bool:
        """Whether it is a voter, or was one before an entry that is not known to be committed: the voters
        whom that one names may lack it, and then nobody else who has it can be elected."""
        log = self.log
        return log.membership.votes(self.id) or (
            log.membership_index > log.committed and log.membership_at(log.committed).votes(self.id)
        )

    @property
    def timeout(self) -> int:
        """Ticks without a leader after which it campaigns.

        Voters that heard of the leader at the same moment have numbers of their own, far apart, or two would
        campaign at once and neither win; and a tick more than what others wait for before they vote, who may
        have counted one less.
        """
        voters = sorted(self.membership.voters)
        place = voters.index(self.id) if self.id in voters else 0
        ticks = self.settings.election_ticks
        apart = max(1, (ticks - 1) // max(1, len(voters)))
        return ticks + 1 + place * apart + int(self.draw * max(1, apart - 1))

    def reset(self, term: int) -> None:
        """Forget what belongs to a role, and to the old term where it is another."""
        if term != self.term:
            self.term = term
            self.vote = 0
        self.leader = 0
        self.elapsed = self.since_heartbeat = 0
        self.draw = self.random.random()
        self.votes = {}
        self.progress = {}
        self.transferee = 0
        self.reads_asked.clear()
        self.rounds.clear()
        self.confirmed = NO_ROUND
        self.wanted.clear()


def become_follower(state: State, term: int, leader: int) -> None:
    """Follow a leader, or nobody that is known (0)."""
    state.reset(term)
    state.role = Role.FOLLOWER
    state.leader = leader
